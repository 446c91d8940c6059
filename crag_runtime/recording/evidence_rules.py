"""Which events move the confidence of which memories, and how: pure, the design's trust rules for the runtime.

What trusted evidence says of untrusted evidence counts, once per witness; what an answer, the web or an evaluator says
counts for nothing. What a person has rejected stays so: no event of the runtime moves it any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Protocol

from crag_runtime.evidence import Origin, Outcome
from crag_runtime.recording.keys import normalised
from kb.errors import InputError
from kb.evidence_rules import is_rejected
from kb.history import EVIDENCE_WEIGHT, EvidenceEvent, EvidenceKind, told_by
from kb.ids import ID_LENGTH, digest
from kb.independence import independent
from kb.model import Kind, MemoryId, SourceClass, Standing
from kb.trust import passes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from crag_runtime.evidence import Conflict, Evidence
    from kb.history import AnswerId, AnswerRecord
    from kb.model import Instant, Json, Memory, Scope
    from kb.trust import TrustPolicy

CONTRADICTING = frozenset(("number", "date", "version", "negation"))  # kinds of conflict; names differ too easily
HANDED_OVER = "handed_over"  # in an answer's report: its citations were shown to a caller, none of them answered
ANONYMOUS = "anonymous"
AGENTS = "agents"
NAME_BYTES = 128  # of who gives feedback


class Agreeing(Protocol):
    """Pieces of evidence that give the same value for one sub-question."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the evidence."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A memory as it stands while evidence is written: what it may say of others, and whether it may be told of.

    Args:
        evidence: the memory as evidence.
        scope: whose it is.
        can_testify: active, verified and above the gate.
        can_hear: unverified, not rejected, and of the standing it had when it was read.
    """

    evidence: Evidence
    scope: Scope
    can_testify: bool
    can_hear: bool


def party_of(
    memory: Memory,
    evidence: Evidence,
    *,
    policy: TrustPolicy,
    gate: float,
    now: Instant,
    history: Sequence[EvidenceEvent] = (),
    is_finding: bool = False,
) -> Party:
    """Return a memory's part in what is said of it and by it.

    Args:
        memory: as it is stored now.
        evidence: the same, as evidence.
        policy: of its source class.
        gate: effective confidence that a witness must exceed.
        now: the instant at which it must.
        history: the memory's earlier events.
        is_finding: it was read from the web, not from the store: quarantine is where it belongs.
    """
    as_read = (Standing.ACTIVE, Standing.QUARANTINED) if is_finding else (Standing.ACTIVE,)
    trust, is_answer = memory.trust, Kind.ANSWER is memory.kind or memory.source_class is SourceClass.ANSWER
    is_trusted = memory.standing is Standing.ACTIVE and trust.verified and evidence.origin is Origin.MEMORY
    is_open = memory.standing in as_read and not trust.verified and not is_rejected(memory, history)
    return Party(
        evidence=evidence,
        scope=memory.scope,
        can_testify=is_trusted and not is_answer and passes(trust, gate, now, policy.half_life),
        can_hear=is_open and not is_answer,
    )


def corroboration(
    agreements: Sequence[Agreeing],
    conflicts: Sequence[Conflict],
    *,
    parties: Mapping[str, Party],
    ancestors: Mapping[str, frozenset[str]],
    answer_id: AnswerId,
    tenant: str,
    now: Instant,
) -> tuple[EvidenceEvent, ...]:
    """Return what verified memories say of unverified ones: one event per memory, kind and witness.

    A witness is the root source of an independent, verified memory that everybody may see who sees the other one.
    Verified memories lose nothing by a contradiction; web findings and answers witness nothing. Names that differ
    contradict nobody. The reason names the witness, never what is said: an event outlives what it was about.

    Args:
        agreements: groups that give the same value.
        conflicts: groups that give different ones; those on one side agree with each other.
        parties: by id; ids without an entry are left out.
        ancestors: see `kb.independence.independent`.
        answer_id: the answer it came about with.
        tenant: of the memories.
        now: when.
    """
    groups = [a.ids for a in agreements] + [side.ids for c in conflicts for side in c.sides]
    events: dict[tuple[str, EvidenceKind, str], EvidenceEvent] = {}
    for hearer, kind, witness in sorted({*_agreed(groups), *_contradicted(conflicts)}):
        one, other = parties.get(hearer), parties.get(witness)
        if one is None or other is None or not _counts(one, other, ancestors):
            continue
        event = EvidenceEvent(
            memory_id=MemoryId(hearer),
            tenant=tenant,
            kind=kind,
            weight=EVIDENCE_WEIGHT[kind] * (1.0 if kind is EvidenceKind.AGREEMENT else -1.0),
            witness=other.evidence.root,
            answer_id=answer_id,
            reason=told_by(witness, kind),
            at=now,
        )
        events.setdefault((hearer, kind, other.evidence.root), event)
    return tuple(events[key] for key in sorted(events))


def feedback_events(
    answer: AnswerRecord,
    *,
    is_good: bool,
    only: MemoryId | None = None,
    by: str = "",
    is_agent: bool = False,
    now: Instant,
) -> tuple[EvidenceEvent, ...]:
    """Return what feedback on an answer says of the memories that it cited and that support it; of no others.

    An answer that shows a conflict, or passages that were handed over to a caller, says itself nothing that could be
    good or bad: there `only` must name the memory that is meant.

    Args:
        answer: as it was given.
        is_good: whether it was right.
        only: credit this memory alone; None for all.
        by: who says so; "" is one anonymous person. A person's word on a question counts once per memory, however
            often the question is asked and answered anew.
        is_agent: `by` is an agent. All agents are one witness: under how many names and in how many wordings one hand
            asks cannot be told. Their good word on a memory counts once, and so does their bad one.
        now: when.

    Raises:
        InputError: `only` is missing where it must be given, was not cited or does not support the answer; `by` is
            longer than 128 bytes.
    """
    if len(by.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        raise InputError(f"the name of who gives feedback is longer than {NAME_BYTES} bytes")
    if only is None and (what := _is_no_claim(answer)):
        raise InputError(
            f"feedback on answer {answer.id} must name a memory: {what}",
            hint=f"say which one was {'right' if is_good else 'wrong'} with --memory; `kb trace` lists them",
        )
    creditable = _creditable(answer)
    if only is not None and only not in creditable:
        cited = any(c.memory_id == only for c in answer.citations)
        what = "does not support it" if cited else "was not cited by it"
        raise InputError(
            f"feedback on answer {answer.id} cannot credit memory {only}: it {what}",
            hint="only memories that the answer cites as support are credited; `kb trace` lists them",
        )
    weight = EVIDENCE_WEIGHT[EvidenceKind.FEEDBACK] * (1.0 if is_good else -1.0)
    said = _called(is_good=is_good, is_whole=only is None) + (f" by the agent {by}" if is_agent else "")
    return tuple(
        EvidenceEvent(
            memory_id=id_,
            tenant=answer.tenant,
            kind=EvidenceKind.FEEDBACK,
            weight=weight,
            witness=_of_agents(is_good=is_good) if is_agent else _person(answer, by),
            answer_id=answer.id,
            reason=said,
            at=now,
        )
        for id_ in creditable
        if only is None or id_ == only
    )


def heeds_agents(memory: Memory, *, policy: TrustPolicy, gate: float, now: Instant) -> bool:
    """Return whether agents' feedback moves a memory: only what nobody vouched for, and may be retrieved as it is.

    What a person, an owner or a check has vouched for they may not wear down, nor bring back what has left the gate.

    Args:
        memory: as it is stored now.
        policy: of its source class.
        gate: effective confidence that it must exceed.
        now: the instant at which it must.
    """
    is_open = memory.standing is Standing.ACTIVE and not memory.trust.verified
    return is_open and passes(memory.trust, gate, now, policy.half_life)


def _agreed(groups: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, EvidenceKind, str]]:
    for ids in groups:
        for hearer, witness in product(ids, ids):
            if hearer != witness:
                yield hearer, EvidenceKind.AGREEMENT, witness


def _contradicted(conflicts: Iterable[Conflict]) -> Iterator[tuple[str, EvidenceKind, str]]:
    for conflict in conflicts:
        if conflict.kind not in CONTRADICTING:
            continue
        stands = [id_ for side in conflict.sides for id_ in set(side.ids)]
        undecided = {id_ for id_ in stands if stands.count(id_) > 1}  # it gives both values
        for one, other in product(conflict.sides, conflict.sides):
            if one is other:
                continue
            for hearer, witness in product(one.ids, other.ids):
                if not {hearer, witness} & undecided:
                    yield hearer, EvidenceKind.CONTRADICTION, witness


def _counts(hearer: Party, witness: Party, ancestors: Mapping[str, frozenset[str]]) -> bool:
    """Return whether what one memory says of another is evidence."""
    if not hearer.can_hear or not witness.can_testify or not _sees(hearer.scope, witness.scope):
        return False
    return independent(hearer.evidence, witness.evidence, ancestors)


def _sees(hearer: Scope, witness: Scope) -> bool:
    """Return whether everybody who may see the hearer may see the witness: no private memory moves a shared one."""
    return (
        witness.agent in ("", hearer.agent)
        and witness.user in ("", hearer.user)
        and witness.conversation in ("", hearer.conversation)
    )


def _is_no_claim(answer: AnswerRecord) -> str:
    """Return why an answer says nothing that could be right or wrong as a whole; "" when it does."""
    if answer.report.get(HANDED_OVER) is True:
        return "its passages were handed over, it says nothing itself"
    return "it shows both sides of a conflict" if answer.outcome == Outcome.CONFLICT else ""


def _creditable(answer: AnswerRecord) -> list[MemoryId]:
    """Return the memories that feedback may name: what supports the answer, either side, or what was handed over."""
    sides = _side_ids(answer.report.get("conflicts")) if answer.outcome == Outcome.CONFLICT else set()
    is_handed_over = answer.report.get(HANDED_OVER) is True
    ids = (c.memory_id for c in answer.citations if c.supports or is_handed_over or c.memory_id in sides)
    return list(dict.fromkeys(ids))


def _side_ids(conflicts: Json) -> set[str]:
    """Return the ids on all sides of the conflicts in a report."""
    found = conflicts if isinstance(conflicts, list) else []
    sides = [side for c in found if isinstance(c, dict) and isinstance(own := c.get("sides"), list) for side in own]
    ids = (side.get("ids") for side in sides if isinstance(side, dict))
    return {str(id_) for listed in ids if isinstance(listed, list) for id_ in listed}


def _called(*, is_good: bool, is_whole: bool) -> str:
    if is_whole:
        return f"an answer that rests on it was called {'good' if is_good else 'bad'}"
    return f"it was called {'right' if is_good else 'wrong'} for an answer's question"


def _of_agents(*, is_good: bool) -> str:
    return f"feedback:{AGENTS}:{'right' if is_good else 'wrong'}"


def _person(answer: AnswerRecord, by: str) -> str:
    """Return who speaks on what: the same for every answer to one question."""
    question = normalised(str(answer.report.get("question") or answer.question))
    return f"feedback:{by or ANONYMOUS}:{digest('feedback', answer.tenant, question)[:ID_LENGTH]}"
