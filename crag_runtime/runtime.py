"""The runtime's door: ask, stream, resume, give feedback. One object serves any number of questions at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.types import Command

from crag_runtime.checkpoints import Kept
from crag_runtime.events import Event as Event  # noqa: PLC0414 - part of this door
from crag_runtime.events import Seen
from crag_runtime.nodes.approve import checked_decision
from crag_runtime.result import Answer, AskRequest, Context, Waiting, answer_of, cited_ids
from crag_runtime.runs import GRACE, Closed, Runs
from crag_runtime.state import RunState, findings_of
from crag_runtime.task import task_of
from crag_runtime.turns import Turns
from kb.errors import DependencyError, InputError, KbError, LedgerUnavailable
from kb.history import AnswerId
from kb.ids import digest
from kb.log import get_logger
from kb.telemetry import WORKFLOW, Attr, Metric, Operation, Span, count, messages, observe, span

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.runtime import RunControl

    from crag_runtime.deps import Deps
    from crag_runtime.evidence import Evidence
    from crag_runtime.graph import Compiled
    from kb.model import Scope
    from kb.telemetry import Recording

CLOSED = "the runtime was closed while the question was worked on"
SAID = {Attr.OPERATION: Operation.WORKFLOW.value, Attr.WORKFLOW: WORKFLOW}


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """The two graphs of a runtime: one writes answers, the other gathers evidence for a caller that does."""

    answering: Compiled
    gathering: Compiled


class CragRuntime:
    """Answers questions. Made by `build_runtime`; belongs to one event loop."""

    def __init__(
        self,
        deps: Deps,
        graphs: Graphs,
        *,
        checkpointer: BaseCheckpointSaver[str] | None,
        durability: str,
        is_lasting: bool,
    ) -> None:
        self.deps = deps
        self._graph = graphs.answering
        self._gathering = graphs.gathering
        self._durability: Any = None if checkpointer is None else durability if is_lasting else "exit"
        self._is_lasting = is_lasting
        self._kept = None if checkpointer is None else Kept(checkpointer, is_lasting=is_lasting)
        self._runs = Runs()
        self._turns = Turns(deps.threads, deps.store.memories.ledger, is_shared=is_lasting)

    async def ask(self, request: AskRequest) -> Answer | Waiting:
        """Return the answer, or the search that waits for a person.

        Raises:
            InputError: the request is not valid.
            Refused: the index was built with another embedder or schema.
            LedgerUnavailable: what was found cannot be kept, where it must be.
            KbError: something unexpected; an outside service that fails is an outcome, not an exception.
        """
        return await _last(self.stream(request))

    async def resume(
        self,
        thread: str,
        tenant: str,
        *,
        scope: Scope | None = None,
        decision: str = "",
        query: str = "",
        answer_id: str = "",
    ) -> Answer | Waiting:
        """Go on with a question that waits for a person, or that a crash cut off.

        Args:
            thread: its thread; the answer's id when it was asked without one.
            tenant: whose question it was.
            scope: as when it was asked.
            decision: approve, decline or edit; "" after a crash.
            query: for edit: the words to search instead.
            answer_id: of the question that is decided on, so that a newer one on its thread is not; "" for any.

        Raises:
            InputError: nothing waits there, another question does, or nothing is kept.
        """
        return await _last(
            self.resuming(thread, tenant, scope=scope, decision=decision, query=query, answer_id=answer_id)
        )

    async def gather(self, request: AskRequest) -> Context:
        """Return graded, refined evidence for a caller whose own model writes the answer. Never waits for a person.

        Raises:
            InputError: the request is not valid.
            Refused: the index was built with another embedder or schema.
        """
        count(Metric.REQUESTS)
        given = _given(request, uuid.uuid4().hex, approve=self.unattended(request))

        async def work(emit: Callable[[Context], None], control: RunControl) -> None:
            with span(Span.ASK, SAID) as recording:
                with _typed(self.deps.policy.budgets.steps):
                    ended: Any = await self._gathering.ainvoke(
                        given, self._config(""), context=self.deps, control=control
                    )
                state: RunState = ended
                task = await task_of(state, self.deps)
                answer = await self._finished(state)
                _tell(recording, state, answer)
            emit(Context(answer=answer, excerpts=task.excerpts))

        return [context async for context in self._runs.events(work)][-1]

    def unattended(self, request: AskRequest) -> str:
        """Return who decides on a search when nobody can be asked: what costs nothing needs nobody."""
        asked, search = request.approve or self.deps.policy.approve, self.deps.search
        is_free = search is not None and not search.is_paid
        return "always" if asked == "always" or (asked == "ask" and is_free) else "never"

    def stream(self, request: AskRequest) -> AsyncGenerator[Event]:
        """Yield steps and tokens as they come, and the result last. Who stops reading ends the question."""
        answer_id = uuid.uuid4().hex
        thread = request.thread or answer_id
        given = _given(request, answer_id, approve=request.approve)
        key = _thread_key(request.tenant, request.scope, thread)
        run = _Run(key=key, thread=thread, is_named=bool(request.thread))

        async def work(emit: Callable[[Event], None], control: RunControl) -> None:
            count(Metric.REQUESTS)
            async with self._turns.of(key, is_known=run.is_named):
                await self._answer(given, run, emit, control)

        return self._runs.events(work)

    def resuming(
        self,
        thread: str,
        tenant: str,
        *,
        scope: Scope | None = None,
        decision: str = "",
        query: str = "",
        answer_id: str = "",
    ) -> AsyncGenerator[Event]:
        """Yield what is left of an interrupted question; see `resume`."""
        from kb.model import Scope as Whose  # noqa: PLC0415 - only the default needs it

        key = _thread_key(tenant, scope or Whose(), thread)

        async def work(emit: Callable[[Event], None], control: RunControl) -> None:
            said = checked_decision(decision, query)
            if self._kept is None:
                raise InputError("nothing is kept to go on from", hint="set ask.checkpointer to sqlite or postgres")
            async with self._turns.of(key, is_known=True):
                is_asked = await self._waits(key, thread, answer_id)
                if is_asked and said is None:
                    raise InputError(
                        f"the question on thread {thread} waits for a decision",
                        hint="approve, decline, or edit with words",
                    )
                going_on: Any = Command(resume=said) if is_asked else None
                await self._answer(going_on, _Run(key=key, thread=thread, is_named=True), emit, control)

        return self._runs.events(work)

    async def _waits(self, key: str, thread: str, answer_id: str) -> bool:
        """Return whether the question that is kept there waits for a person; False when it was cut off.

        Raises:
            InputError: none is kept, or another than the one meant.
        """
        snapshot = await self._graph.aget_state(self._config(key))
        if not snapshot.next:
            raise InputError(f"no question waits on thread {thread}")
        if answer_id and snapshot.values.get("answer_id") != answer_id:
            raise InputError(
                f"another question waits on thread {thread} by now", hint="ask again, or decide on the one that waits"
            )
        return any(task.interrupts for task in snapshot.tasks)

    async def aclose(self, grace: float = GRACE) -> None:
        """End what runs, after its current step where that takes no more than `grace` seconds; take no new question."""
        await self._runs.aclose(grace)

    async def _answer(self, given: Any, run: _Run, emit: Callable[[Event], None], control: RunControl) -> None:  # noqa: ANN401 - input or command
        began = time.perf_counter()
        seen = Seen()
        result: Answer | Waiting | None = None
        try:
            with span(Span.ASK, SAID) as recording:
                with _typed(self.deps.policy.budgets.steps, run.thread if self._is_lasting else "", control):
                    await self._followed(given, run.key, seen, emit, control)
                observe(Metric.ASK_SECONDS, time.perf_counter() - began)
                if seen.asked is None:
                    result = await self._finished(seen.state)
                else:
                    result = _waiting(seen.asked, seen.state, run.thread)
                _tell(recording, seen.state, result)
        finally:
            can_be_named = run.is_named or control.drain_requested
            if self._kept is not None:
                is_broken = result is None and can_be_named
                await self._kept.left(run.key, is_waiting=isinstance(result, Waiting), is_broken=is_broken)
        emit(Event(kind="answer" if isinstance(result, Answer) else "waiting", result=result))

    async def _followed(
        self,
        given: Any,  # noqa: ANN401 - input or command
        key: str,
        seen: Seen,
        emit: Callable[[Event], None],
        control: RunControl,
    ) -> None:
        parts: AsyncIterator[Any] = self._graph.astream(
            given,
            self._config(key),
            context=self.deps,
            stream_mode=["updates", "custom", "values"],
            durability=self._durability,
            control=control,
        )
        try:
            async for mode, data in parts:
                for event in seen.events(mode, data):
                    emit(event)
        except LedgerUnavailable as error:  # the checkpoints' database: what has ended needs it no more
            ended = seen.end()
            if ended is None:
                raise
            seen.state = ended
            get_logger().warning("checkpoint_not_kept", problem=str(error))

    async def _finished(self, state: RunState) -> Answer:
        deps = self.deps
        ids = dict.fromkeys(cited_ids(state), 0.0)
        evidence: Mapping[str, Evidence] | None = {}
        if ids:
            try:
                evidence = await deps.threads.call(
                    deps.store.evidence,
                    ids,
                    findings_of(state),
                    tenant=state["tenant"],
                    now=state["asked_at"],
                    backup=deps.policy.backup_tenant,
                )
            except DependencyError as error:
                evidence = None
                state = {**state, "degraded": [*state["degraded"], f"citations: {type(error).__name__}: {error}"]}
        answer = answer_of(state, evidence)
        count(Metric.OUTCOMES, outcome=answer.outcome.value)
        if state["searches"]:  # a search that was declined, or wanted in vain, corrected nothing
            count(Metric.FALLBACKS)
        return answer

    def _config(self, key: str) -> Any:  # noqa: ANN401 - the graph's own configuration
        return {
            "configurable": {"thread_id": key},
            "recursion_limit": self.deps.policy.budgets.steps,
            "max_concurrency": self.deps.policy.grade_concurrency,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Where one question is kept.

    Args:
        key: of its checkpoints.
        thread: as the caller names it.
        is_named: whether the caller knows the name whatever happens.
    """

    key: str
    thread: str
    is_named: bool


