"""What a verified memory's agreement or contradiction is worth to another one: evidence, once per witness. Pure.

An echo is no witness: the runtime's own answers, what was made from the memory or from the same thing, two passages of
one document, the same root source, a copy of another witness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from governance.contradict import Agree, Contradict
from kb.evidence_rules import is_rejected
from kb.history import EVIDENCE_WEIGHT, EvidenceEvent, EvidenceKind, told_by
from kb.independence import ROOT, independent, root_of
from kb.model import Kind, SourceClass, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import Action, ActionKind
from kb.telling import plain
from kb.trust import passes
from kb.vouching import AGAINST, FOR, check_witness, is_persons, known_as, roots_of, vouchers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.contradict import Comparison
    from governance.policy import Policy
    from kb.model import Instant, Json, Memory, MemoryId, Scope

BORNE_OUT = 0.5  # least share of a memory's claims that a witness must bear out; one true line vouches for no other
AGREED, CONTRADICTED, CHECKED = "agreed", "contradicted", "checked"  # reasons of actions


@dataclass(frozen=True, slots=True)
class Voice:
    """A memory as a witness: see `kb.independence.Witness`."""

    id: str
    source_class: SourceClass
    root: str
    doc_id: str | None


def voice_of(memory: Memory) -> Voice:
    """Return a memory as a witness."""
    return Voice(memory.id, memory.source_class, root_of(memory), memory.doc_id)


def can_testify(memory: Memory, policy: Policy, now: Instant) -> bool:
    """Return whether a memory may say something of others: active, verified, above the gate, no answer.

    One that is contested still may: else an unverified memory could silence a verified one by contradicting it.
    """
    half_life = policy.trust[memory.source_class].half_life
    is_sure = memory.standing is Standing.ACTIVE and memory.trust.verified
    return is_sure and memory.kind is not Kind.ANSWER and passes(memory.trust, policy.gate, now, half_life)


def can_hear(memory: Memory, history: Sequence[EvidenceEvent]) -> bool:
    """Return whether evidence may move a memory: live, unverified, no answer, neither rejected nor rolled back."""
    is_live = memory.standing in (Standing.ACTIVE, Standing.QUARANTINED)
    is_open = is_live and not memory.trust.verified and memory.kind is not Kind.ANSWER
    return is_open and not is_rolled_back(memory) and not is_rejected(memory, history)


def can_be_told(memory: Memory, witness: Memory, history: Mapping[MemoryId, Sequence[EvidenceEvent]]) -> bool:
    """Return whether a witness's words may move a memory: one that nobody vouched for, or checks alone.

    The latter only a person's or an owner's word does: what a check has vouched for never outranks theirs.
    """
    own = history.get(memory.id, ())
    if not memory.trust.verified:
        return can_hear(memory, own)
    bare = replace(memory, trust=replace(memory.trust, verified=False))
    is_checks = bool(vouchers(memory, own)) and is_persons(witness, history.get(witness.id, ()))
    return is_checks and can_hear(bare, own)


def sees(hearer: Scope, witness: Scope) -> bool:
    """Return whether everybody who may see the hearer may see the witness: no private memory moves a shared one."""
    pairs = (
        (hearer.agent, witness.agent),
        (hearer.user, witness.user),
        (hearer.conversation, witness.conversation),
    )
    return all(theirs in ("", own) for own, theirs in pairs)


def least_share(memory: Memory) -> float:
    """Return the least share of a memory's claims that a witness must bear out.

    A note of an agent is borne out whole or not at all: it can put what it likes beside a line that others hold true.
    """
    return 1.0 if memory.source_class is SourceClass.AGENT else BORNE_OUT


def witnessed(
    hearer: Memory, witness: Memory, said: Comparison, now: Instant, by: frozenset[str] = frozenset()
) -> EvidenceEvent | None:
    """Return what a witness's words are as evidence, None when they are none. Who may speak is not asked here.

    Args:
        hearer: whose confidence it moves.
        witness: who says so.
        said: the hearer compared with the witness, in this order.
        now: when.
        by: root sources by whose word alone the witness is verified: they are heard with it.
    """
    match said:
        case Agree(one_share=share) if share >= least_share(hearer):
            kind, sign = EvidenceKind.AGREEMENT, 1.0
        case Contradict(is_judged=False):
            kind, sign = EvidenceKind.CONTRADICTION, -1.0
        case _:
            return None
    return EvidenceEvent(
        memory_id=hearer.id,
        tenant=hearer.tenant,
        kind=kind,
        weight=sign * EVIDENCE_WEIGHT[kind],
        witness=check_witness("", [root_of(witness), *sorted(by - {root_of(witness)})]) if by else root_of(witness),
        reason=told_by(witness.id, kind),
        at=now,
    )


def counts(hearer: Memory, witness: Memory, lines: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a witness is independent of the hearer, and seen by all who see it."""
    return sees(hearer.scope, witness.scope) and independent(voice_of(hearer), voice_of(witness), lines)


