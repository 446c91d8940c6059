"""What a person decides of a memory, as pure values: how it stands after being verified, rejected or restored."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from kb.model import FOREVER, Kind, Memory, SourceClass, Standing
from kb.sweeps import ActionKind, SweepJob
from kb.trust import trusted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.policy import Policy
    from kb.model import Instant


class Decision(StrEnum):
    """What a person decides of memories; each is the sweep of its name. A remark alone may be an agent's, too."""

    VERIFY = SweepJob.VERIFY
    REJECT = SweepJob.REJECT
    PIN = SweepJob.PIN
    UNPIN = SweepJob.UNPIN
    RESTORE = SweepJob.RESTORE
    ANNOTATE = SweepJob.ANNOTATE


DECISIONS = {
    SweepJob.VERIFY: ActionKind.VERIFY,
    SweepJob.REJECT: ActionKind.REJECT,
    SweepJob.PIN: ActionKind.PIN,
    SweepJob.UNPIN: ActionKind.UNPIN,
    SweepJob.RESTORE: ActionKind.RESTORE,
    SweepJob.ANNOTATE: ActionKind.ANNOTATE,
}
REASONS = {
    SweepJob.VERIFY: "verified",
    SweepJob.REJECT: "rejected",
    SweepJob.PIN: "pinned",
    SweepJob.UNPIN: "unpinned",
    SweepJob.RESTORE: "restored",
    SweepJob.ANNOTATE: "annotated",
}
RESTORABLE = (Standing.RETIRED, Standing.QUARANTINED)


def verified(memory: Memory, policy: Policy, now: Instant) -> Memory:
    """Return a memory that a person has vouched for at `now`: curated confidence, held as curated memories are.

    Strength stays: how much evidence a memory has seen is not changed by who vouches for it.
    """
    curated, own = policy.trust[SourceClass.CURATED], policy.trust[memory.source_class]
    trust = trusted(
        curated.confidence,
        now + curated.hold,
        own.half_life,
        verified_at=now,
        strength=memory.trust.strength,
    )
    return replace(memory, trust=trust, standing=Standing.ACTIVE, standing_reason="", contested=False, updated_at=now)


def rejected(memory: Memory, said: str, now: Instant) -> Memory:
    """Return a memory that a person has refused: quarantined, no longer verified, its confidence as it was."""
    return replace(
        memory,
        trust=replace(memory.trust, verified=False, verified_at=None),
        standing=Standing.QUARANTINED,
        standing_reason=said,
        contested=False,
        updated_at=now,
    )


def refusal(job: SweepJob, memory: Memory, *, is_rejected: bool = False) -> str:
    """Return why a decision cannot be carried out on a memory as it stands; "" when it can."""
    is_answer, is_past = memory.kind is Kind.ANSWER, memory.valid_to != FOREVER
    replaced = "a newer version has replaced it, or its document was deleted"
    standing = memory.standing
    staged = (standing is Standing.STAGED, "it is staged: its document is being switched in")
    rules: Mapping[SweepJob, Sequence[tuple[bool, str]]] = {
        SweepJob.VERIFY: (
            (is_answer, "an answer is never evidence: verify the memories that it cites"),
            (is_past, replaced),
            staged,
            (standing is Standing.SUPERSEDED, "it is superseded"),
        ),
        SweepJob.RESTORE: (
            (is_past, replaced),
            (standing not in RESTORABLE, f"it is {standing.value}: there is nothing to restore"),
            (is_rejected, "a person rejected it: verify it, or undo that decision"),
        ),
        SweepJob.REJECT: (staged, (is_rejected, "it was rejected before")),
        SweepJob.PIN: ((memory.pinned, "it is pinned"),),
        SweepJob.UNPIN: ((not memory.pinned, "it is not pinned"),),
    }
    return next((why for is_so, why in rules.get(job, ()) if is_so), "")
