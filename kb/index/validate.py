"""What may be written: the server's rules, held before anything is sent. Milvus Lite stores whatever it gets. Pure."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.errors import InputError, IntegrityError
from kb.index import schema
from kb.index.filters import INT64_MAX, UNSPEAKABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kb.model import Json, MemoryId
    from kb.ports import IndexRow, Vector

UNIT_TOLERANCE = 1e-3  # how far a vector's length may be from 1: float32 and int8 models round
JSON_DEPTH = 64
TERM_BYTES = 96  # Milvus Lite's tokenizer takes all terms of 100 bytes and more for one and the same
MAYBE_LONG = re.compile(rf"\S{{{TERM_BYTES // 4 + 1},}}")  # a character has at most 4 bytes
BATCH_ROWS = 1000
BATCH_BYTES = 16 * 1024 * 1024  # a server's request limit is 64 MiB


def validated(rows: Sequence[IndexRow], dim: int) -> list[IndexRow]:
    """Return the rows to write: those of one id reduced to the last, in order of their last occurrence.

    Raises:
        IntegrityError: a row breaks a rule; the message names row and rule.
    """
    unique: dict[MemoryId, IndexRow] = {}
    for row in rows:
        unique.pop(row.id, None)
        unique[row.id] = row
    for id_, rule in broken_rules(list(unique.values()), dim).items():
        raise IntegrityError(f"memory {str(id_)[:200]!r}: {rule}", hint="nothing was written to the index")
    return list(unique.values())


def broken_rules(rows: Sequence[IndexRow], dim: int) -> dict[MemoryId, str]:
    """Return, by id, the first rule that each row breaks; rows that break none are absent."""
    return {row.id: rule for row in rows if (rule := _broken_rule(row, dim))}


def to_entity(row: IndexRow) -> dict[str, Any]:
    """Return a valid row as Milvus takes it: one value per column but the BM25 function's output."""
    return {
        **_texts(row),
        **_integers(row),
        schema.TERMS: short_terms(row.terms),
        schema.DENSE: np.asarray(row.dense, dtype=np.float32),
        schema.CONFIDENCE: float(row.confidence),
        schema.VERIFIED: bool(row.verified),
        schema.METADATA: dict(row.metadata),
    }


