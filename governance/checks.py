"""External checks: who is due for one, what is asked, and what a result comes to. Pure but for reading rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from governance.comparing.sayings import Passed, passed
from governance.contradict import disputed
from governance.ports import Claim, Outcome
from governance.testimony import CHECKED, least_share, roots_heard, weighing
from governance.vouching import WITNESSES, disavowal, vouching
from governance.waiting import waiting
from kb.history import EVIDENCE_WEIGHT, EvidenceEvent, EvidenceKind
from kb.independence import ROOT, root_of
from kb.ledger.looking import START, Place
from kb.model import Kind, MemoryId, Scope, Standing
from kb.sweeps import Action, ActionKind
from kb.trust import DAY_MS
from kb.vouching import AGAINST, FOR, check_witness, is_persons, known_as, roots_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.policy import Policy
    from governance.ports import Checked
    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant, Memory
    from kb.sweeps import Contradiction

PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkable:
    """What is to be checked, and whom it is about.

    Args:
        claim: as it is asked.
        sides: the memory, or both sides of a contradiction, that of the claim first.
        contradiction: that the check may settle; None when the memory only fell due.
    """

    claim: Claim
    sides: tuple[Memory, ...]
    contradiction: Contradiction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one check comes to.

    Args:
        actions: evidence for each side, or that it was looked into; what it takes back from a side that it refutes.
        decided_for: id of the side that the check bore out; "" when it decided nothing, or against a person's word.
        vouches: that it vouches for what it bore out: for after a contradiction is settled.
    """

    actions: tuple[Action, ...]
    decided_for: str = ""
    vouches: tuple[Action, ...] = ()


def checkables(
    tx: LedgerTx,
    policy: Policy,
    now: Instant,
    open_: Iterable[Contradiction],
    sides: Mapping[MemoryId, Memory],
    *,
    settled: frozenset[str] = frozenset(),
) -> list[Checkable]:
    """Return what is checked now, at most the budget: contested memories, oldest contradiction first, then due ones.

    Then findings and notes that wait in quarantine though answers cited them, the most cited first. No memory is asked
    about twice in one sweep, nor again before `check_every_days` have passed.

    Args:
        tx: where they are.
        policy: of the tenant.
        now: the instant that is decided for.
        open_: contradictions.
        sides: of the contradictions, by id.
        settled: ids of waiting memories that need no check any more.
    """
    since = now - round(policy.check_every_days * DAY_MS)
    found: list[Checkable] = []
    taken: set[str] = set()
    for checkable in chain(_disputes(tx, open_, sides), _due(tx, policy, now), _waiting(tx, policy, settled)):
        if len(found) >= policy.checks:
            break
        ids = {m.id for m in checkable.sides}
        last = max(tx.looking.last_looked(ids, CHECKED).values(), default=None)
        if taken & ids or (last is not None and last > since):
            continue
        taken |= ids
        found.append(checkable)
    return found


def results(
    checkable: Checkable, checked: Checked, history: Mapping[MemoryId, Sequence[EvidenceEvent]], now: Instant
) -> Result:
    """Return what a check is as evidence: weight 2.0 for the side that was borne out, and against the other.

    Sources that were heard before for the same thing weigh nothing again, but what they bear out still, they vouch for
    anew. Against a person's word a check weighs, and settles nothing: the two wait for a person.

    Args:
        checkable: what was asked.
        checked: what was found.
        history: earlier evidence, by memory.
        now: when.
    """
    if checked.outcome is Outcome.UNASKED:
        return Result(actions=())
    one, others = checkable.sides[0], checkable.sides[1:]
    signs = {Outcome.SUPPORTED: 1, Outcome.CONTRADICTED: -1}
    sign = signs.get(checked.outcome, 0)
    told = [(one, sign), *((other, -sign) for other in others)]
    events = [e for m, s in told if (e := _event(m, s, checked, history.get(m.id, ()), now)) is not None]
    by_id = {e.memory_id: e for e in events}
    actions = tuple(weighing(m, [by_id[m.id]]) if m.id in by_id else _looked(m, checked) for m, _ in told)
    refuted = [m for m, s in told if s < 0]
    takes = [disavowal(m, history.get(m.id, ()), checked.roots) for m in refuted if m.id in by_id]
    is_settled = not any(is_persons(m, history.get(m.id, ())) for m in refuted)
    borne_out = [m for m, s in told if s > 0 and is_settled and len(set(checked.roots)) >= WITNESSES]
    winner = next((m.id for m in borne_out if m.id in by_id), "")
    return Result(
        actions=(*actions, *(t for t in takes if t is not None)),
        decided_for=winner if others else "",
        vouches=tuple(vouching(m, checked.roots) for m in borne_out),
    )


