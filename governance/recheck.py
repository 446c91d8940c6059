"""Plans recheck: contradictions among live memories, what verified memories say, external checks, and what is settled.

A contradiction is settled by a verification or a rejection, by a check that decides for one side, or by one side
leaving the active memories; never by decay. Without a checker everything that is open waits in the review queue, but
what pages found by one search say of each other was a check already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.checks import Checkable, checkables, results
from governance.comparing.sayings import passed
from governance.conflicts import look
from governance.contradict import compare
from governance.marks import LEFT
from governance.plan import Plan
from governance.ports import Checked, Claim, Outcome
from governance.vouching import vouching
from governance.waiting import borne_out
from kb.independence import root_of
from kb.index.generations import META_KEY
from kb.model import MemoryId, Standing
from kb.sweeps import Action, ActionKind, SweepJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.policy import Policy
    from governance.ports import Checker, Comparer
    from kb.history import EvidenceEvent
    from kb.memories import Memories
    from kb.model import Instant, Memory
    from kb.sweeps import Contradiction

OPEN = 2_000  # open contradictions of one recheck, oldest first
SETTLED = "settled"


def plan_recheck(
    memories: Memories,
    policy: Policy,
    now: Instant,
    *,
    checker: Checker | None = None,
    comparer: Comparer = compare,
) -> Plan:
    """Return what a recheck would do at `now`.

    Asking a checker costs, and a plan asks it: give none for a plan that is only to be looked at.

    Args:
        memories: the store; nothing is written.
        policy: of the tenant.
        now: the instant that is decided for.
        checker: asked about contested memories, then about verified ones whose hold has ended, then about what waits
            though answers cited it; None: nobody is.
        comparer: the rules, or a judge behind them.

    Raises:
        LedgerUnavailable: the ledger cannot be read.
    """
    with memories.ledger.read() as tx:
        open_ = tx.contradictions.open(policy.tenant, OPEN)
        sides = tx.memories.get({MemoryId(id_) for c in open_ for id_ in (c.one, c.other)})
        agreed = list(borne_out(tx, policy.tenant, comparer))
        settled = frozenset(str(m.id) for m, _ in agreed)
        asked = checkables(tx, policy, now, open_, sides, settled=settled) if checker is not None else []
        history = {m.id: tx.evidence.of_memory(m.id) for m, _ in agreed}
        live = tx.governed.live(policy.tenant)
        ledger = str(tx.meta.get(META_KEY) or "")
    actions = list(departures(open_, sides))
    notes: list[str] = []
    actions += stored_checks(agreed, history, now)
    if checker is not None and asked:
        checked, problems = outside_checks(memories, asked, checker, now)
        actions += checked
        notes += problems
    seen = look(memories, policy, now, room=max(1, policy.cap - len(actions)), comparer=comparer)
    actions += seen.actions
    return Plan(
        tenant=policy.tenant,
        job=SweepJob.RECHECK,
        policy=policy.hash,
        at=now,
        ledger=ledger,
        actions=tuple(actions),
        live=live,
        notes=(*notes, *seen.notes),
    )


def departures(open_: Iterable[Contradiction], sides: Mapping[MemoryId, Memory]) -> list[Action]:
    """Return what settles contradictions of which one side is no longer active: nothing is left to disagree."""
    actions = []
    for c in open_:
        one, other = sides.get(MemoryId(c.one)), sides.get(MemoryId(c.other))
        why = next((w for side, id_ in ((one, c.one), (other, c.other)) if (w := _departed(side, id_))), "")
        if why:
            present = [m for m in (one, other) if m is not None]
            actions += settlements(c, present, f"{LEFT}{why}")
    return actions


def settlements(contradiction: Contradiction, sides: Sequence[Memory], by: str) -> list[Action]:
    """Return what settles a contradiction, for each side that is there."""
    pair = {contradiction.one: contradiction.other, contradiction.other: contradiction.one}
    return [
        Action(
            memory_id=m.id,
            kind=ActionKind.SETTLE,
            reason=SETTLED,
            rev=m.rev,
            detail={"other": pair[m.id], "kind": contradiction.kind, "by": by},
        )
        for m in sorted(sides, key=lambda m: m.id)
    ]


def _departed(memory: Memory | None, id_: str) -> str:
    if memory is None:
        return f"{id_} is gone"
    return "" if memory.standing is Standing.ACTIVE else f"{id_} is {memory.standing.value}"


def stored_checks(
    agreed: Iterable[tuple[Memory, Sequence[Memory]]],
    history: Mapping[MemoryId, Sequence[EvidenceEvent]],
    now: Instant,
) -> list[Action]:
    """Return what it comes to that pages found by one search say the same: a check, for which nobody is asked. Pure.

    Args:
        agreed: findings, each with the pages of other owners that bear it out.
        history: evidence of the findings.
        now: when.
    """
    actions: list[Action] = []
    for memory, pages in agreed:
        roots = tuple(sorted({root_of(m) for m in (memory, *pages)}))
        claim = Claim(memory_id=memory.id, said=passed(memory))
        checked = Checked(outcome=Outcome.SUPPORTED, roots=roots)
        result = results(Checkable(claim=claim, sides=(memory,)), checked, history, now)
        actions += (*result.actions, vouching(memory, roots, [p.id for p in pages]))
    return actions


def outside_checks(
    memories: Memories, wanted: Sequence[Checkable], checker: Checker, now: Instant
) -> tuple[list[Action], list[str]]:
    """Return what checks come to, and why some could not be made.

    Evidence first, then what it settles, then what it vouches for, which must not be contested any more.
    """
    found = checker.check([w.claim for w in wanted])
    with memories.ledger.read() as tx:
        history = {m.id: tx.evidence.of_memory(m.id) for w in wanted for m in w.sides}
    actions: list[Action] = []
    for checkable, checked in zip(wanted, found, strict=True):
        result = results(checkable, checked, history, now)
        actions += result.actions
        if result.decided_for and checkable.contradiction is not None:
            by = f"a check by {' and '.join(checked.roots)} decided for {result.decided_for}"
            actions += settlements(checkable.contradiction, checkable.sides, by)
        actions += result.vouches
    problems = {c.problem for c in found if c.problem}
    return actions, [f"not checked: {problem}" for problem in sorted(problems)]
