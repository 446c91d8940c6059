"""An erasure in rounds: what is to go, and again what came while the round before was at work, until nothing is left.

What stays beside it is told of, and what that says is not kept out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from governance.erase import carried_out, left_over, still_there, surveyed, without_living
from governance.late_copies import said_since, unbar, with_late_copies
from governance.reach import Wanted, joined
from governance.selection import Selection, selected
from governance.sweep import apply
from kb.errors import InputError, UnknownMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.policy import Policy
    from governance.reach import Reach
    from kb.memories import Memories
    from kb.model import MemoryId
    from kb.sweeps import Sweep

ROUNDS = 4  # looks at what was written, or changed, while an erasure was at work


@dataclass(slots=True, kw_only=True)
class Rounds:
    """What came of the rounds.

    Args:
        reach: what all of them took, and what stays.
        sweeps: that were carried out, in order.
        problems: why something may be left.
    """

    reach: Reach
    sweeps: list[Sweep] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def erased(memories: Memories, wanted: Wanted, first: Reach, *, policy: Policy, actor: str, reason: str = "") -> Rounds:
    """Erase from ledger and index what was surveyed, and what of it comes meanwhile.

    Raises:
        Locked: another sweep of the tenant is running.
    """
    done, following = Rounds(reach=first), [first]
    for _ in range(ROUNDS):
        for reach in following:
            if reach.plan.actions:
                done.sweeps.append(carried_out(memories, reach, policy=policy, actor=actor, reason=reason))
                done.reach = joined(done.reach, reach)
        following = _following(memories, wanted, first, done.reach, policy)
        if not following:
            break
    else:
        done.problems.append("what is to go is being written all the time")
    done.reach = with_late_copies(memories, without_living(memories, done.reach))
    if done.reach.copies:
        unbar(memories, done.reach, [copy.id for copy in done.reach.copies], {sweep.id for sweep in done.sweeps})
    for _ in range(ROUNDS):
        plan = left_over(memories, done.reach, first.words, policy, memories.clock.now())
        if not plan.actions:
            return done
        done.sweeps.append(apply(memories, plan, policy=policy, actor=actor, allow_mass=True))
    done.problems.append("answers that quote it are being written all the time")
    return done


def _following(memories: Memories, wanted: Wanted, first: Reach, reach: Reach, policy: Policy) -> list[Reach]:
    """Survey what is there still, or has come meanwhile and is to go, too; nothing that lies beside it is.

    What was asked for takes along what was written from it, where that was asked for; no copy does.
    """
    still = still_there(memories, reach)
    own = [id_ for id_ in still if id_ in first.own]
    late = {id_ for id_ in still if id_ not in first.own}
    if wanted.with_copies:
        late.update(said_since(memories, first, first.named))
    if wanted.selection.source:
        late.update(_come_from(memories, wanted.selection, policy.tenant))
    following = (
        Wanted(selection=Selection(memories=tuple(own)), with_derived=wanted.with_derived) if own else None,
        Wanted(selection=Selection(memories=tuple(sorted(late - set(own))))) if late - set(own) else None,
    )
    found = (_surveyed_again(memories, one, first, policy) for one in following if one is not None)
    return [reach for reach in found if reach is not None]


def _come_from(memories: Memories, source: Selection, tenant: str) -> Sequence[MemoryId]:
    """Return what is there of a source that was to go."""
    with memories.ledger.read() as tx:
        try:
            return sorted(selected(tx, tenant, source).memories)
        except InputError:
            return []


def _surveyed_again(memories: Memories, wanted: Wanted, first: Reach, policy: Policy) -> Reach | None:
    """Survey what a round has left; None: it went away by itself."""
    try:
        return surveyed(memories, wanted, policy, memories.clock.now(), said=first.words)
    except UnknownMemory:
        return None