def batches(rows: Sequence[IndexRow]) -> Iterator[list[IndexRow]]:
    """Yield the rows in batches that one request can carry."""
    batch: list[IndexRow] = []
    size = 0
    for row in rows:
        weight = _weight(row)
        if batch and (len(batch) == BATCH_ROWS or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += weight
    if batch:
        yield batch


def query_vector(vector: Vector, dim: int) -> Vector:
    """Return the vector to search with.

    Raises:
        InputError: it has another shape, or is zero or not finite.
    """
    query = np.asarray(vector, dtype=np.float32)
    if query.shape != (dim,):
        raise InputError(f"the query vector has shape {query.shape}; the index has {dim} dimensions")
    if not np.isfinite(query).all() or not query.any():
        raise InputError("the query vector is zero or not finite")
    return query


def query_terms(terms: str) -> str:
    """Return the terms to search with, blank-separated; empty when there are none.

    Raises:
        InputError: they have half a character.
    """
    if _size(terms) is None:
        raise InputError("the query's terms have half a character (a lone surrogate)")
    return short_terms(" ".join(terms.split()))


def short_terms(terms: str) -> str:
    """Return `terms` with each that is too long for a tokenizer replaced by its digest, on both sides of a search."""

    def digest(found: re.Match[str]) -> str:
        data = found[0].encode()
        return found[0] if len(data) <= TERM_BYTES else hashlib.blake2b(data, digest_size=32).hexdigest()

    return MAYBE_LONG.sub(digest, terms)


def result_size(k: int) -> int:
    """Return k, the number of results asked for.

    Raises:
        InputError: it is more than a search can return.
    """
    if k > schema.MAX_BATCH:
        raise InputError(f"{k} results asked for; a search returns at most {schema.MAX_BATCH}")
    return k


def broken_metadata(metadata: Mapping[str, Json]) -> str:
    """Return why no index would take this metadata, or an empty text; whoever accepts metadata asks this first."""
    values = dict(metadata)
    broken = _broken_json(values)
    if broken:
        return f"metadata {broken}"
    size = _size(json.dumps(values, ensure_ascii=False))
    if size is None:
        return "metadata has half a character (a lone surrogate)"
    return f"metadata has {size} bytes; at most {schema.MAX_JSON_BYTES} fit" if size > schema.MAX_JSON_BYTES else ""


def _broken_rule(row: IndexRow, dim: int) -> str:
    """Return the first rule that `row` breaks, or an empty text."""
    return (
        _broken_text(row)
        or _broken_integer(row)
        or _broken_vector(row, dim)
        or _broken_trust(row)
        or broken_metadata(row.metadata)
    )


def _texts(row: IndexRow) -> dict[str, str]:
    return {
        schema.ID: str(row.id),
        schema.TENANT: row.tenant,
        schema.AGENT: row.scope.agent,
        schema.USER: row.scope.user,
        schema.CONVERSATION: row.scope.conversation,
        schema.TEXT: row.text,
        schema.TERMS: row.terms,
        schema.KIND: str(row.kind),
        schema.SOURCE_CLASS: str(row.source_class),
        schema.DOC_ID: row.doc_id,
        schema.SOURCE: row.source,
    }


def _integers(row: IndexRow) -> dict[str, int]:
    return {
        schema.BIRTH: row.birth,
        schema.STANDING: row.standing,
        schema.POLICY: row.policy,
        schema.VALID_FROM: row.valid_from,
        schema.VALID_TO: row.valid_to,
        schema.REV: row.rev,
    }


def _broken_text(row: IndexRow) -> str:
    if not row.id or UNSPEAKABLE.search(row.id):
        return "its id is empty, or has a line break, NUL or half a character"
    if not row.tenant:
        return "its tenant is empty"
    for column, text in _texts(row).items():
        size = _size(text)
        if size is None:
            return f"{column} has half a character (a lone surrogate)"
        if size > schema.VARCHAR_BYTES[column]:
            return f"{column} has {size} bytes; at most {schema.VARCHAR_BYTES[column]} fit"
    return ""


def _broken_integer(row: IndexRow) -> str:
    for column, number in _integers(row).items():
        bits = schema.INTEGER_BITS[column]
        if isinstance(number, bool) or not isinstance(number, int):
            return f"{column} is {number!r}, not a whole number"
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            return f"{column} is {number}; it has {bits} bits"
    return ""


def _broken_vector(row: IndexRow, dim: int) -> str:
    vector = np.asarray(row.dense)
    if vector.shape != (dim,):
        return f"its vector has shape {vector.shape}; the index has {dim} dimensions"
    if not np.issubdtype(vector.dtype, np.floating) or not np.isfinite(vector).all():
        return "its vector is not finite"
    length = float(np.linalg.norm(vector))
    if abs(length - 1) > UNIT_TOLERANCE:
        return f"its vector has length {length:.4g}, not 1"
    return ""


def _broken_trust(row: IndexRow) -> str:
    if not 0.0 <= row.confidence <= 1.0:  # false for NaN
        return f"confidence is {row.confidence}; it must be between 0 and 1"
    return ""


def _broken_json(value: object, depth: int = 0) -> str:
    """Return what about `value` is not JSON that every backend stores unchanged, or an empty text."""
    match value:
        case None | bool() | str():
            return ""
        case int():
            return "" if -INT64_MAX <= value <= INT64_MAX else "has a number of more than 64 bits"
        case float():
            return "" if math.isfinite(value) else f"has {value}"
        case list() | tuple():
            items = list(value)
        case dict() if all(isinstance(key, str) for key in value):
            items = list(value.values())
        case _:
            return f"has a {type(value).__name__} that is not JSON"
    if depth == JSON_DEPTH:
        return f"is nested more than {JSON_DEPTH} deep"
    return next(filter(None, (_broken_json(item, depth + 1) for item in items)), "")


def _size(text: str) -> int | None:
    """Return the bytes of `text` in UTF-8, or None when it has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _weight(row: IndexRow) -> int:
    """Return about how many bytes the row takes in a request."""
    return 4 * len(row.dense) + len(row.text.encode()) + len(row.terms.encode()) + 1024
