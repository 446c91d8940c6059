"""The words of governance as frozen values: what a sweep plans, does and can take back.

A sweep is one governance run, or one decision of a person: plan → apply → journal. Every row it changes is kept as it
was before, so that it can be undone. No value here holds a memory's text. Instants are epoch milliseconds, UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Instant, Json

SweepId = NewType("SweepId", str)
GONE = "gone"  # why an action was passed over: what it was about is no longer there


class SweepJob(StrEnum):
    """What a sweep does, or the decision that it carries out."""

    DECAY = "decay"  # writes the decayed confidence where other readers see too much
    PRUNE = "prune"  # retires what has faded and nobody vouched for
    PROMOTE = "promote"  # activates what independent sources bear out
    RECHECK = "recheck"  # checks contested and due memories, or queues them for review
    GC = "gc"  # erases what was retired long enough ago
    ROLLBACK = "rollback"  # quarantines a root and all that was made from it
    VERIFY = "verify"
    REJECT = "reject"
    PIN = "pin"
    UNPIN = "unpin"
    RESTORE = "restore"
    ANNOTATE = "annotate"
    ERASE = "erase"  # the one that cannot be undone
    UNDO = "undo"


class ActionKind(StrEnum):
    """What happens to one memory."""

    SHOW = "show"  # the decayed confidence is written for other readers
    RETIRE = "retire"  # pruned; restorable until the restore window ends
    QUARANTINE = "quarantine"
    ACTIVATE = "activate"  # promoted, restored or verified: retrievable again
    REVIVE = "revive"  # what a rolled-back version had superseded is current again
    PUT_BACK = "put_back"  # a document is as a version before, or gone; what was rolled back of it is kept out
    VERIFY = "verify"  # a person vouches for it
    REJECT = "reject"  # a person refuses it: quarantined, not verified any more
    RESTORE = "restore"  # a person takes back that it was retired or quarantined
    WEIGH = "weigh"  # evidence moves its confidence
    WITHDRAW = "withdraw"  # what a bad witness had said of it is taken back
    VOUCH = "vouch"  # an external check vouches for it: verified, with a hold of its own
    DISAVOW = "disavow"  # what checks alone had vouched for is not verified any more
    CONTEST = "contest"  # another memory says otherwise
    SETTLE = "settle"  # no longer contested
    LOOK = "look"  # it was looked into, or how far the looking got: no memory changes
    PIN = "pin"
    UNPIN = "unpin"
    ANNOTATE = "annotate"
    ERASE = "erase"


class SweepStatus(StrEnum):
    """How a sweep stands."""

    RUNNING = "running"  # or interrupted: the next run goes on from its journal
    DONE = "done"
    UNDONE = "undone"


class ImageKind(StrEnum):
    """What kind of row an image is of."""

    MEMORY = "memory"  # its governed columns, never its text
    DOCUMENT = "document"
    VERSION = "version"
    EVIDENCE = "evidence"
    TOMBSTONE = "tombstone"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a sweep does to one memory, and why.

    Args:
        memory_id: the memory; "" for an action on a whole document.
        kind: what happens.
        reason: a code of docs/reference/governance.md, as `faded` or `rolled_back`.
        rev: the memory's revision when it was planned; the action applies to this revision alone.
        detail: whatever explains the reason or completes the action, as JSON; never a memory's text.
    """

    memory_id: str
    kind: ActionKind
    reason: str
    rev: int
    detail: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One row that an action changed: as it was before, and as it left it.

    Args:
        kind: of row.
        key: its primary key, parts joined by a unit separator.
        before: the row's columns as JSON; None when the row was not there.
        after: likewise; None when the action removed it.
    """

    kind: ImageKind
    key: str
    before: Mapping[str, Json] | None
    after: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep as the ledger keeps it.

    Args:
        id: unique.
        tenant: whose memories.
        job: what it does.
        actor: who or what set it off: a person's name, `daemon`, `cli`.
        reason: a person's own words, if any.
        policy: hash of the policy that it was planned under.
        plan: hash of the plan.
        at: the instant that decisions were made for.
        status: how it stands.
        counts: actions by kind, applied and skipped.
        started_at: when it began.
        finished_at: when it ended.
        undoes: the sweep that this one undid.
        undone_by: the sweep that undid this one.
    """

    id: SweepId
    tenant: str
    job: SweepJob
    actor: str = ""
    reason: str = ""
    policy: str = ""
    plan: str = ""
    at: Instant = 0
    status: SweepStatus = SweepStatus.RUNNING
    counts: Mapping[str, int] = field(default_factory=dict)
    started_at: Instant = 0
    finished_at: Instant | None = None
    undoes: SweepId | None = None
    undone_by: SweepId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Journaled:
    """An action in a sweep's journal.

    Args:
        sweep_id: of the sweep.
        seq: its place in the plan, from 0.
        action: what was planned.
        applied_at: when it was applied, or found to be outdated; None while it waits.
        skipped: why it was not applied; "" when it was.
    """

    sweep_id: SweepId
    seq: int
    action: Action
    applied_at: Instant | None = None
    skipped: str = ""


class TombstoneKind(StrEnum):
    """What must not come back."""

    TEXT = "text"  # a passage's words
    DOCUMENT = "document"  # a document's content, as the hash of its parsed text
    ID = (
        "id"  # an erased memory's id, or the name that it was erased under: a digest of its words must not stay, either
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """That something was rolled back or erased; holds a salted hash, never the thing itself.

    Args:
        tenant: whose.
        kind: what it stands for.
        mark: salted hash (hex).
        is_erased: it must not be stored again at all; else it may be stored, quarantined.
        sweep_id: the sweep that left it.
        reason: of that sweep.
        at: when.
    """

    tenant: str
    kind: TombstoneKind
    mark: str
    is_erased: bool
    sweep_id: SweepId
    reason: str = ""
    at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two live memories of one subject that say different things.

    Args:
        tenant: whose.
        one: memory id, the lesser of the two.
        other: memory id.
        kind: number, date, version or negation.
        one_value: what `one` says, in a few words.
        other_value: what `other` says.
        found_at: when it was noticed.
        settled_at: when it was settled; None while it is open.
        settled_by: who or what settled it.
    """

    tenant: str
    one: str
    other: str
    kind: str
    one_value: str = ""
    other_value: str = ""
    found_at: Instant = 0
    settled_at: Instant | None = None
    settled_by: str = ""
