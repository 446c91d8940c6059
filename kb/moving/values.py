"""Rows of an archive: every value of its column's kind, storable, and a word that the domain knows. Pure."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from typing import TYPE_CHECKING

from kb.errors import InputError
from kb.history import EdgeKind, EvidenceKind
from kb.ledger.checks import checked_int, checked_json, checked_real, checked_text
from kb.ledger.portable import EMBEDDINGS, NULLABLE
from kb.ledger.runs import RunStatus
from kb.ledger.slots import SlotStatus
from kb.model import Kind, SourceClass, Standing
from kb.sweeps import ActionKind, ImageKind, SweepJob, SweepStatus, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import StrEnum

    from kb.model import Json

FLOAT_BYTES = 4
WORDS: Mapping[tuple[str, str], type[StrEnum]] = {
    ("memories", "kind"): Kind,
    ("memories", "source_class"): SourceClass,
    ("memories", "standing"): Standing,
    ("sources", "source_class"): SourceClass,
    ("runs", "status"): RunStatus,
    ("slots", "status"): SlotStatus,
    ("lineage", "kind"): EdgeKind,
    ("evidence", "kind"): EvidenceKind,
    ("sweeps", "job"): SweepJob,
    ("sweeps", "status"): SweepStatus,
    ("actions", "kind"): ActionKind,
    ("images", "kind"): ImageKind,
    ("tombstones", "kind"): TombstoneKind,
}


def checked_row(table: str, columns: Mapping[str, str], row: Json) -> dict[str, Json]:
    """Return a row of an archive, each of its values fit for its column.

    Args:
        table: where it goes.
        columns: kind by name.
        row: as it was parsed.

    Raises:
        InputError: it is no row of this table; the message names the column.
    """
    if not isinstance(row, dict):
        raise InputError("it is no object")
    if unknown := row.keys() - columns.keys():
        raise InputError(f"it has the unknown column {min(unknown)!r}")
    for name, kind in columns.items():
        if name in row:
            _check(table, name, kind.removesuffix(NULLABLE), row[name])
        elif not kind.endswith(NULLABLE):
            raise InputError(f"it lacks {name}")
    if table == EMBEDDINGS:
        _check_vector(row)
    return row


def _check(table: str, name: str, kind: str, value: Json) -> None:
    match kind, value:
        case "json", _:
            checked_json(value, name)
        case "text", str():
            checked_text(value, name)
            _check_word(table, name, value)
        case "boolean", bool():
            pass
        case "integer", int() if not isinstance(value, bool):
            checked_int(value, name)
        case "real", int() | float() if not isinstance(value, bool):
            checked_real(float(value), name)
        case "bytes", str():
            _bytes_of(name, value)
        case _:
            raise InputError(f"{name} is no {kind}")


def _check_word(table: str, name: str, value: str) -> None:
    words = WORDS.get((table, name))
    if words is not None and value not in {word.value for word in words}:
        raise InputError(f"{name} is {value[:40]!r}, which means nothing")


def _check_vector(row: Mapping[str, Json]) -> None:
    """A vector that is not finite, or of another length than it says, would stop every search that meets it."""
    vector, dim = _bytes_of("vector", str(row["vector"])), row["dim"]
    if not isinstance(dim, int) or not 0 < dim <= len(vector) or len(vector) != dim * FLOAT_BYTES:
        raise InputError("its vector has another length than it says")
    if not all(map(math.isfinite, struct.unpack(f"<{dim}f", vector))):
        raise InputError("its vector is not finite")


def _bytes_of(name: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{name} is no base64") from None
