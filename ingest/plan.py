"""What a sync must do: a pure comparison of what the folder holds with what the ledger knows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.prior import is_given_alike
from kb.errors import FailureCode, MassDelete

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.model import Document, Failure

MAX_ATTEMPTS = 3
PASSING = frozenset(  # what may be over at the next run; anything else waits until the file or the pipeline changes
    {
        FailureCode.TIMEOUT,
        FailureCode.OUT_OF_MEMORY,
        FailureCode.VANISHED,
        FailureCode.EMBED_FAILED,
        FailureCode.STORE_FAILED,
    }
)
RACY_MS = 2_000  # a file written this shortly before its last sync may have changed again within one clock tick


class Action(StrEnum):
    """What happens to one document."""

    ADD = "add"
    CHANGE = "change"  # bytes differ
    RECHECK = "recheck"  # same bytes, other options, metadata or pipeline
    RENAME = "rename"  # same bytes at another path
    TOUCH = "touch"  # same bytes, other times
    KEEP = "keep"  # unchanged
    REMOVE = "remove"
    FAILED_BEFORE = "failed_before"  # same bytes failed for good with this pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A file of the scan, as far as planning needs it. `raw` is None when size and times say that it is unchanged."""

    relative: str
    source: str
    size: int
    mtime_ns: int
    given: str  # the half of the metadata fingerprint that can be told unread
    raw: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One planned action.

    Args:
        action: what happens.
        seen: the file; None for a removal.
        document: what the ledger knows; None for a new one.
        failure: the last one, where it settles the matter, or is over now.
        recheck: of a rename: other options, metadata or pipeline hold at the new address.
    """

    action: Action
    seen: Seen | None
    document: Document | None = None
    failure: Failure | None = None
    recheck: bool = False

    @property
    def is_to_prepare(self) -> bool:
        """Whether the file is to be read and parsed."""
        return self.recheck or self.action in (Action.ADD, Action.CHANGE, Action.RECHECK)

    def counted(self, outcome: str) -> str:
        """Return the report's count of a prepared document whose words and metadata came out as `outcome`."""
        return "renamed" if self.action is Action.RENAME else outcome

    @property
    def raw(self) -> str:
        """Hash of the bytes the action is about; "" when they could not be read."""
        return _raw(self.seen, self.document) if self.seen is not None else ""

    @property
    def source(self) -> str:
        """URI the action is reported under."""
        if self.seen is not None:
            return self.seen.source
        return self.document.source if self.document is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the ledger knows of a source: live documents, deleted ones, and failures, each by URI."""

    live: Mapping[str, Document]
    deleted: Mapping[str, Document]
    failures: Mapping[str, Failure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """When a loss of documents asks for consent: more than `count` and more than `share`, or everything of several."""

    count: int
    share: float
    allowed: bool = False


def is_stat_alike(document: Document | None, size: int, mtime_ns: int) -> bool:
    """Return whether size and times alone say that the bytes are those of the last sync."""
    return (
        document is not None
        and document.size == size
        and document.mtime_ns == mtime_ns
        and mtime_ns // 1_000_000 < document.updated_at - RACY_MS
    )


def planned(seen: Sequence[Seen], known: Known, gone: Sequence[Document], pipeline: str, *, retry: bool) -> list[Item]:
    """Return one item per file and per document that is gone, in the order of the files, removals last.

    Args:
        seen: files of the scan.
        known: the ledger's view of the source.
        gone: live documents whose file is no longer there; empty when the scan was not complete.
        pipeline: fingerprint of parser, chunker and embedder.
        retry: whether to try again what failed for good.
    """
    items = [_item(file, known, pipeline, retry=retry) for file in seen]
    moved = _renames(items, gone, pipeline)
    items = [moved.get(item.source, item) for item in items]
    taken = {item.document.id for item in moved.values() if item.document is not None}
    return items + [Item(action=Action.REMOVE, seen=None, document=d) for d in gone if d.id not in taken]


def _item(file: Seen, known: Known, pipeline: str, *, retry: bool) -> Item:
    document = known.live.get(file.source)
    failure = known.failures.get(file.source)
    raw = _raw(file, document)
    if document is not None and document.fingerprint.raw == raw and _is_made_alike(document, file, pipeline):
        action = Action.KEEP if file.raw is None else Action.TOUCH
        return Item(action=action, seen=file, document=document, failure=failure)
    if failure and not retry and _is_settled(failure, raw, pipeline):
        return Item(action=Action.FAILED_BEFORE, seen=file, document=document, failure=failure)
    if document is None:
        return Item(action=Action.ADD, seen=file, document=known.deleted.get(file.source))
    action = Action.CHANGE if document.fingerprint.raw != raw else Action.RECHECK
    return Item(action=action, seen=file, document=document)


def _is_made_alike(document: Document, file: Seen, pipeline: str) -> bool:
    """Return whether the same bytes would become the same document again, as far as can be told unread."""
    made = document.fingerprint
    return made.pipeline == pipeline and is_given_alike(made.metadata, file.given)


def _raw(file: Seen, document: Document | None) -> str:
    if file.raw is None and document is not None:
        return document.fingerprint.raw
    return file.raw or ""


def _is_settled(failure: Failure, raw: str, pipeline: str) -> bool:
    """Return whether trying again would end alike. What is governed may be said elsewhere than in the file."""
    same = (failure.raw, failure.pipeline) == (raw, pipeline) and failure.code != FailureCode.FRONT_MATTER
    return same and (failure.code not in PASSING or failure.attempts >= MAX_ATTEMPTS)


def _renames(items: Sequence[Item], gone: Sequence[Document], pipeline: str) -> dict[str, Item]:
    """Return new files that are a gone document under another name, by URI; equal files pair in the order of names."""
    lost: dict[tuple[str, str], list[Document]] = {}
    for document in sorted(gone, key=lambda d: d.source, reverse=True):
        lost.setdefault((document.fingerprint.raw, _suffix(document.source)), []).append(document)
    moved = {}
    for item in items:
        if item.action is Action.ADD and item.document is None and item.seen is not None:
            candidates = lost.get((item.seen.raw or "", _suffix(item.seen.source)))
            if candidates:
                document = candidates.pop()
                recheck = not _is_made_alike(document, item.seen, pipeline)
                moved[item.source] = Item(action=Action.RENAME, seen=item.seen, document=document, recheck=recheck)
    return moved


def _suffix(source: str) -> str:
    return PurePosixPath(source).suffix.lower()  # another suffix may mean another parser


def guarded(items: Sequence[Item], live: int, guard: Guard) -> None:
    """Refuse a plan that would lose too much of a source.

    Args:
        items: the plan.
        live: live documents of the source before it.
        guard: the limits.

    Raises:
        MassDelete: over the limits and not allowed.
    """
    removed = sum(item.action is Action.REMOVE for item in items)
    too_many = removed > guard.count and removed > guard.share * live
    if not guard.allowed and (too_many or (removed == live and live > 1)):
        raise MassDelete(f"{removed} of {live} documents are gone from the folder; nothing was changed")
