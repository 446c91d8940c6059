"""The columns and indexes of each backend."""

from __future__ import annotations

from kb.index.schema import DENSE, SPARSE, TENANT, TERMS, collection_name, schema


def test_a_collection_is_named_by_schema_version_dimension_and_generation() -> None:
    assert collection_name(384, 1) == "kb_memories_v1_384_g1"
    assert collection_name(384, 1, "ab12") == "kb_memories_v1_384_ab12_g1"
    assert len({collection_name(d, g) for d in (384, 768) for g in (1, 2)}) == 4


def test_lite_gets_plain_columns_and_an_exact_index() -> None:
    lite = schema(384, lite=True)
    assert not any(column.partition_key for column in lite.columns)
    assert lite.partitions is None
    assert {(i.column, i.type, i.metric) for i in lite.indexes} == {
        (DENSE, "FLAT", "COSINE"),
        (SPARSE, "SPARSE_INVERTED_INDEX", "BM25"),
    }


def test_a_server_gets_the_tenant_as_partition_key_and_indexes_for_filters() -> None:
    server = schema(384, lite=False)
    assert [column.name for column in server.columns if column.partition_key] == [TENANT]
    assert server.partitions
    assert {i.column for i in server.indexes} > {DENSE, SPARSE}


def test_both_backends_hold_the_same_columns() -> None:
    lite, server = schema(8, lite=True), schema(8, lite=False)
    assert [(c.name, c.type, c.max_length, c.dim) for c in lite.columns] == [
        (c.name, c.type, c.max_length, c.dim) for c in server.columns
    ]
    assert lite.bm25 == server.bm25 == (TERMS, SPARSE)
    assert next(c.tokenizer for c in lite.columns if c.name == TERMS) == "whitespace"