def _disputes(tx: LedgerTx, open_: Iterable[Contradiction], sides: Mapping[MemoryId, Memory]) -> Iterable[Checkable]:
    for contradiction in open_:
        one, other = sides.get(MemoryId(contradiction.one)), sides.get(MemoryId(contradiction.other))
        if one is None or other is None or {one.standing, other.standing} != {Standing.ACTIVE}:
            continue
        said = disputed(passed(one), passed(other))
        if said is None or _is_for_people(tx, (one, other)):  # a model's, for people to look at; or a person's word
            continue
        claim = Claim(
            memory_id=one.id,
            said=_sentence(one, said[0]),
            rival=_sentence(other, said[1]),
            not_from=_own_roots(tx, (one, other)),
        )
        yield Checkable(claim=claim, sides=(one, other), contradiction=contradiction)


def _is_for_people(tx: LedgerTx, sides: Sequence[Memory]) -> bool:
    """Return whether a check has spoken against a side that a person vouched for: asking again decides nothing."""
    history = {m.id: tx.evidence.of_memory(m.id) for m in sides if m.trust.verified}
    return any(
        is_persons(m, history[m.id]) and any(roots_of(e, AGAINST) and e.at >= (m.trust.verified_at or 0) for e in own)
        for m in sides
        if (own := history.get(m.id))
    )


def _waiting(tx: LedgerTx, policy: Policy, settled: frozenset[str]) -> Iterable[Checkable]:
    for memory in waiting(tx, policy.tenant):
        if memory.id not in settled and not _is_private(memory):
            claim = _whole(tx, memory)
            yield Checkable(claim=claim, sides=(memory,))


def _whole(tx: LedgerTx, memory: Memory) -> Claim:
    """Return all that a memory says as what is to be checked."""
    own = _own_roots(tx, (memory,))
    return Claim(memory_id=memory.id, said=passed(memory), not_from=own, least=least_share(memory))


def _is_private(memory: Memory) -> bool:
    """Return whether a note is somebody's own: nobody is asked about it outside only because it waits."""
    return memory.kind is Kind.NOTE and memory.scope != Scope()


def _due(tx: LedgerTx, policy: Policy, now: Instant) -> Iterable[Checkable]:
    after: Place = START
    while page := tx.looking.due(policy.tenant, now, PAGE, after):
        for memory in page:
            claim = _whole(tx, memory)
            yield Checkable(claim=claim, sides=(memory,))
        after = Place(page[-1].trust.anchor, page[-1].id)


def _sentence(memory: Memory, text: str) -> Passed:
    whole = passed(memory)
    return Passed(text=text, title=whole.title, heading_path=whole.heading_path, valid_from=whole.valid_from)


def _own_roots(tx: LedgerTx, sides: Sequence[Memory]) -> frozenset[str]:
    """Return the root sources of memories and of all that they were made from: those bear nothing out."""
    above = {id_ for line in tx.looking.lines([m.id for m in sides]).values() for id_ in line}
    made_from = tx.memories.get(map(MemoryId, sorted(above))).values()
    marks = {id_.removeprefix(ROOT) for id_ in above if id_.startswith(ROOT)}
    return frozenset({root for m in (*sides, *made_from) if (root := root_of(m))} | marks)


def _event(
    memory: Memory, sign: int, checked: Checked, history: Sequence[EvidenceEvent], now: Instant
) -> EvidenceEvent | None:
    if not sign:
        return None
    prefix = FOR if sign > 0 else AGAINST
    before = roots_heard(history, is_for=sign > 0)
    roots = [root for root in checked.roots if not before & {root, known_as(root)}]
    if len(roots) < WITNESSES:
        return None
    verb = "bear it out" if sign > 0 else "say otherwise"
    return EvidenceEvent(
        memory_id=memory.id,
        tenant=memory.tenant,
        kind=EvidenceKind.CHECK,
        weight=sign * EVIDENCE_WEIGHT[EvidenceKind.CHECK],
        witness=check_witness(prefix, roots),
        reason=f"{' and '.join(roots)} {verb}",
        at=now,
    )


def _looked(memory: Memory, checked: Checked) -> Action:
    """Return that a memory was looked into and nothing came of it, so that it is not asked about again tomorrow."""
    detail = {"found": checked.outcome.value}
    return Action(memory_id=memory.id, kind=ActionKind.LOOK, reason=CHECKED, rev=memory.rev, detail=dict(detail))
