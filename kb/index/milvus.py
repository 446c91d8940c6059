"""Milvus behind the `Index` seam, one class for Milvus Lite and for servers; `connection` has the vendor's quirks."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kb.errors import IndexUnavailable
from kb.index import filters, validate
from kb.index.connection import NO_TERMS, Connection, vendor
from kb.index.lite import lite_server
from kb.index.schema import COLLECTION_PREFIX, DENSE, ID, REV, SPARSE, schema
from kb.model import MemoryId
from kb.ports import Candidate
from kb.telemetry import MILVUS, Attr, Metric, Span, observe, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.index.connection import Client, Launcher
    from kb.index.schema import Column, Schema
    from kb.ports import Criteria, IndexRow, Vector
    from kb.settings import Settings

DELETE_IDS = 1000  # in one request
PAGE_ROWS = 10_000  # of `revisions`
COMPACT_SECONDS, COMPACT_PAUSE, COMPACTED = 60.0, 0.2, "Completed"


def open_server(settings: Settings) -> MilvusServer:
    """Return the Milvus that the settings name: a server by URI, else the Milvus Lite of the data directory."""
    token = settings.index_token.get_secret_value() if settings.index_token else ""
    target = settings.index_uri or lite_server(settings)
    return MilvusServer(target, token=token, timeout=settings.index_timeout)


class MilvusServer:
    """A Milvus, its collections and one connection to it, made when first used. Safe for threads.

    Every call raises IndexUnavailable when the server cannot be reached or does not answer in time. Arguments as for
    `kb.index.connection.Connection`.
    """

    def __init__(self, target: str | Launcher, *, token: str = "", timeout: float = 10.0) -> None:
        self._connection = Connection(target, token=token, timeout=timeout)

    def open(self, name: str, dim: int) -> MilvusIndex:
        """Return the index over an existing collection; connects at the first call."""
        return MilvusIndex(self._connection, name, dim)

    def has(self, name: str) -> bool:
        """Return whether the collection exists."""
        return bool(self._connection.call(lambda client: client.has_collection(name, timeout=self._timeout)))

    def create(self, name: str, dim: int) -> None:
        """Create the collection, empty; one that exists is left as it is."""
        if not self.has(name):
            plan = schema(dim, lite=self._connection.is_lite)
            self._connection.call(partial(_create, name=name, plan=plan, timeout=self._timeout))

    def drop(self, name: str) -> None:
        """Drop the collection; one that does not exist is no error."""
        self._connection.call(lambda client: client.drop_collection(name, timeout=self._timeout))

    def scrub(self, names: Sequence[str]) -> None:
        """Leave nothing of deleted rows behind, as far as the server can do that.

        Milvus Lite is stopped and its file written anew; it starts again when next used. A server flushes and compacts
        the collections; segments that it has dropped go when its own garbage collection takes them.

        Args:
            names: of the collections that rows were deleted from.

        Raises:
            IndexUnavailable: the server cannot be reached, or has not compacted within a minute.
        """
        if self._connection.rewrite() or self._connection.is_lite:
            return
        for name in names:
            if self.has(name):
                self._connection.call(partial(_compacted, name=name, timeout=self._timeout))

    def collections(self) -> list[str]:
        """Return the names of all our collections here, in order: of every schema, dimension and generation."""
        names = self._connection.call(lambda client: client.list_collections(timeout=self._timeout))
        return sorted(name for name in names if name.startswith(COLLECTION_PREFIX))

    def close(self) -> None:
        """Let go of the connection, and of the Milvus Lite server if that is what it leads to."""
        self._connection.close()

    @property
    def _timeout(self) -> float:
        return self._connection.timeout


class MilvusIndex:
    """The `Index` over one collection; one is opened by `MilvusServer.open`. Safe for threads."""

    def __init__(self, connection: Connection, collection: str, dim: int) -> None:
        self._connection = connection
        self._timeout = connection.timeout
        self._collection = collection
        self._dim = dim

    def upsert(self, rows: Sequence[IndexRow]) -> None:
        """See `kb.ports.Index`."""
        wanted = validate.validated(rows, self._dim)
        with self._spanned(Span.INDEX_UPSERT, "upsert", batch=len(wanted)):
            for batch in validate.batches(wanted):
                entities = [validate.to_entity(row) for row in batch]
                self._connection.write(partial(self._upsert, entities=entities))

    def delete(self, ids: Sequence[MemoryId]) -> None:
        """See `kb.ports.Index`."""
        wanted = list(dict.fromkeys(ids))
        with self._spanned(Span.INDEX_DELETE, "delete", batch=len(wanted)):
            for start in range(0, len(wanted), DELETE_IDS):
                where = filters.with_ids(wanted[start : start + DELETE_IDS])
                self._connection.write(partial(self._delete, where=where))

    def dense(self, vector: Vector, criteria: Criteria, k: int) -> list[Candidate]:
        """See `kb.ports.Index`."""
        query = validate.query_vector(vector, self._dim)
        found = self._search(query, filters.expression(criteria), validate.result_size(k), arm=DENSE)
        return [Candidate(id=c.id, score=max(-1.0, min(1.0, c.score))) for c in found]

    def sparse(self, terms: str, criteria: Criteria, k: int) -> list[Candidate]:
        """See `kb.ports.Index`."""
        query = validate.query_terms(terms)
        try:
            found = self._search(query, filters.expression(criteria), validate.result_size(k), arm=SPARSE)
        except IndexUnavailable as error:
            if NO_TERMS in str(error):
                return []
            raise
        return [candidate for candidate in found if candidate.score > 0]

    def revisions(self) -> Iterator[tuple[MemoryId, int]]:
        """See `kb.ports.Index`. Page by page, each the state of its moment: there is no snapshot over all."""
        after = ""
        while page := self._page(after):
            yield from page
            after = page[-1][0]

    def count(self) -> int:
        """See `kb.ports.Index`."""
        return self._count(filters.id_range("", None))

    def _search(self, query: Vector | str, where: str, k: int, *, arm: str) -> list[Candidate]:
        if k < 1 or (arm == SPARSE and not query):
            return []
        with self._spanned(Span.INDEX_SEARCH, "search", arm=arm, k=k):
            (hits,) = self._connection.call(
                lambda client: client.search(
                    self._collection,
                    data=[query],
                    anns_field=arm,
                    filter=where,
                    limit=k,
                    search_params=_SEARCH_PARAMS[arm],
                    timeout=self._timeout,
                )
            )
        best: dict[MemoryId, float] = {}
        for hit in hits:
            id_, score = MemoryId(hit[ID]), float(hit["distance"])
            best[id_] = max(score, best.get(id_, score))
        return [Candidate(id=i, score=s) for i, s in sorted(best.items(), key=lambda item: (-item[1], item[0]))]

    @contextmanager
    def _spanned(
        self, name: Span, operation: str, *, batch: int | None = None, arm: str | None = None, k: int | None = None
    ) -> Iterator[None]:
        """Record one request to the server, by the conventions for databases."""
        attributes = {
            Attr.DB_SYSTEM: MILVUS,
            Attr.DB_COLLECTION: self._collection,
            Attr.DB_OPERATION: operation,
            Attr.DB_BATCH: batch,
            Attr.ARM: arm,
            Attr.TOP_K: k,
        }
        began = time.perf_counter()
        with span(name, attributes):
            yield
        labels = {Attr.DB_SYSTEM: MILVUS, Attr.DB_OPERATION: operation}
        observe(Metric.DB_SECONDS, time.perf_counter() - began, **labels)

    def _page(self, after: str) -> list[tuple[MemoryId, int]]:
        """Return the next rows after the id `after` in id order, without a gap up to the last one returned.

        A query with a limit may return any rows, so the range is narrowed until it holds no more than came back.
        """
        upto = None
        while True:
            where = filters.id_range(after, upto)
            found = self._query(where, [ID, REV], PAGE_ROWS)
            page = sorted((MemoryId(id_), rev) for id_, rev in {row[ID]: row[REV] for row in found}.items())
            if len(found) < PAGE_ROWS or self._count(filters.id_range(after, page[-1][0])) == len(page):
                return page
            upto = page[len(page) // 2][0]

    def _query(self, where: str, columns: list[str], limit: int) -> list[dict[str, Any]]:
        return self._connection.call(
            lambda client: list(
                client.query(self._collection, filter=where, output_fields=columns, limit=limit, timeout=self._timeout)
            )
        )

    def _count(self, where: str) -> int:
        (row,) = self._connection.call(
            lambda client: client.query(
                self._collection, filter=where, output_fields=["count(*)"], timeout=self._timeout
            )
        )
        return int(row["count(*)"])

    def _upsert(self, client: Client, entities: list[dict[str, Any]]) -> None:
        client.upsert(self._collection, entities, timeout=self._timeout)

    def _delete(self, client: Client, where: str) -> None:
        client.delete(self._collection, filter=where, timeout=self._timeout)


def _compacted(client: Client, name: str, timeout: float) -> None:
    """Seal what was written and merge a collection's segments without their deleted rows; wait until it is done."""
    client.flush(name, timeout=timeout)
    job = client.compact(name, timeout=timeout)
    deadline = time.monotonic() + COMPACT_SECONDS
    while client.get_compaction_state(job, timeout=timeout) != COMPACTED:
        if time.monotonic() > deadline:
            raise IndexUnavailable(f"{name} was not compacted within {COMPACT_SECONDS:g} s")
        time.sleep(COMPACT_PAUSE)


