"""What a document goes back to when versions of it are rolled back: pure.

A version is rolled back when it was named, when its content was rolled back before, or when all it brought in, or all
it holds, is in the blast. A document whose standing version is rolled back goes back to the newest version that is not,
and what that version held is current again; where no version is left, the document counts as deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kb.ledger.documents import DocumentVersion
    from kb.model import Document, MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """What becomes of one document.

    Args:
        document: as it stands.
        version: the version it goes back to; its own when it stays; None when it counts as deleted.
        held: memories of the version that stands then.
        dropped: memories of the version that stood, which the other does not hold.
        hashes: of bytes and contents that must not come back: those of rolled-back versions which no other version has.
    """

    document: Document
    version: int | None
    held: tuple[MemoryId, ...]
    dropped: tuple[MemoryId, ...]
    hashes: tuple[str, ...]

    @property
    def is_changed(self) -> bool:
        """Whether the document goes back, or away, at all."""
        was = None if self.document.deleted_at is not None else self.document.version
        return self.version != was


def going_back(
    document: Document,
    versions: Sequence[DocumentVersion],
    blast: Collection[str],
    *,
    named: Collection[int] = (),
    barred: Collection[str] = (),
    is_deletion_back: bool = False,
) -> Back:
    """Return what becomes of a document.

    Args:
        document: as it stands.
        versions: all of its versions, oldest first.
        blast: ids of all that is rolled back.
        named: numbers of versions that were named as bad.
        barred: hashes that an earlier rollback left tombstones for.
        is_deletion_back: whether its deletion is taken back, too.
    """
    bad = {v.version for v in _rolled_back(versions, blast, named, barred)}
    good = [v for v in versions if v.version not in bad]
    hashes = {h for v in versions if v.version in bad for h in _hashes(v)} - {h for v in good for h in _hashes(v)}
    standing = document.version if document.deleted_at is None else None
    if standing is not None and standing not in bad:
        target: int | None = standing
    elif standing is None and not is_deletion_back:
        target = None
    else:
        target = good[-1].version if good else None
    held = next((v.memory_ids for v in versions if v.version == target), ())
    was = document.memory_ids if standing is not None else ()
    return Back(
        document=document,
        version=target,
        held=tuple(held),
        dropped=tuple(id_ for id_ in was if id_ not in set(held)),
        hashes=tuple(sorted(hashes)),
    )


def _rolled_back(
    versions: Sequence[DocumentVersion], blast: Collection[str], named: Collection[int], barred: Collection[str]
) -> list[DocumentVersion]:
    found: list[DocumentVersion] = []
    known: set[MemoryId] = set()
    for version in versions:
        own = set(version.memory_ids)
        brought = own - known
        known |= own
        is_bad = any(part and all(id_ in blast for id_ in part) for part in (brought, own))
        if is_bad or version.version in named or version.fingerprint.content in barred:
            found.append(version)
    return found


def _hashes(version: DocumentVersion) -> tuple[str, str]:
    return version.fingerprint.raw, version.fingerprint.content
