"""The jobs by name, in the order in which one pass should run them: what adds truth before what takes it away."""

from __future__ import annotations

from enum import StrEnum


class JobName(StrEnum):
    """What can be scheduled."""

    SYNC = "sync"  # re-ingests every registered source
    DECAY = "decay"  # writes the decayed confidence for other readers
    PROMOTE = "promote"  # activates what independent sources bear out
    RECHECK = "recheck"  # checks contested and due memories, or queues them
    PRUNE = "prune"  # retires what has faded and nobody vouched for
    GC = "gc"  # erases what was retired long enough ago, and tidies up
    RECONCILE = "reconcile"  # compares ledger and index, and repairs
    VERIFY_INDEX = "verify-index"  # searches for a sample of memories by themselves

    @property
    def setting(self) -> str:
        """Key of its schedule in the table `[jobs]`."""
        return self.value.replace("-", "_")

    @property
    def lane(self) -> Lane:
        """The line in which it waits for others of its kind."""
        return _LANES[self]


class Lane(StrEnum):
    """Jobs of one lane run one after the other, lanes side by side: a long sync holds up no repair and no sweep."""

    SYNC = "sync"
    SWEEPS = "sweeps"  # they write the same rows and one journal, so each sees what the one before has done
    CARE = "care"


_LANES = {
    JobName.SYNC: Lane.SYNC,
    JobName.DECAY: Lane.SWEEPS,
    JobName.PROMOTE: Lane.SWEEPS,
    JobName.RECHECK: Lane.SWEEPS,
    JobName.PRUNE: Lane.SWEEPS,
    JobName.GC: Lane.SWEEPS,
    JobName.RECONCILE: Lane.CARE,
    JobName.VERIFY_INDEX: Lane.CARE,
}
