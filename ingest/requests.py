"""From what a caller says to the syncs that are meant: given paths, or every registered source with its own options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.prior import Given
from ingest.survey import SyncOptions
from ingest.target import Target, target_of
from kb.errors import InputError
from kb.model import SourceClass
from kb.trust import checked_confidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.memories import Memories
    from kb.model import Json, SourceRoot
    from kb.settings import Settings, SourceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """One source to sync, and how."""

    target: Target
    options: SyncOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a caller says about a run; what is not said is None or empty, and the source's own word stands."""

    source_name: str = ""
    trust: SourceClass | None = None
    confidence: float | None = None
    verified: bool | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_mass_delete: bool = False
    retry_failed: bool = False
    checksum: bool = False

    def __post_init__(self) -> None:
        if self.confidence is not None:
            checked_confidence(self.confidence)


def requests_of(paths: Sequence[Path], memories: Memories, settings: Settings, said: Said) -> list[SyncRequest]:
    """Return the syncs that `paths` mean; with none, those of every configured and registered source.

    Raises:
        InputError: a path is not there, one name is given to several paths, or there is nothing to sync.
        Refused: a folder would take another's name.
    """
    with memories.ledger.read() as tx:
        roots = tx.sources.list(settings.tenant)
    if paths:
        if said.source_name and len(paths) > 1:
            raise InputError("one source name was given to several paths", hint="ingest them one by one")
        return [_of_path(path, roots, settings, said) for path in paths]
    configured = [_of_path(s.path, roots, settings, said) for s in settings.sources]
    taken = {r.target.name for r in configured}
    registered = [_of_root(root, settings, said) for root in roots if root.name not in taken]
    if not configured and not registered:
        raise InputError("there is nothing to ingest", hint="name a folder: `kb ingest ./docs`")
    return configured + registered


def _of_path(path: Path, roots: Sequence[SourceRoot], settings: Settings, said: Said) -> SyncRequest:
    if not path.exists():
        raise InputError(f"{path} does not exist")
    resolved = path.resolve()
    if not (resolved.is_dir() or resolved.is_file()):
        raise InputError(f"{path} is neither a file nor a folder")
    known = _configured(resolved, settings)
    target = target_of(resolved, said.source_name or (known.name if known else ""), roots)
    root = next((r for r in roots if r.name == target.name), None)
    trust = said.trust or (SourceClass(known.trust) if known else None)
    return SyncRequest(target=target, options=_options(settings.tenant, said, trust, root))


def _of_root(root: SourceRoot, settings: Settings, said: Said) -> SyncRequest:
    location = Path(root.location)
    if not location.is_dir():
        raise InputError(
            f"the source {root.name!r} is no longer at {location}",
            hint=f"`kb ingest NEW_FOLDER --source-name {root.name}` moves it",
        )
    again = replace(
        said,
        include=said.include or _texts(root.options.get("include")),
        exclude=said.exclude or _texts(root.options.get("exclude")),
    )
    options = _options(settings.tenant, again, said.trust or root.source_class, root)
    return SyncRequest(target=Target(name=root.name, location=location), options=options)


def _configured(path: Path, settings: Settings) -> SourceSettings | None:
    return next((s for s in settings.sources if s.path.resolve() == path), None)


def _options(tenant: str, said: Said, trust: SourceClass | None, root: SourceRoot | None) -> SyncOptions:
    """Return the options of a run: what is said now over what the source was registered with.

    Trust and metadata stay as registered until something else is said; a narrowing holds for its own run only.
    """
    before = root.options if root is not None else {}
    confidence, verified = before.get("confidence"), before.get("verified")
    metadata = before.get("metadata")
    given = Given(
        trust=trust or (root.source_class if root is not None else SourceClass.DOCUMENT),
        confidence=said.confidence if said.confidence is not None else _number(confidence),
        verified=said.verified if said.verified is not None else verified if isinstance(verified, bool) else None,
        metadata=said.metadata or (metadata if isinstance(metadata, dict) else {}),
    )
    return SyncOptions(
        tenant=tenant,
        given=given,
        include=said.include,
        exclude=said.exclude,
        allow_mass_delete=said.allow_mass_delete,
        retry_failed=said.retry_failed,
        checksum=said.checksum,
    )


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(str(v) for v in value) if isinstance(value, list) else ()
