"""Imports an archive into an empty ledger: looked through as a whole, taken in by one transaction, then indexed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import ConfigError, Refused
from kb.ledger.migrations import HEAD, REVISIONS
from kb.ledger.portable import CARRIED, EMBEDDINGS, META, STAYS, shape_at_head
from kb.moving.arriving import INDEX, LOCK, filling, insert, is_begun, leave_mark, settled
from kb.moving.exporting import space_of, trust_of
from kb.moving.reading import reading
from kb.telemetry import Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kb.ledger import Ledger
    from kb.memories import Memories
    from kb.model import Instant, Json
    from kb.moving.arriving import Settled
    from kb.moving.exporting import Progress
    from kb.moving.manifest import Manifest
    from kb.moving.reading import Archive
    from kb.settings import Settings

SPARE = 2.5  # a SQLite ledger's file and its log, as multiples of the rows' bytes
OLDEST = "0003"  # revision; older ledgers were never exported


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did.

    Args:
        manifest: of the archive.
        settled: the index.
        was_begun: the rows were there already, from an import that was cut short.
        notices: what the operator should know.
    """

    manifest: Manifest
    settled: Settled
    was_begun: bool
    notices: tuple[str, ...]


def looked_through(path: Path) -> Manifest:
    """Read every byte of an archive and return what it holds; nothing is opened but the archive.

    Raises:
        InputError: there is none.
        ConfigError: it was written by a newer program.
        Refused: it is damaged, was changed, or holds what no archive does.
    """
    with reading(path) as archive:
        _refuse_foreign(archive.manifest)
        archive.verify()
        return archive.manifest


def refuse_too_large(manifest: Manifest, settings: Settings) -> None:
    """Refuse an archive whose rows the data directory's disk cannot hold; of a PostgreSQL server nothing is known.

    Raises:
        Refused: it cannot.
    """
    if settings.ledger_url is not None:
        return
    home = next(p for p in (settings.data_dir, *settings.data_dir.absolute().parents) if p.exists())
    free, need = shutil.disk_usage(home).free, int(manifest.unpacked * SPARE)
    if need > free:
        raise Refused(f"{home} has {free / 1e9:.1f} GB free, the import may need {need / 1e9:.1f} GB", hint="free some")


def notices_of(manifest: Manifest, memories: Memories, settings: Settings) -> tuple[str, ...]:
    """Return what will be other than it was: vectors that are made anew, trust that other settings decide."""
    own, notices = trust_of(settings), []
    for name, value in manifest.trust.items():
        if name in own and own[name] != value:
            what = "the gate" if name == "gate" else f"the half-life of {name}"
            notices.append(f"{what} was {value:g}, here it is {own[name]:g}: see kb.toml")
    if EMBEDDINGS not in manifest.tables:
        notices.append("the archive has no vectors: every text is embedded")
    elif not _is_same_space(manifest, memories, settings):
        held = manifest.space.model if manifest.space else "an unknown model"
        notices.append(f"the archive's vectors are of {held}, not of the embedder here: every text is embedded")
    return tuple(notices)


def imported(
    memories: Memories, settings: Settings, path: Path, *, progress: Progress = lambda _table, _rows: None
) -> Imported:
    """Take an archive into an empty store. Cut short, it is repeated: the ledger is empty, or whole, never in between.

    Raises:
        Refused: the ledger is not empty, or the archive is not sound.
        Locked: another import is at work.
        DependencyError: ledger, index or embedder is away.
    """
    with memories.ledger.lock(LOCK), reading(path) as archive, span(Span.IMPORT) as recording:
        manifest = archive.manifest
        _refuse_foreign(manifest)
        was_begun = is_begun(memories.ledger, manifest.digest)
        notices = notices_of(manifest, memories, settings)
        if not was_begun:
            model = memories.embedder.identity.model if _is_same_space(manifest, memories, settings) else None
            take_in(memories.ledger, archive, model, memories.clock.now(), progress=progress)
        done = settled(memories, _named(progress, INDEX))
        tables = manifest.tables.values()
        recording.set({Attr.ROWS: sum(t.rows for t in tables), Attr.BYTES: sum(t.size for t in tables)})
        recording.set({Attr.RESUMED: was_begun, Attr.TEXTS: done.embedded})
    return Imported(manifest=manifest, settled=done, was_begun=was_begun, notices=notices)


def take_in(
    ledger: Ledger,
    archive: Archive,
    model: str | None,
    now: Instant,
    *,
    progress: Progress = lambda _table, _rows: None,
) -> None:
    """Fill an empty ledger with an archive's rows, in one transaction.

    Args:
        ledger: an empty one.
        archive: of a schema that this program knows.
        model: whose vectors are of use; None: nobody's.
        now: when.
        progress: told how far each table is.

    Raises:
        Refused: the ledger is not empty, or the archive is not sound; nothing was written.
    """
    manifest = archive.manifest
    with filling(ledger, manifest.schema) as tx:
        for table, file in manifest.tables.items():
            rows = _wanted(archive, table, model)
            insert(tx, table, rows, shape=file.columns, progress=_named(progress, table))
        leave_mark(tx, manifest.digest, now)


def _wanted(archive: Archive, table: str, model: str | None) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield the rows that are taken. All are read in any case: only so the file's hash is known.

    Args:
        archive: read from.
        table: whose rows.
        model: whose vectors are of use; None: nobody's.
    """
    for size, row in archive.rows(table):
        is_about_old = table == META and row["key"] in STAYS
        is_useless = table == EMBEDDINGS and row["model"] != model
        if not is_about_old and not is_useless:
            yield size, row


def _is_same_space(manifest: Manifest, memories: Memories, settings: Settings) -> bool:
    if manifest.space is None:
        return False
    identity = memories.embedder.identity
    here = space_of(settings, identity.model, identity.dim)
    same = (here.model, here.dim) == (manifest.space.model, manifest.space.dim)
    return same and (not here.weights or not manifest.space.weights or here.weights == manifest.space.weights)


def _refuse_foreign(manifest: Manifest) -> None:
    if manifest.schema not in REVISIONS:
        raise ConfigError(
            f"the archive is of a newer version ({manifest.schema}) than this program knows ({HEAD})",
            hint="upgrade kb on this machine",
        )
    if REVISIONS.index(manifest.schema) < REVISIONS.index(OLDEST):
        raise Refused(f"the archive is of schema {manifest.schema}; no program has exported below {OLDEST}")
    known = {*CARRIED}
    if strange := sorted(manifest.tables.keys() - known):
        raise Refused(f"the archive has the table {strange[0]!r}, which no ledger does")
    if manifest.schema == HEAD:
        for table, file in manifest.tables.items():
            if dict(file.columns) != shape_at_head(table):
                raise Refused(f"the archive's {table} has other columns than its schema")


def _named(progress: Progress, table: str) -> Callable[[int], None]:
    return lambda rows: progress(table, rows)
