"""From what a caller says to the syncs that are meant: given paths, or every registered source with its own options."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.prior import Given
from ingest.registration import narrowing, registered
from ingest.survey import SyncOptions
from ingest.target import Target, slug, target_of
from kb.errors import InputError, KbError, Refused
from kb.ledger.checks import checked_json
from kb.model import SourceClass
from kb.trust import checked_confidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.memories import Memories
    from kb.model import Json, SourceRoot
    from kb.settings import Settings, SourceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """One source to sync, and how; or, for one of many, the `problem` that keeps it from being synced."""

    target: Target
    options: SyncOptions
    problem: KbError | None = None


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
        checked_json(dict(self.metadata), "metadata")  # before any document fails for it


def requests_of(paths: Sequence[Path], memories: Memories, settings: Settings, said: Said) -> list[SyncRequest]:
    """Return the syncs that `paths` mean; with none, those of every configured and registered source.

    A path is understood as it would be after the syncs before it, and the same target said twice is synced once.

    Raises:
        InputError: a path is not there, a name is not given to exactly one path, or there is nothing to sync.
        Refused: a folder would take another's name.
    """
    if said.source_name and len(paths) != 1:
        raise InputError("a source name belongs to exactly one path", hint="ingest them one by one")
    with memories.ledger.read() as tx:
        roots = tx.sources.list(settings.tenant)
    requests: list[SyncRequest] = []
    for path in paths or _deepest_first(settings):
        try:
            request = _of_path(path, roots, settings, said)
            _refuse_twin(request.target, requests)
        except KbError as error:
            if paths:
                raise
            request = _problem(path, settings, error)
        if request.target not in (r.target for r in requests):
            requests.append(request)
        roots = roots if request.problem else _known_after(roots, request)
    if not paths:
        requests += [_of_root(r, settings, said) for r in roots if not any(_covers(q, r) for q in requests)]
    if not requests:
        raise InputError("there is nothing to ingest", hint="name a folder: `kb ingest ./docs`")
    return requests


def _deepest_first(settings: Settings) -> list[Path]:
    """Return the configured paths, so that a folder is synced when the sources inside it are known, and leaves them."""
    paths = [_resolved(source.path) for source in settings.sources]
    return sorted(paths, key=lambda p: len(p.parts), reverse=True)


def _known_after(roots: Sequence[SourceRoot], request: SyncRequest) -> list[SourceRoot]:
    target = request.target
    if any((r.name, r.location) == (target.name, str(target.location)) for r in roots):
        return list(roots)
    return [*(r for r in roots if r.name != target.name), registered(target, request.options, 0)]


def _refuse_twin(target: Target, requests: Sequence[SyncRequest]) -> None:
    for twin in (r.target for r in requests if r.target.name == target.name):
        if twin.location != target.location:
            raise Refused(
                f"{twin.location} and {target.location} would both be the source {target.name!r}",
                hint="give each a name of its own: --source-name, or `name` in kb.toml",
            )


def _problem(path: Path, settings: Settings, error: KbError) -> SyncRequest:
    known = _configured(path, settings)
    target = Target(name=(known.name if known else "") or slug(path.name), location=path)
    return SyncRequest(target=target, options=SyncOptions(tenant=settings.tenant), problem=error)


def _covers(request: SyncRequest, root: SourceRoot) -> bool:
    """Return whether a request is about all of a root, or would be but for its problem."""
    target = request.target
    is_part = bool(target.single or target.prefix)
    return target.name == root.name and str(target.location) == root.location and not is_part


def _of_path(path: Path, roots: Sequence[SourceRoot], settings: Settings, said: Said) -> SyncRequest:
    if not path.exists():
        raise InputError(f"{path} does not exist")
    resolved = path.resolve()
    if not (resolved.is_dir() or resolved.is_file()):
        raise InputError(f"{path} is neither a file nor a folder")
    known = _configured(resolved, settings)
    name = said.source_name or (known.name if known else "")
    target = target_of(resolved, name, roots, own=known is not None and resolved.is_dir())
    root = next((r for r in roots if r.name == target.name), None)
    trust = said.trust or (SourceClass(known.trust) if known else None)
    return SyncRequest(target=target, options=_options(settings.tenant, said, trust, root))


def _of_root(root: SourceRoot, settings: Settings, said: Said) -> SyncRequest:
    include, exclude = narrowing(root)
    again = replace(said, include=said.include or include, exclude=said.exclude or exclude)
    options = _options(settings.tenant, again, said.trust or root.source_class, root)
    return SyncRequest(target=Target(name=root.name, location=Path(root.location)), options=options)


def _resolved(path: Path) -> Path:
    return path.expanduser().resolve()


def _configured(path: Path, settings: Settings) -> SourceSettings | None:
    return next((s for s in settings.sources if _resolved(s.path) == path), None)


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
