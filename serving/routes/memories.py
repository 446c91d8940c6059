"""/v1/memories and /v1/answers: notes, single memories, where they came from, decisions of people, feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from crag_runtime.recording.feedback import answer_record, give_feedback
from crag_runtime.recording.objects import feedback_object, trace_object
from governance.decisions import Decision
from governance.explain import explain
from governance.lineage import traced
from governance.objects import decided_object, explanation_object
from governance.policy import policy_of
from governance.review import decide
from kb.errors import InputError
from kb.history import AnswerId
from kb.keys import Holder, KeyScope
from kb.memories import Note
from kb.model import MemoryId, Scope, SourceClass, Standing
from kb.objects import memory_object
from kb.sweeps import SweepJob
from serving.principal import Asker, Writer, actor_of, service_of
from serving.problems import Forbidden
from serving.service import Service

if TYPE_CHECKING:
    from kb.keys import Principal

router = APIRouter(tags=["memories"])
Parts = Annotated[Service, Depends(service_of)]
MemoryIdPath = Annotated[str, Path(description="The memory's id.", max_length=128)]
MAX_IDS = 500
Object = dict[str, Any]


class ScopeBody(BaseModel):
    """Whose a memory is inside the tenant; empty: everybody's."""

    model_config = ConfigDict(extra="forbid")
    agent: str = Field(default="", max_length=128)
    user: str = Field(default="", max_length=128)
    conversation: str = Field(default="", max_length=128)

    def scope(self) -> Scope:
        """Return it as the core's word."""
        return Scope(agent=self.agent, user=self.user, conversation=self.conversation)


class NoteBody(BaseModel):
    """A note to remember. An agent's note waits in quarantine, whatever it says of itself."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"text": "The Anping bridge is closed on Mondays.", "title": "Anping bridge"}]},
    )
    text: str = Field(min_length=1, max_length=8_192)
    title: str = Field(default="", max_length=512)
    source: str = Field(default="", max_length=2_048, description="URI that it is credited to")
    scope: ScopeBody = Field(default_factory=ScopeBody)
    confidence: float | None = Field(default=None, ge=0, le=1, description="prior; only a person's key may set it")
    metadata: dict[str, Any] = Field(default_factory=dict)
    derived_from: list[str] = Field(
        default_factory=list, max_length=100, description="ids of memories or answers that it was written from"
    )


class DecisionsBody(BaseModel):
    """One decision on many memories: one sweep, undone as one."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"decision": "verify", "ids": ["m1"]}]})
    decision: Decision
    ids: list[str] = Field(min_length=1, max_length=MAX_IDS)
    reason: str = Field(default="", max_length=2_000)


class ReasonBody(BaseModel):
    """Why, in your own words; kept in the journal."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(default="", max_length=2_000)


class FeedbackBody(BaseModel):
    """Whether an answer was right; credits only what it cited and what supports it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"good": True}]})
    good: bool
    memory_id: str | None = Field(default=None, max_length=128, description="credit this cited memory alone")
    by: str = Field(
        default="", max_length=100, description="who says so, not for an agent's key; one person counts once a question"
    )


@router.post("/v1/memories", status_code=201, summary="Add a note")
async def add(body: NoteBody, caller: Writer, service: Parts) -> Object:
    """Store a note. The same note twice is one memory."""
    note = _note(body, caller)
    return await service.threads.call(_added, service, note)


@router.get("/v1/memories", summary="List memories in the order of their ids")
async def list_(
    caller: Asker,
    service: Parts,
    standing: Annotated[list[Standing] | None, Query(description="Only these standings.")] = None,
    after: Annotated[str, Query(max_length=128, description="Go on after this id.")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Object:
    """List memories of the key's tenant."""
    return await service.threads.call(_page, service, caller.tenant, after, limit, tuple(standing or ()))


@router.post("/v1/memories/decisions", summary="Verify, reject, pin, restore or annotate many at once")
async def decisions(body: DecisionsBody, caller: Writer, service: Parts) -> Object:
    """Carry out one decision on many memories as one sweep; `POST /v1/governance/undo` takes it back."""
    _refuse_deciding(body.decision, caller)
    return await service.threads.call(_decided, service, caller, body.decision, body.ids, body.reason)


@router.get("/v1/memories/{memory_id}", summary="Show one memory whole")
async def get(memory_id: MemoryIdPath, caller: Asker, service: Parts) -> Object:
    """Return text, source, trust now, and when it leaves the gate."""
    return await service.threads.call(_one, service, memory_id, caller.tenant)


@router.get("/v1/memories/{memory_id}/trace", summary="Where a memory or an answer came from, and what was made of it")
async def trace(
    memory_id: MemoryIdPath, caller: Asker, service: Parts, *, up: bool = True, down: bool = True
) -> Object:
    """Return its lineage in both directions, or in one."""
    return await service.threads.call(_traced, service, memory_id, caller.tenant, up, down)


@router.get("/v1/memories/{memory_id}/explain", summary="Why a memory stands where it stands")
async def explained(memory_id: MemoryIdPath, caller: Asker, service: Parts) -> Object:
    """Return prior, evidence, decay, what sweeps did, and what comes next."""
    return await service.threads.call(_explained, service, memory_id, caller.tenant)


@router.post("/v1/memories/{memory_id}/{decision}", summary="Decide on one memory")
async def decision(
    memory_id: MemoryIdPath,
    decision: Decision,
    caller: Writer,
    service: Parts,
    body: Annotated[ReasonBody | None, Body()] = None,
) -> Object:
    """Carry out a decision; `POST /v1/governance/undo` takes it back."""
    _refuse_deciding(decision, caller)
    reason = "" if body is None else body.reason
    return await service.threads.call(_decided, service, caller, decision, [memory_id], reason)


@router.get("/v1/answers/{answer_id}", summary="How an answer came about")
async def answer(
    answer_id: Annotated[str, Path(max_length=128)],
    caller: Asker,
    service: Parts,
) -> Object:
    """Return path, verdicts, grades, citations and costs."""
    return await service.threads.call(_answer, service, answer_id, caller.tenant)


@router.post("/v1/answers/{answer_id}/feedback", summary="Say whether an answer was right")
async def feedback(
    answer_id: Annotated[str, Path(max_length=128)], body: FeedbackBody, caller: Writer, service: Parts
) -> Object:
    """Move the confidence of the memories that an answer cited, and of no other."""
    return await service.threads.call(_fed_back, service, caller, answer_id, body)


def _note(body: NoteBody, caller: Principal) -> Note:
    """Return the note; what an agent writes is an agent's.

    Raises:
        Forbidden: an agent would say how far it is to be believed.
    """
    is_agent = caller.holder is Holder.AGENT
    if is_agent and body.confidence is not None:
        raise Forbidden("an agent's key may not set a confidence", hint="leave it out: the note waits for others")
    return Note(
        text=body.text,
        tenant=caller.tenant,
        by=SourceClass.AGENT if is_agent else SourceClass.PERSON,
        source=body.source,
        title=body.title,
        scope=body.scope.scope(),
        confidence=body.confidence,
        metadata=body.metadata,
        derived_from=tuple(body.derived_from),
    )


def _added(service: Service, note: Note) -> Object:
    memory, drained = service.memories.add_note(note)
    return {**memory_object(service.memories, memory), "outbox_pending": drained.pending}


def _page(service: Service, tenant: str, after: str, limit: int, standings: tuple[Standing, ...]) -> Object:
    page = service.memories.page(tenant, after=after, limit=limit, standings=standings)
    listed = [memory_object(service.memories, m) for m in page]
    return {"memories": listed, "next": page[-1].id if len(page) == limit else None}


def _one(service: Service, id_: str, tenant: str) -> Object:
    return memory_object(service.memories, service.memories.get(MemoryId(id_), tenant))


def _traced(service: Service, id_: str, tenant: str, up: bool, down: bool) -> Object:  # noqa: FBT001 - a thread's call
    if not (up or down):
        raise InputError("a trace goes up, down, or both ways")
    return traced(service.memories, id_, tenant, up=up, down=down).as_json()


def _explained(service: Service, id_: str, tenant: str) -> Object:
    memories = service.memories
    policy = policy_of(service.settings, tenant)
    return explanation_object(memories, explain(memories, MemoryId(id_), policy, memories.clock.now()))


def _refuse_deciding(decision: Decision, caller: Principal) -> None:
    """Let only who may govern decide; a remark changes nothing, so that a writer may leave it.

    Raises:
        Forbidden: the key may not.
    """
    if decision is not Decision.ANNOTATE and not caller.may(KeyScope.GOVERN):
        raise Forbidden(f"the key {caller.name!r} lacks the scope govern: it may not {decision.value} a memory")


def _decided(service: Service, caller: Principal, decision: Decision, ids: list[str], reason: str) -> Object:
    memories = service.memories
    decided = decide(
        memories,
        list(map(MemoryId, ids)),
        SweepJob(decision.value),
        policy=policy_of(service.settings, caller.tenant),
        actor=actor_of(caller),
        reason=reason,
    )
    return decided_object(memories, decided)


def _answer(service: Service, answer_id: str, tenant: str) -> Object:
    record = answer_record(service.memories, AnswerId(answer_id), tenant)
    with service.memories.ledger.read() as tx:
        evaluations = tx.evaluations.of_answer(record.id)
    return trace_object(record, evaluations)


def _fed_back(service: Service, caller: Principal, answer_id: str, body: FeedbackBody) -> Object:
    """Give feedback in the name of the key and of who it says speaks: no two keys' people are one.

    Raises:
        Forbidden: an agent would lend its word to somebody else.
    """
    is_agent = caller.holder is Holder.AGENT
    if is_agent and body.by:
        raise Forbidden("an agent's key speaks for its agent alone", hint="leave `by` out")
    only = None if body.memory_id is None else MemoryId(body.memory_id)
    given = give_feedback(
        service.memories,
        AnswerId(answer_id),
        caller.tenant,
        is_good=body.good,
        only=only,
        by=f"{caller.name}/{body.by}" if body.by else caller.name,
        is_agent=is_agent,
    )
    return feedback_object(service.memories, given)
