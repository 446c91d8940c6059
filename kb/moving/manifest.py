"""What an archive says about itself: format, schema, embedder, and of every file its rows, sizes and hash. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kb.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json

FORMAT = "kb archive"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
ENDING = ".jsonl.gz"
MAX_MANIFEST_BYTES = 1 << 20
MAX_RATIO, FREE_BYTES = 400, 64 << 20  # rows of a store pack to a twentieth at most; a small file may look otherwise
HINT = "take another copy of it, or export again"

_NAME = re.compile(r"[a-z][a-z_]{0,62}")
_HASH = re.compile(r"[0-9a-f]{64}")
_KIND = re.compile(r"(text|integer|real|boolean|json|bytes)\??")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One table's file."""

    rows: int
    size: int  # bytes of the file
    unpacked: int  # bytes of its lines
    sha256: str  # of the file
    columns: Mapping[str, str]  # kind by name, as `kb.ledger.portable.shape_of` says


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Where vectors come from: vectors of another space must never meet them.

    Args:
        model: name of the vector space.
        dim: of a vector.
        weights: sha256 of the model's weights; "" where they are an endpoint's own.
    """

    model: str
    dim: int
    weights: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An archive's table of contents.

    Args:
        schema: revision of the ledger's schema.
        product: version of the program that wrote it.
        created_at: ISO 8601, UTC.
        tenant: whose rows; None: everybody's.
        space: of the vectors in the index that was current; None when there was none yet.
        trust: gate and half-lives in days that the store ran under, to be compared.
        tables: files by table, in the order in which they are read.
        left_out: tables that stayed behind, and why.
    """

    schema: str
    product: str
    created_at: str
    tenant: str | None
    space: Space | None
    trust: Mapping[str, float]
    tables: Mapping[str, TableFile]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Sha256 of all that the archive says and holds."""
        return _digest_of(_body(self))

    @property
    def unpacked(self) -> int:
        """Bytes of all rows."""
        return sum(t.unpacked for t in self.tables.values())


def file_name(table: str) -> str:
    """Return the name of a table's file."""
    return f"{table}{ENDING}"


def written(manifest: Manifest) -> bytes:
    """Return the bytes of the manifest's file."""
    body = _body(manifest)
    return (json.dumps({**body, "digest": _digest_of(body)}, ensure_ascii=False, indent=1) + "\n").encode()


def parsed(data: bytes) -> Manifest:
    """Return the manifest that a file holds.

    Raises:
        Refused: it is no manifest, was changed, comes from a newer program, or promises what no archive holds.
    """
    try:
        said = json.loads(data.decode("utf-8"), parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{MANIFEST} is damaged: {error}", hint=HINT) from None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise Refused(f"{MANIFEST} is none of kb's", hint="`kb export` writes what `kb import` reads")
    if said.get("format_version") != FORMAT_VERSION:
        raise Refused(
            f"the archive is of format {said.get('format_version')}, this program reads {FORMAT_VERSION}",
            hint="upgrade kb on this machine",
        )
    digest = said.pop("digest", None)
    if digest != _digest_of(said):
        raise Refused(f"{MANIFEST} was changed after it was written", hint=HINT)
    try:
        manifest = _manifest_of(said)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{MANIFEST} lacks something or says it wrongly: {error}", hint=HINT) from None
    _refuse_bombs(manifest)
    return manifest


def _refuse_bombs(manifest: Manifest) -> None:
    for name, table in manifest.tables.items():
        if table.unpacked > MAX_RATIO * table.size + FREE_BYTES:
            raise Refused(
                f"{file_name(name)} would unpack to {table.unpacked:,} bytes: no archive of kb does", hint=HINT
            )
        if table.rows > table.unpacked:
            raise Refused(f"{file_name(name)} cannot hold {table.rows:,} rows", hint=HINT)


def _body(manifest: Manifest) -> dict[str, Json]:
    space = manifest.space
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "schema_revision": manifest.schema,
        "product_version": manifest.product,
        "created_at": manifest.created_at,
        "tenant": manifest.tenant,
        "embedder": None if space is None else {"model": space.model, "dim": space.dim, "weights": space.weights},
        "trust": dict(manifest.trust),
        "tables": {name: _table_json(name, table) for name, table in manifest.tables.items()},
        "left_out": dict(manifest.left_out),
    }


def _table_json(name: str, table: TableFile) -> dict[str, Json]:
    return {
        "file": file_name(name),
        "rows": table.rows,
        "size": table.size,
        "unpacked": table.unpacked,
        "sha256": table.sha256,
        "columns": dict(table.columns),
    }


def _digest_of(body: Mapping[str, Json]) -> str:
    return hashlib.sha256(json.dumps(body, ensure_ascii=True, sort_keys=True).encode()).hexdigest()


def _manifest_of(said: Mapping[str, Any]) -> Manifest:
    space = said["embedder"]
    return Manifest(
        schema=_text(said["schema_revision"]),
        product=_text(said["product_version"]),
        created_at=_text(said["created_at"]),
        tenant=None if said["tenant"] is None else _text(said["tenant"]),
        space=None if space is None else _space_of(space),
        trust={_text(key): float(value) for key, value in _object(said["trust"]).items()},
        tables={_matching(_NAME, name): _table_of(name, table) for name, table in _object(said["tables"]).items()},
        left_out={_text(name): _text(why) for name, why in _object(said["left_out"]).items()},
    )


def _space_of(said: Mapping[str, Any]) -> Space:
    return Space(model=_text(said["model"]), dim=_number(said["dim"]), weights=_text(said["weights"]))


def _table_of(name: str, said: Mapping[str, Any]) -> TableFile:
    if said["file"] != file_name(name):
        raise ValueError(f"the file of {name} is {said['file']!r}")
    return TableFile(
        rows=_number(said["rows"]),
        size=_number(said["size"]),
        unpacked=_number(said["unpacked"]),
        sha256=_matching(_HASH, said["sha256"]),
        columns={_matching(_NAME, column): _matching(_KIND, kind) for column, kind in _object(said["columns"]).items()},
    )


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _matching(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is not as expected")
    return value


def _refused_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")
