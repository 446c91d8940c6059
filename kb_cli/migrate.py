"""`kb store migrate`: takes the index to another Milvus, or the ledger to another database, and says what to set."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.acting import refuse_agents_care
from kb_cli.backup import Progress, settled_json
from kb_cli.session import AsJson, ledger_of, opened, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kb.index.milvus import MilvusServer
    from kb.ledger import Ledger
    from kb.model import Json
    from kb.settings import Settings

LITE = "lite"  # the Milvus Lite of the data directory: what an index_uri that is not set means
ROWS = "index"  # how progress calls the index's rows

To = Annotated[str | None, typer.Option("--to", metavar="URI", help="Milvus that gets the index; lite: the embedded.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="URI", help="Milvus that has it now; default: as the settings say.")
]
LedgerTo = Annotated[
    str | None,
    typer.Option("--ledger-to", metavar="URL", help="Database that gets the ledger; its index is built anew."),
]
TokenFrom = Annotated[
    str, typer.Option("--token-from", metavar="NAME", help="Environment variable that holds the token of --to.")
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Say what would go where; change nothing.")]
WriteConfig = Annotated[bool, typer.Option("--write-config", help="Write the new place to kb.toml.")]
DropOld = Annotated[
    bool, typer.Option("--drop-old", help="Drop the old collection, once the settings name the new place.")
]


def migrate(
    to: To = None,
    from_: From = None,
    ledger_to: LedgerTo = None,
    token_from: TokenFrom = "",
    plan: PlanOnly = False,
    write_config: WriteConfig = False,
    drop_old: DropOld = False,
    as_json: AsJson = False,
) -> None:
    """Take the index to another Milvus, or the ledger to another database, without embedding; the old one stays."""
    from kb.errors import ExitCode, InputError
    from kb_cli.values import readable

    readable(to or "", from_ or "", ledger_to or "", token_from)
    if not plan:
        refuse_agents_care("move the store")
    if to is None and ledger_to is None:
        raise InputError("nothing is to be moved", hint="name a Milvus with --to, or a database with --ledger-to")
    old = settings_of() if from_ is None else _placed(settings_of(), from_)
    new = settings_of(ledger_url=ledger_to, index_token=_token(token_from))
    new = new if to is None else _placed(new, to)
    if drop_old and not write_config and not plan:
        _refuse_searched(new)
    if ledger_to is None:
        shown = _index_plan(old, new) if plan else _index_moved(old, new)
    else:
        shown = _ledger_plan(old, new) if plan else _ledger_moved(old, new)
    if not plan and shown["in_step"]:
        values = {"ledger_url": ledger_to} if ledger_to else {}
        shown |= _switched(values if to is None else {**values, "index_uri": new.index_uri}, is_written=write_config)
        shown["dropped"] = _dropped(old, new, str(shown["old_collection"])) if drop_old else None
    if as_json:
        render.emit_json(shown)
    else:
        render.say(*_lines(shown))
    if not plan and not shown["in_step"]:
        raise typer.Exit(ExitCode.PARTIAL)


def _placed(settings: Settings, uri: str) -> Settings:
    from kb.addresses import Address

    return settings.model_copy(update={"index_uri": None if uri == LITE else Address(uri)})


def _token(variable: str) -> str | None:
    from kb.errors import InputError

    if variable and variable not in os.environ:
        raise InputError(f"the environment has no {variable}", hint="--token-from names a variable, not a token")
    return os.environ[variable] if variable else None


def _index_plan(old: Settings, new: Settings) -> dict[str, Json]:
    from kb.moving.relocating import current_of

    _refuse_same(old, new)
    with opened(old) as memories, _server(new) as target:
        current = current_of(memories)
        is_there = target.has(current.name)
        return {
            "plan": True,
            **_places(old, new),
            "collection": current.name,
            "old_rows": memories.generations.index(current, memories.clock.now()).count(),
            "new_rows": target.open(current.name, current.dim).count() if is_there else 0,
        }


def _index_moved(old: Settings, new: Settings) -> dict[str, Json]:
    from kb.moving.relocating import moved

    _refuse_same(old, new)
    progress = Progress()
    with opened(old) as memories, _server(new) as target:
        done = moved(memories, target, progress=lambda rows: progress.tell(ROWS, rows))
    return {
        "plan": False,
        **_places(old, new),
        "collection": done.collection,
        "old_collection": done.collection,
        "rows": done.rows,
        "rows_written": done.written,
        "left": done.left,
        "in_step": done.left == 0,
    }


def _ledger_plan(old: Settings, new: Settings) -> dict[str, Json]:
    from kb.moving.arriving import refuse_occupied
    from kb.moving.copying import counts_of

    with ledger_of(old) as source, ledger_of(new) as target:
        with target.read() as tx:
            refuse_occupied(tx, target)
        rows: dict[str, Json] = {**counts_of(source)}
        return {"plan": True, **_places(old, new), **_ledgers(source, target), "tables": rows}


def _ledger_moved(old: Settings, new: Settings) -> dict[str, Json]:
    from kb.moving.arriving import settled
    from kb.moving.copying import copied, digest_of

    progress = Progress()
    with ledger_of(old) as source, opened(new) as memories:
        with source.read() as tx:
            before = tx.collections.current()
        done = copied(source, memories.ledger, memories.clock.now(), progress=progress.tell)
        index = settled(memories, lambda rows: progress.tell(ROWS, rows))
        is_same = digest_of(source) == done.digest
        return {
            "plan": False,
            **_places(old, new),
            **_ledgers(source, memories.ledger),
            "tables": {**done.rows},
            **settled_json(index),
            "old_collection": before.name if before else "",
            "resumed": done.was_begun,
            "in_step": is_same,
        }


def _refuse_same(old: Settings, new: Settings) -> None:
    from kb.errors import InputError

    if old.index_uri == new.index_uri:
        raise InputError(f"the index is at {_uri(new)} already", hint="--from names the place where it was before")


def _switched(values: Mapping[str, str | None], *, is_written: bool) -> dict[str, Json]:
    """Write the new places to kb.toml if that is wanted; return what is to be set, and where it was written."""
    from kb.moving.config_file import is_secret, write_setting

    files = {}
    for key, value in values.items() if is_written else ():
        if value is not None and is_secret(value):
            render.tell(f"{key} holds a password and was not written: set KB_{key.upper()} in the environment")
        else:
            files[key] = str(write_setting(key, value))
    to_set: dict[str, Json] = {key: _bare(value) for key, value in values.items() if key not in files}
    overruled: list[Json] = [f"KB_{key.upper()}" for key in files if f"KB_{key.upper()}" in os.environ]
    return {"written_to": {**files}, "to_set": to_set, "overruled_by": overruled}


def _dropped(old: Settings, new: Settings, collection: str) -> str:
    """Drop the old collection, which nobody may search any more, and return its name."""
    _refuse_searched(new)
    with _server(old) as server:
        server.drop(collection)
    return collection


def _refuse_searched(new: Settings) -> None:
    """Refuse to drop what the settings in force still lead to.

    Raises:
        Refused: they do not name the new place.
    """
    from kb.errors import Refused

    now = settings_of()
    if (now.index_uri, now.ledger_url) != (new.index_uri, new.ledger_url):
        hint = "--write-config sets the new place; a KB_… variable of the environment wins over it"
        raise Refused("the old collection stays: the settings still name the old place", hint=hint)


@contextmanager
def _server(settings: Settings) -> Iterator[MilvusServer]:
    from kb.index.milvus import open_server

    server = open_server(settings)
    try:
        yield server
    finally:
        server.close()


def _places(old: Settings, new: Settings) -> dict[str, Json]:
    return {"from": _uri(old), "to": _uri(new)}


def _ledgers(source: Ledger, target: Ledger) -> dict[str, Json]:
    return {"ledger_from": source.place.shown, "ledger_to": target.place.shown}


def _uri(settings: Settings) -> str:
    return _bare(settings.index_uri) or LITE


def _bare(uri: str | None) -> str | None:
    """Return a URI without user and password."""
    from kb.addresses import without_secret

    return None if uri is None else without_secret(uri)


def _lines(shown: Mapping[str, Json]) -> list[str]:
    lines = [f"{key.replace('_', ' '):16}{_value(value)}" for key, value in shown.items() if key not in _SAID_BELOW]
    if shown["plan"]:
        return [*lines, "", "nothing was changed"]
    if not shown["in_step"]:
        return [*lines, "", _BEHIND]
    for key, value in _items(shown["to_set"]):
        variable = f"KB_{key.upper()}"
        lines.append(f"set {variable}={value}" if value is not None else f"unset {variable}, and {key} in kb.toml")
    lines += [f"wrote {key} to {file}" for key, file in _items(shown["written_to"])]
    lines += [f"the environment has {name}, which wins over kb.toml" for name in _texts(shown["overruled_by"])]
    return [*lines, "then restart what runs, and `kb reconcile` brings in what was changed meanwhile"]


_SAID_BELOW = frozenset({"plan", "tables", "to_set", "written_to", "overruled_by"})
_BEHIND = "the old place was written to meanwhile: stop what writes there and repeat; nothing was switched"


def _value(value: Json) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _items(value: Json) -> list[tuple[str, Json]]:
    return list(value.items()) if isinstance(value, dict) else []


def _texts(value: Json) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []
