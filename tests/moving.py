"""What tests of export and import share: a ledger as plain rows, an archive as plain files, a store worth moving."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kb.ledger.portable import CARRIED
from kb.memories import Note
from kb.moving.exporting import Wanted, exported
from kb.moving.manifest import MANIFEST
from kb.settings import Settings
from tests.stores import sync, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kb.ledger import Ledger
    from kb.memories import Memories
    from kb.moving.manifest import Manifest

Rows = dict[str, list[dict[str, Any]]]
WHOLE = Wanted(with_embeddings=True, with_keys=True)


def everything(ledger: Ledger) -> Rows:
    """Return every row that travels, by table."""
    with ledger.read() as tx:
        return {table: list(tx.portable.rows(table)) for table in CARRIED}


def filled(memories: Memories, folder: Path) -> None:
    """Ingest a guide twice changed, and write notes for two tenants."""
    folder.mkdir(exist_ok=True)
    write(folder, guide_md="# Guide\n\nThe bridge carries forty tons.\n", colours_md="# Colours\n\n桥是绿色的。\n")
    sync(memories, folder)
    write(folder, guide_md="# Guide\n\nThe bridge carries fifty tons.\n")
    sync(memories, folder)
    for tenant in ("default", "acme"):
        memories.add_note(Note(text=f"A note of {tenant} about the toll.", tenant=tenant))


def export(memories: Memories, target: Path, wanted: Wanted = WHOLE) -> Manifest:
    """Export a store and return what the archive says of itself."""
    return exported(memories, settings_of(memories, target), target, wanted).manifest


def settings_of(memories: Memories, place: Path) -> Settings:
    """Return settings under which the store was opened."""
    del memories
    return Settings(data_dir=place.parent / "unused")


def rewritten(archive: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what an archive's folder says of itself, its digest made to fit."""
    said = json.loads((archive / MANIFEST).read_text())
    change(said)
    (archive / MANIFEST).write_bytes(with_digest(said))


def with_digest(said: dict[str, Any]) -> bytes:
    """Return a manifest's bytes with the digest that it should have."""
    from kb.moving.manifest import _digest_of

    body = {key: value for key, value in said.items() if key != "digest"}
    return json.dumps({**body, "digest": _digest_of(body)}).encode()
