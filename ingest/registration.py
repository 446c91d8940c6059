"""What the ledger keeps of a source, so that a sync without a path does again what was asked for. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.ignore import PathGlobs
from kb.model import SourceRoot

if TYPE_CHECKING:
    from ingest.survey import SyncOptions
    from ingest.target import Target
    from kb.model import Instant, Json

_MEANT = re.compile(r"([\\*?\[\]!# ])")  # what gitignore would read as more than a character


def registered(target: Target, options: SyncOptions, at: Instant) -> SourceRoot:
    """Return a source as it is kept: where it is, what its documents are to be taken for, and which of them are meant.

    Of a run that was about one file or folder of it, only that is meant.
    """
    given, part = options.given, _part(target)
    return SourceRoot(
        name=target.name,
        tenant=options.tenant,
        location=str(target.location),
        source_class=given.trust,
        options={
            "confidence": given.confidence,
            "verified": given.verified,
            "metadata": dict(given.metadata),
            "include": [part] if part else list(options.include),
            "exclude": list(options.exclude),
        },
        registered_at=at,
    )


def is_whole(target: Target, options: SyncOptions, before: SourceRoot | None) -> bool:
    """Return whether a run is about everything that is meant of its source, rather than about a part for once."""
    if _part(target):
        return False
    said = (options.include, options.exclude)
    return said == ((), ()) or (before is not None and said == narrowing(before))


def after_part(before: SourceRoot, target: Target, options: SyncOptions) -> SourceRoot:
    """Return a known source after a run over a part of it: its options stay; a source of named parts gains this one."""
    include, part = narrowing(before)[0], _part(target)
    is_new = include and part and not PathGlobs(include).chooses(target.single or f"{target.prefix}x")
    if is_new and not (options.include or options.exclude):
        kept: list[Json] = [*include, part]
        before = replace(before, options={**before.options, "include": kept})
    return replace(before, location=str(target.location))


def narrowing(root: SourceRoot) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns that a source was registered with: to include, to exclude."""
    return _texts(root.options.get("include")), _texts(root.options.get("exclude"))


def _part(target: Target) -> str:
    """Return the gitignore pattern of the one file or folder that a run is about; "" when it is about all."""
    relative = target.single or target.prefix
    return "/" + _MEANT.sub(r"\\\1", relative) if relative else ""


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(str(v) for v in value) if isinstance(value, list) else ()