@contextlib.contextmanager
def _typed(steps: int, thread: str = "", control: RunControl | None = None) -> Iterator[None]:
    """Say in our own words how a graph stopped short."""
    hint = f"it is kept: go on with thread {thread}" if thread else "ask again"
    try:
        yield
    except GraphRecursionError as error:
        raise KbError(
            f"the question took more than {steps} steps and was stopped: a defect, please report it"
        ) from error
    except GraphDrained as error:
        raise Closed(CLOSED, hint=hint) from error
    except asyncio.CancelledError:
        if control is None or not control.drain_requested:
            raise
        raise Closed(CLOSED, hint=hint) from None  # its step took longer than the grace


def _tell(recording: Recording, state: RunState, result: Answer | Waiting) -> None:
    """Say on the question's span how it ended."""
    recording.set(
        {Attr.ANSWER: state["answer_id"], Attr.TENANT: state["tenant"], Attr.CONVERSATION: state.get("thread") or None}
    )
    recording.capture(Attr.INPUT, lambda: messages([("user", state["question"])]))
    if isinstance(result, Waiting):
        recording.set({Attr.OUTCOME: "waiting"})
        return
    usage = result.usage
    recording.set(
        {
            Attr.OUTCOME: result.outcome.value,
            Attr.VERDICT: result.verdict.value,
            Attr.CALLS: usage.llm_calls,
            Attr.SEARCHES: usage.searches,
        }
    )
    recording.capture(Attr.OUTPUT, lambda: messages([("assistant", result.text)]))


