"""Exports a store: one read transaction, table by table, into an archive."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from kb.clock import iso
from kb.errors import EmbedderUnavailable, InputError
from kb.ledger.migrations import HEAD
from kb.ledger.portable import carried, left_out, shape_at_head
from kb.moving.manifest import Manifest, Space
from kb.moving.writing import writing
from kb.telemetry import Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.settings import Settings

    Progress = Callable[[str, int], None]  # a table's name, and how many of its rows are done

DISTRIBUTION = "kbwarden"
GATE = "gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an export is to hold.

    Args:
        tenant: whose rows; None: everybody's.
        with_embeddings: vectors, so that nothing need be embedded again.
        with_keys: hashes of API keys.
    """

    tenant: str | None = None
    with_embeddings: bool = False
    with_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export wrote, and what the operator should know about it."""

    manifest: Manifest
    notices: tuple[str, ...]


def exported(
    memories: Memories,
    settings: Settings,
    target: Path,
    wanted: Wanted,
    *,
    progress: Progress = lambda _table, _rows: None,
) -> Exported:
    """Write a store's archive to `target`, as it is at one instant; who writes meanwhile is not held up.

    Raises:
        InputError: `target` is taken, or the tenant is unknown.
        DependencyError: the disk is full, or the ledger away.
    """
    with span(Span.EXPORT, {Attr.TENANT: wanted.tenant}) as recording:
        done = _exported(memories, settings, target, wanted, progress)
        tables = done.manifest.tables.values()
        recording.set({Attr.ROWS: sum(t.rows for t in tables), Attr.BYTES: sum(t.size for t in tables)})
    return done


def _exported(memories: Memories, settings: Settings, target: Path, wanted: Wanted, progress: Progress) -> Exported:
    names = carried(with_embeddings=wanted.with_embeddings, with_keys=wanted.with_keys, tenant=wanted.tenant)
    with writing(target) as archive, memories.ledger.read() as tx:
        if wanted.tenant is not None and wanted.tenant not in tx.tenants.list():
            raise InputError(f"there is no tenant {wanted.tenant}", hint="an export without --tenant has them all")
        space = _space(tx, settings)
        tables = {
            name: archive.add(
                name,
                shape_at_head(name),
                tx.portable.rows(name, wanted.tenant),
                lambda n, name=name: progress(name, n),  # type: ignore[misc] # mypy knows no default of a lambda
            )
            for name in names
        }
        manifest = Manifest(
            schema=HEAD,
            product=version(DISTRIBUTION),
            created_at=iso(memories.clock.now()) or "",
            tenant=wanted.tenant,
            space=space,
            trust=trust_of(settings),
            tables=tables,
            left_out=left_out(names),
        )
        archive.seal(manifest)
        notices = _notices(tx)
    return Exported(manifest=manifest, notices=notices)


def trust_of(settings: Settings) -> dict[str, float]:
    """Return what besides the ledger decides who is trusted: the gate, and each class's half-life in days."""
    return {GATE: settings.gate, **{c.value: p.half_life_days for c, p in sorted(settings.policies.items())}}


def space_of(settings: Settings, model: str, dim: int) -> Space:
    """Return the space of `model`, with the hash of the weights where they are this machine's."""
    if settings.embedder != "local":
        return Space(model=model, dim=dim)
    from kb.embedders.built import file_sha256  # noqa: PLC0415 - only the local model has weights here
    from kb.embedders.e5_weights import bundled_weights  # noqa: PLC0415
    from kb.embedders.lazy import LOCAL_MODEL  # noqa: PLC0415

    if model != LOCAL_MODEL:
        return Space(model=model, dim=dim)
    try:
        return Space(model=model, dim=dim, weights=file_sha256(bundled_weights()))
    except EmbedderUnavailable:
        return Space(model=model, dim=dim)


def _space(tx: LedgerTx, settings: Settings) -> Space | None:
    current = tx.collections.current()
    return None if current is None else space_of(settings, current.model, current.dim)


def _notices(tx: LedgerTx) -> tuple[str, ...]:
    unfinished = len(tx.erasure.pending())
    if not unfinished:
        return ()
    return (f"{unfinished} erasures are not finished and their words may be in here: `kb govern run gc` ends them",)