_SEARCH_PARAMS = {DENSE: {"metric_type": "COSINE"}, SPARSE: {"metric_type": "BM25"}}


def _create(client: Client, name: str, plan: Schema, timeout: float) -> None:
    """Create a collection as planned, and load it."""
    pymilvus = vendor()
    columns = pymilvus.MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    for column in plan.columns:
        columns.add_field(column.name, pymilvus.DataType[column.type], **_options(column))
    read, written = plan.bm25
    columns.add_function(
        pymilvus.Function(
            name="bm25",
            function_type=pymilvus.FunctionType.BM25,
            input_field_names=[read],
            output_field_names=[written],
        )
    )
    indexes = client.prepare_index_params()
    for index in plan.indexes:
        metric = {"metric_type": index.metric} if index.metric else {}
        indexes.add_index(index.column, index_type=index.type, **metric)
    # Strong: a search sees every write that has returned, whoever made it.
    split = {"num_partitions": plan.partitions} if plan.partitions else {}
    client.create_collection(name, schema=columns, consistency_level="Strong", timeout=timeout, **split)
    client.create_index(name, indexes, timeout=timeout, sync=False)  # no rows yet: there is no build to wait for
    client.load_collection(name, timeout=timeout)


def _options(column: Column) -> dict[str, Any]:
    given: dict[str, Any] = {
        "max_length": column.max_length,
        "dim": column.dim,
        "is_primary": column.primary or None,
        "is_partition_key": column.partition_key or None,
        "enable_analyzer": True if column.tokenizer else None,
        "analyzer_params": {"tokenizer": column.tokenizer} if column.tokenizer else None,
    }
    return {name: value for name, value in given.items() if value is not None}