def _given(request: AskRequest, answer_id: str, *, approve: str) -> RunState:
    scope = request.scope
    return RunState(
        question=request.question,
        tenant=request.tenant,
        scope={"agent": scope.agent, "user": scope.user, "conversation": scope.conversation},
        thread=request.thread,
        answer_id=answer_id,
        at=request.at,
        sources=list(request.sources),
        doc_ids=list(request.doc_ids),
        approve=approve,
    )


def _thread_key(tenant: str, scope: Scope, thread: str) -> str:
    """Return where a thread's state is kept: no two tenants, users or conversations share one."""
    return digest("thread", tenant, scope.agent, scope.user, scope.conversation, thread)


def _waiting(asked: Mapping[str, Any], state: RunState, thread: str) -> Waiting:
    return Waiting(
        answer_id=AnswerId(state["answer_id"]),
        thread=thread,
        queries=tuple(asked["queries"]),
        provider=asked.get("provider", ""),
        max_searches=asked.get("max_searches", 0),
        kind="search" if "provider" in asked else "evidence",
        found=tuple(asked.get("found", ())),
    )


async def _last(events: AsyncIterator[Event]) -> Answer | Waiting:
    result: Answer | Waiting | None = None
    async for event in events:
        result = event.result or result
    assert result is not None
    return result
