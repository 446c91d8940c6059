"""The index's columns, their limits and their indexes, as data; `milvus` turns it into calls. Pure.

Milvus Lite and servers get the same columns. On Lite `tenant` is a plain column, because a partition key there breaks
every filter, and the vectors have a FLAT index, exact under any filter. On a server `tenant` is the partition key, the
vectors have the server's own choice of index, and the columns that filters test have one too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEMA_VERSION: Final = 1  # part of every collection's name: another schema is another collection

COLLECTION_PREFIX: Final = "kb_memories_"
MAX_BATCH: Final = 16_384  # rows in one request, and results of one search, that a server accepts
MAX_JSON_BYTES: Final = 65_536
PARTITIONS: Final = 64  # on a server: how many groups the tenants are hashed into

ID, TENANT = "id", "tenant"
AGENT, USER, CONVERSATION = "agent", "user", "conversation"
TEXT, TERMS, DENSE, SPARSE = "text", "terms", "dense", "sparse"
BIRTH, CONFIDENCE, VERIFIED, STANDING, POLICY = "birth", "confidence", "verified", "standing", "policy"
VALID_FROM, VALID_TO = "valid_from", "valid_to"
KIND, SOURCE_CLASS, DOC_ID, SOURCE = "kind", "source_class", "doc_id", "source"
REV, METADATA = "rev", "metadata"

VARCHAR_BYTES: Final = {
    ID: 128,
    TENANT: 256,
    AGENT: 256,
    USER: 256,
    CONVERSATION: 256,
    TEXT: 65_535,
    TERMS: 65_535,
    KIND: 32,
    SOURCE_CLASS: 32,
    DOC_ID: 128,
    SOURCE: 4096,
}

INTEGER_BITS: Final = {BIRTH: 64, STANDING: 8, POLICY: 16, VALID_FROM: 64, VALID_TO: 64, REV: 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; `type` is a name of Milvus' own data types."""

    name: str
    type: str
    max_length: int | None = None  # bytes, of a VARCHAR
    dim: int | None = None  # of a FLOAT_VECTOR
    primary: bool = False
    partition_key: bool = False
    tokenizer: str | None = None  # of a VARCHAR that BM25 reads


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIndex:
    """One column's index."""

    column: str
    type: str
    metric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A collection: columns, the BM25 function's input and output, indexes, number of partitions (None: unsplit)."""

    columns: tuple[Column, ...]
    bm25: tuple[str, str]
    indexes: tuple[ColumnIndex, ...]
    partitions: int | None


def schema(dim: int, *, lite: bool) -> Schema:
    """Return the schema of a collection of `dim`-dimensional vectors for Milvus Lite or for a server."""
    return Schema(
        columns=_columns(dim, partition_key=not lite),
        bm25=(TERMS, SPARSE),
        indexes=_LITE_INDEXES if lite else _SERVER_INDEXES,
        partitions=None if lite else PARTITIONS,
    )


def collection_name(dim: int, generation: int, owner: str = "") -> str:
    """Return a collection's name.

    Args:
        dim: dimension of its vectors.
        generation: a rebuild goes into the next one.
        owner: the ledger it is a projection of, so that two ledgers on one server never take each other's rows for
            their own.
    """
    of = f"_{owner}" if owner else ""
    return f"{COLLECTION_PREFIX}v{SCHEMA_VERSION}_{dim}{of}_g{generation}"


def is_of_this_schema(name: str) -> bool:
    """Return whether a collection's name says that it has the columns of this version."""
    return name.startswith(f"{COLLECTION_PREFIX}v{SCHEMA_VERSION}_")


def _columns(dim: int, *, partition_key: bool) -> tuple[Column, ...]:
    return (
        _varchar(ID, primary=True),
        _varchar(TENANT, partition_key=partition_key),
        *(_varchar(name) for name in (AGENT, USER, CONVERSATION, TEXT)),
        _varchar(TERMS, tokenizer="whitespace"),  # terms are ours: the server must only split them
        Column(name=DENSE, type="FLOAT_VECTOR", dim=dim),
        Column(name=SPARSE, type="SPARSE_FLOAT_VECTOR"),
        *(Column(name=name, type=f"INT{bits}") for name, bits in INTEGER_BITS.items()),
        Column(name=CONFIDENCE, type="DOUBLE"),
        Column(name=VERIFIED, type="BOOL"),
        *(_varchar(name) for name in (KIND, SOURCE_CLASS, DOC_ID, SOURCE)),
        Column(name=METADATA, type="JSON"),
    )


def _varchar(name: str, *, primary: bool = False, partition_key: bool = False, tokenizer: str | None = None) -> Column:
    return Column(
        name=name,
        type="VARCHAR",
        max_length=VARCHAR_BYTES[name],
        primary=primary,
        partition_key=partition_key,
        tokenizer=tokenizer,
    )


_BM25_INDEX = ColumnIndex(column=SPARSE, type="SPARSE_INVERTED_INDEX", metric="BM25")
_LITE_INDEXES = (ColumnIndex(column=DENSE, type="FLAT", metric="COSINE"), _BM25_INDEX)
_SERVER_INDEXES = (
    ColumnIndex(column=DENSE, type="AUTOINDEX", metric="COSINE"),
    _BM25_INDEX,
    *(ColumnIndex(column=name, type="INVERTED") for name in (STANDING, BIRTH, DOC_ID, SOURCE)),
)