def distinct(witnesses: Iterable[Memory], lines: Mapping[str, frozenset[str]], heard: frozenset[str]) -> list[Memory]:
    """Return the witnesses that are independent of each other and no copies; those heard before come first.

    Args:
        witnesses: in any order.
        lines: by id, all that each was made from.
        heard: root sources that were heard before: they stay the witnesses that they are.
    """
    kept: list[Memory] = []
    texts: set[str] = set()
    for witness in sorted(witnesses, key=lambda w: (root_of(w) not in heard, w.id)):
        text = plain(witness.text)
        if text in texts or any(not independent(voice_of(witness), voice_of(other), lines) for other in kept):
            continue
        kept.append(witness)
        texts.add(text)
    return kept


def heard(
    told: Iterable[tuple[Memory, EvidenceEvent]], lines: Mapping[str, frozenset[str]], history: Sequence[EvidenceEvent]
) -> list[EvidenceEvent]:
    """Return what is new of what witnesses say of one memory: each of another than those before it, and no echo.

    Args:
        told: witnesses that count for the memory, with their words.
        lines: by id, all that each was made from.
        history: the memory's earlier events.
    """
    pairs, new = list(told), list[EvidenceEvent]()
    for kind in (EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION):
        own = {witness.id: (witness, event) for witness, event in pairs if event.kind is kind}
        roots = roots_heard(history, is_for=kind is EvidenceKind.AGREEMENT)
        kept = distinct((witness for witness, _ in own.values()), lines, roots)
        new += [own[witness.id][1] for witness in kept if not _voices(witness, lines) & roots]
    return unheard(new, history)


def roots_heard(history: Iterable[EvidenceEvent], *, is_for: bool) -> frozenset[str]:
    """Return the root sources that spoke for a memory, or against it: in the store, or asked by a check."""
    said, prefix = (EvidenceKind.AGREEMENT, FOR) if is_for else (EvidenceKind.CONTRADICTION, AGAINST)
    roots: set[str] = set()
    for event in history:
        if event.kind is said:  # a name may hold a plus: then what it begins with is held to be heard as well
            roots.update((event.witness, *event.witness.split("+")))
        else:
            roots |= roots_of(event, prefix)
    return frozenset(roots)


def _voices(witness: Memory, lines: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the root sources that speak with a witness's voice: its own, those it restates, those that vouched."""
    restated = {mark.removeprefix(ROOT) for mark in lines.get(witness.id, ()) if mark.startswith(ROOT)}
    return frozenset({root_of(witness), known_as(root_of(witness)), *restated})


def weighing(memory: Memory, events: Sequence[EvidenceEvent]) -> Action:
    """Return the action that lets events of one instant move a memory; the same whatever their order."""
    ordered = sorted(events, key=lambda e: (e.kind, e.witness, e.weight))
    if any(e.kind is EvidenceKind.CHECK for e in ordered):
        reason = CHECKED
    else:
        reason = CONTRADICTED if any(e.weight < 0 for e in ordered) else AGREED
    told: list[Json] = [
        {"kind": e.kind.value, "weight": e.weight, "witness": e.witness, "reason": e.reason} for e in ordered
    ]
    return Action(memory_id=memory.id, kind=ActionKind.WEIGH, reason=reason, rev=memory.rev, detail={"events": told})


def unheard(events: Iterable[EvidenceEvent], history: Iterable[EvidenceEvent]) -> list[EvidenceEvent]:
    """Return the events whose witness was not heard before, each witness once a kind."""
    told = {(e.kind, e.witness) for e in history}
    new: dict[tuple[EvidenceKind, str], EvidenceEvent] = {}
    for event in sorted(events, key=lambda e: (e.kind, e.witness, e.reason)):
        if (event.kind, event.witness) not in told:
            new.setdefault((event.kind, event.witness), event)
    return list(new.values())
