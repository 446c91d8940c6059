"""Whether a source whose memories keep being refused is believed less: a factor on its new memories' prior. Pure.

It is the mean of a Beta distribution: `STRENGTH + good` against `bad`. So a source without a history is believed as its
class, one mistake or two cost nothing, and no history makes a source more than its class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.trust import prior

if TYPE_CHECKING:
    from kb.model import Instant, Memory
    from kb.trust import TrustPolicy

STRENGTH = 4.0  # good pieces that a class's own prior is worth
LEAST_BAD = 3  # pieces spoken against before anything is held against a source
FLOOR = 0.5  # of the factor
REASON = "prior_reason"  # key of a memory's metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How a source fared; a document counts once, however many passages it has.

    Args:
        good: pieces that were verified, agreed with or borne out by a check, and not spoken against.
        bad: pieces that were rejected, rolled back, contradicted by what is verified, or refuted by a check; not those
            that a person has verified since.
    """

    good: int = 0
    bad: int = 0


UNKNOWN = Record()


def factor(record: Record) -> float:
    """Return what a source's new memories are believed against others of their class, in [0.5, 1]."""
    if record.bad < LEAST_BAD:
        return 1.0
    return max(FLOOR, (STRENGTH + record.good) / (STRENGTH + record.good + record.bad))


def discounted(policy: TrustPolicy, record: Record) -> TrustPolicy:
    """Return the policy of a source's new memories; the same value when nothing is held against it."""
    share = factor(record)
    return policy if share == 1.0 else replace(policy, confidence=policy.confidence * share)


def prior_reason(record: Record, policy: TrustPolicy) -> str:
    """Return why a new memory's prior is lower than its class's, for readers; "" when it is not."""
    share = factor(record)
    if share == 1.0:
        return ""
    return (
        f"{record.bad} memories of this source were refused or contradicted, {record.good} borne out: "
        f"{policy.confidence:.2f} of its class × {share:.2f}"
    )


def reputed(memory: Memory, policy: TrustPolicy, record: Record, now: Instant) -> Memory:
    """Return a new memory with the prior that its source has earned; the same value when nothing is held against it.

    Args:
        memory: as its class would have it.
        policy: of its class, or what it was given instead.
        record: of its source.
        now: when it is new.
    """
    why = prior_reason(record, policy)
    if not why:
        return memory
    trust = prior(discounted(policy, record), now)
    return replace(memory, trust=trust, metadata={**memory.metadata, REASON: why})
