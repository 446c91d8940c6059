"""Look before anything is done: what the folder holds, what the ledger knows, and the plan that follows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.plan import Guard, Item, Known, Seen, guarded, is_stat_alike, planned
from ingest.prior import Given, given_part
from ingest.registration import narrowing
from ingest.sidecar import SidecarRules, read_rules
from ingest.walk import FoundFile, Scan, WalkRules, place_of, read_file, walk
from kb.errors import DocumentError
from kb.ids import canonical_source, raw_digest
from kb.ledger.checks import MAX_SOURCE_BYTES
from kb.telemetry import Span, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.target import Target
    from kb.ledger import Ledger
    from kb.model import Document, SourceClass
    from kb.settings import IngestSettings
    from kb.trust import TrustPolicy

_SPECIAL, _ESCAPED = re.compile(r"[\\*?\[\]]"), r"\\\g<0>"  # what a gitignore pattern does not take as it stands


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """How a source is synced.

    Args:
        tenant: whose.
        given: what the caller says about every document.
        include: gitignore patterns that narrow the run; files outside it are left as they are.
        exclude: patterns left out of the run.
        allow_mass_delete: consent to losing much of the source.
        retry_failed: try again what failed for good before.
        checksum: read every file, whatever its size and times say.
    """

    tenant: str
    given: Given = field(default_factory=Given)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_mass_delete: bool = False
    retry_failed: bool = False
    checksum: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and what it was made from."""

    scan: Scan
    items: tuple[Item, ...]
    live: int
    files: dict[str, FoundFile]
    rules: SidecarRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Plans one source's sync. Reads folder and ledger, writes nothing."""

    ledger: Ledger
    target: Target
    options: SyncOptions
    limits: IngestSettings
    policies: Mapping[SourceClass, TrustPolicy]
    pipeline: str

    def plan(self) -> Planned:
        """Return what a run would do now.

        Raises:
            MassDelete: the run would be refused.
        """
        with span(Span.INGEST_WALK):
            scan = self._scan()
        with span(Span.INGEST_PLAN):
            rules = read_rules(self.target.location)
            files = {self.source(f.relative): f for f in scan.files}
            known, documents = self.known()
            seen = self._seen(scan.files, known, rules)
            gone = self._gone(documents, files, scan)
            items = planned(seen, known, gone, self.pipeline, retry=self.options.retry_failed)
        guard = Guard(
            count=self.limits.mass_delete_count,
            share=self.limits.mass_delete_share,
            allowed=self.options.allow_mass_delete,
        )
        guarded(items, len(documents), guard)
        return Planned(scan=scan, items=tuple(items), live=len(documents), files=files, rules=rules)

    def known(self) -> tuple[Known, list[Document]]:
        """Return the ledger's view of the source, and its live documents inside the run's part of it."""
        tenant, root = self.options.tenant, self.target.name
        with self.ledger.read() as tx:
            documents = tx.documents.of_root(tenant, root, include_deleted=True)
            failures = tx.failures.of_root(tenant, root)
        live = {d.source: d for d in documents if d.deleted_at is None}
        deleted = {d.source: d for d in sorted(documents, key=lambda d: d.deleted_at or 0) if d.deleted_at is not None}
        known = Known(live=live, deleted=deleted, failures={f.source: f for f in failures})
        inside = self.source(self.target.prefix)
        return known, [d for d in live.values() if d.source.startswith(inside)]

    def _scan(self) -> Scan:
        options, target = self.options, self.target
        exclude = (*options.exclude, *self._other_sources())
        room = MAX_SOURCE_BYTES - len(self.source("").encode("utf-8", "surrogateescape"))
        rules = WalkRules(
            include=options.include, exclude=exclude, max_bytes=self.limits.max_bytes, max_name_bytes=room
        )
        return walk(target.location, rules, within=target.single or target.prefix)

    def _other_sources(self) -> list[str]:
        """Return patterns of what is in sources of their own inside this one: no document has two names."""
        with self.ledger.read() as tx:
            roots = tx.sources.list(self.options.tenant)
        home = self.target.location
        patterns: list[str] = []
        for root in roots:
            place = Path(root.location)
            if root.name != self.target.name and place != home and place.is_relative_to(home):
                at = "/" + _SPECIAL.sub(_ESCAPED, place.relative_to(home).as_posix())
                include = narrowing(root)[0]  # a source of a few named parts leaves the rest of its folder to this one
                patterns += [at + (p if p.startswith("/") else f"/**/{p}") for p in include] or [f"{at}/"]
        return patterns

    def _seen(self, files: Sequence[FoundFile], known: Known, rules: SidecarRules) -> list[Seen]:
        seen = []
        for f in files:
            source = self.source(f.relative)
            alike = is_stat_alike(known.live.get(source), f.size, f.mtime_ns) and not self.options.checksum
            seen.append(
                Seen(
                    relative=f.relative,
                    source=source,
                    size=f.size,
                    mtime_ns=f.mtime_ns,
                    given=given_part(self.policies, self.options.given, rules.of(f.relative)),
                    raw=None if alike else self._raw(f),
                )
            )
        return seen

    def _gone(self, documents: Sequence[Document], files: dict[str, FoundFile], scan: Scan) -> list[Document]:
        """Return documents whose file is gone or newly ignored. A narrowed or incomplete scan tells of no deletion."""
        if not scan.complete or self.target.single:
            return []
        unread = {self.source(s.relative) for s in scan.skipped}
        gone = [d for d in documents if d.source not in files and d.source not in unread]
        if self.options.include or self.options.exclude:
            head = len(self.source(""))
            gone = [d for d in gone if not _is_there(self.target.location, d.source[head:])]
        return gone

    def _raw(self, file: FoundFile) -> str:
        """Return the hash of a file's bytes; "" when they cannot be read, which preparing it will report."""
        try:
            return raw_digest(read_file(file, self.limits.max_bytes))
        except DocumentError:
            return ""

    def source(self, relative: str) -> str:
        """Return the URI of a file of this source."""
        return canonical_source("file", self.target.name, relative)


def _is_there(root: Path, relative: str) -> bool:
    """Return whether a file stands at a place, however the disk spells it; where the disk does not tell, it may."""
    try:
        if (root / relative).is_file():
            return True
        names = os.listdir(root)  # noqa: PTH208 - names, not paths
        return any(_leads_to(root / n, place_of(n), relative) for n in names)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _leads_to(path: Path, place: str, relative: str) -> bool:
    if place == relative:
        return path.is_file()
    return relative.startswith(f"{place}/") and _is_there(path, relative[len(place) + 1 :])
