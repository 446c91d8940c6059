"""`kb export` and `kb import`: a store as one archive, and an archive as a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents_care
from kb_cli.session import AsJson, opened, settings_of

if TYPE_CHECKING:
    from kb.model import Json
    from kb.moving.arriving import Settled
    from kb.moving.exporting import Exported
    from kb.moving.importing import Imported
    from kb.moving.manifest import Manifest
    from kb.settings import Settings

STRIDE = 10_000  # rows between two lines of progress

Target = Annotated[Path, typer.Argument(metavar="PATH", help="A new folder, or a file whose name ends in .tar.")]
Archive = Annotated[Path, typer.Argument(metavar="PATH", help="What `kb export` wrote.")]
OnlyTenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant's; default: everybody's.")]
WithEmbeddings = Annotated[
    bool, typer.Option("--with-embeddings", help="Carry the vectors, so that nothing is embedded again.")
]
WithKeys = Annotated[bool, typer.Option("--with-keys", help="Carry the API keys, as the hashes that are kept of them.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Read and check the whole archive; change nothing.")]


def export(
    path: Target,
    tenant: OnlyTenant = None,
    with_embeddings: WithEmbeddings = False,
    with_keys: WithKeys = False,
    as_json: AsJson = False,
) -> None:
    """Write everything that makes the store what it is to an archive, as it is at one instant."""
    from kb.moving.exporting import Wanted, exported
    from kb_cli.values import readable

    readable(str(path), tenant or "")
    wanted = Wanted(tenant=tenant, with_embeddings=with_embeddings, with_keys=with_keys)
    settings = settings_of()
    with opened(settings) as memories:
        done = exported(memories, settings, path, wanted, progress=Progress().tell)
    if as_json:
        render.emit_json(_exported_json(path, done))
    else:
        render.say(*_exported_lines(path, done))


def import_(path: Archive, plan: PlanOnly = False, as_json: AsJson = False) -> None:
    """Take an archive into an empty store, build its index, and compare the two."""
    from kb.moving.importing import imported, looked_through, refuse_too_large
    from kb_cli.values import readable

    readable(str(path))
    if not plan:
        refuse_agents_care("import a store")
    manifest = looked_through(path)
    settings = settings_of()
    refuse_too_large(manifest, settings)
    if plan:
        _show_plan(settings, manifest, as_json=as_json)
        return
    with opened(settings) as memories:
        done = imported(memories, settings, path, progress=Progress().tell)
        place = memories.ledger.place.shown
    if as_json:
        render.emit_json(_imported_json(place, done))
    else:
        render.say(*_imported_lines(place, done))


class Progress:
    """Tells on stderr how far each table is, a line every few thousand rows."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def tell(self, table: str, rows: int) -> None:
        """Say how many rows of a table are done, if that is news."""
        if rows >= self._next.get(table, STRIDE):
            self._next[table] = rows - rows % STRIDE + STRIDE
            render.tell(f"{table}: {rows:,} rows")


def settled_json(settled: Settled) -> dict[str, Json]:
    """Return an index that was built under the stable keys of docs/reference/json.md."""
    return {
        "collection": settled.collection,
        "memories": settled.memories,
        "embedded": settled.embedded,
        "repaired": settled.repaired,
    }


def settled_line(settled: Settled) -> str:
    """Return in words how an index was built and compared."""
    agreed = "index and ledger agree" if not settled.repaired else f"{settled.repaired} rows had to be repaired"
    return f"{settled.collection}: {settled.memories} memories, {settled.embedded} embedded anew; {agreed}"


def _show_plan(settings: Settings, manifest: Manifest, *, as_json: bool) -> None:
    from kb.moving.arriving import is_begun
    from kb.moving.importing import notices_of

    with opened(settings) as memories:
        was_begun = is_begun(memories.ledger, manifest.digest)
        notices = notices_of(manifest, memories, settings)
    if as_json:
        render.emit_json({"plan": True, **_manifest_json(manifest), "resumes": was_begun, "notices": list(notices)})
        return
    goes_on = ["the rows are there already, from an import that was cut short; only the index is built"]
    render.say(*_manifest_lines(manifest), *(goes_on if was_begun else []), *notices, "", "the archive is sound")


def _manifest_json(manifest: Manifest) -> dict[str, Json]:
    space = manifest.space
    return {
        "digest": manifest.digest,
        "created_at": manifest.created_at,
        "schema_revision": manifest.schema,
        "product_version": manifest.product,
        "tenant": manifest.tenant,
        "embedder": None if space is None else {"model": space.model, "dim": space.dim, "weights": space.weights},
        "tables": {name: table.rows for name, table in manifest.tables.items()},
        "left_out": dict(manifest.left_out),
    }


def _manifest_lines(manifest: Manifest) -> list[str]:
    whose = f"tenant {manifest.tenant}" if manifest.tenant else "all tenants"
    head = f"archive of {manifest.created_at}, {whose}, schema {manifest.schema}, digest {manifest.digest}"
    filled = [(name, f"{table.rows:,}") for name, table in manifest.tables.items() if table.rows]
    return [head, *(f"  {line}" for line in render.table(("table", "rows"), filled))]


def _exported_json(path: Path, done: Exported) -> dict[str, Json]:
    size = sum(table.size for table in done.manifest.tables.values())
    return {"path": str(path), **_manifest_json(done.manifest), "bytes": size, "notices": list(done.notices)}


def _exported_lines(path: Path, done: Exported) -> list[str]:
    size = sum(table.size for table in done.manifest.tables.values())
    notices = [f"notice: {notice}" for notice in done.notices]
    stays = [f"left out: {name}: {why}" for name, why in done.manifest.left_out.items()]
    return [f"wrote {path}: {size / 1e6:.1f} MB", *_manifest_lines(done.manifest), *stays, *notices]


def _imported_json(place: str, done: Imported) -> dict[str, Json]:
    return {
        **_manifest_json(done.manifest),
        "ledger": place,
        **settled_json(done.settled),
        "resumed": done.was_begun,
        "notices": list(done.notices),
    }


def _imported_lines(place: str, done: Imported) -> list[str]:
    notices = [f"notice: {notice}" for notice in done.notices]
    return [*_manifest_lines(done.manifest), f"imported into {place}", settled_line(done.settled), *notices]
