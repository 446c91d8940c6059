"""The server's rules, one by one: what breaks one is named, what keeps them is sent unchanged."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from kb.errors import InputError, IntegrityError
from kb.index import schema, validate
from kb.model import FOREVER, Scope
from kb.trust import NEVER_BORN
from tests.index_samples import DIM, row, unit


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"id": ""}, "id is empty"),
        ({"id": "a\nb"}, "line break"),
        ({"id": "x" * 129}, "id has 129 bytes"),
        ({"tenant": ""}, "tenant is empty"),
        ({"tenant": "语" * 86}, "tenant has 258 bytes; at most 256"),
        ({"scope": Scope(agent="a" * 257)}, "agent has 257 bytes"),
        ({"text": "语" * 21_846}, "text has 65538 bytes; at most 65535"),
        ({"terms": "a" * 65_536}, "terms has 65536 bytes"),
        ({"text": "half \ud83d"}, "half a character"),
        ({"source": "s" * 4097}, "source has 4097 bytes"),
        ({"birth": 2**63}, "birth is 9223372036854775808; it has 64 bits"),
        ({"valid_to": NEVER_BORN - 1}, "valid_to is"),
        ({"standing": 128}, "standing is 128; it has 8 bits"),
        ({"policy": -32_769}, "policy is -32769; it has 16 bits"),
        ({"rev": 1.5}, "rev is 1.5, not a whole number"),
        ({"rev": True}, "rev is True, not a whole number"),
        ({"dense": np.ones(DIM + 1, np.float32)}, "shape (9,)"),
        ({"dense": np.full(DIM, np.nan, np.float32)}, "not finite"),
        ({"dense": np.array([np.inf] * DIM, np.float32)}, "not finite"),
        ({"dense": np.zeros(DIM, np.float32)}, "length 0, not 1"),
        ({"dense": unit([1]) * 1.01}, "length 1.01, not 1"),
        ({"dense": np.ones(DIM, np.int64)}, "not finite"),
        ({"confidence": float("nan")}, "confidence is nan"),
        ({"confidence": 1.0000001}, "confidence is 1.0000001"),
        ({"metadata": {"x": "y" * 65_536}}, "metadata has 65545 bytes; at most 65536"),
        ({"metadata": {"x": "语" * 22_000}}, "metadata has 66009 bytes"),
        ({"metadata": {"x": float("inf")}}, "metadata has inf"),
        ({"metadata": {"x": [1, {"y": float("nan")}]}}, "metadata has nan"),
        ({"metadata": {"x": 2**63}}, "metadata has a number of more than 64 bits"),
        ({"metadata": {"x": b"bytes"}}, "metadata has a bytes that is not JSON"),
        ({"metadata": {1: "x"}}, "metadata has a dict that is not JSON"),
        ({"metadata": {"x": "\ud800"}}, "metadata has half a character"),
        ({"metadata": {"x": nested(100)}}, "metadata is nested more than 64 deep"),
    ],
)
def test_a_broken_rule_is_named_with_its_row(changes: dict[str, Any], rule: str) -> None:
    bad = row(changes.get("id", "bad"), **{k: v for k, v in changes.items() if k != "id"})
    with pytest.raises(IntegrityError) as caught:
        validate.validated([row("good"), bad], DIM)
    assert rule in str(caught.value)
    assert repr(str(bad.id)[:200]) in str(caught.value)
    assert list(validate.broken_rules([row("good"), bad], DIM)) == [bad.id]


def test_the_limits_themselves_are_kept() -> None:
    rows = [
        row("x" * 128, tenant="t" * 256, text="a" * 65_535, terms="b" * 65_535, source="s" * 4096),
        row("ends", birth=NEVER_BORN, valid_from=NEVER_BORN, valid_to=FOREVER, standing=-128, policy=32_767),
        row("trust", confidence=0.0, metadata=MappingProxyType({"n": 2**63 - 1, "f": 1e300, "deep": nested(60)})),
        row("long", dense=unit([1, 1]) * np.float32(1.0009)),
    ]
    assert validate.validated(rows, DIM) == rows


def test_of_one_id_the_last_row_stays() -> None:
    first, other, last = row("a", rev=1), row("b"), row("a", rev=2)
    assert validate.validated([first, other, last], DIM) == [other, last]


def test_a_bad_row_that_is_overruled_in_the_same_call_does_no_harm() -> None:
    good = row("a")
    assert validate.validated([row("a", confidence=2.0), good], DIM) == [good]


def test_batches_carry_every_row_in_order_and_stay_small() -> None:
    rows = [row(f"m{n}", text="x" * (60_000 if n % 3 else 10)) for n in range(2500)]
    batches = list(validate.batches(rows))
    assert [r for batch in batches for r in batch] == rows
    assert max(map(len, batches)) <= validate.BATCH_ROWS <= schema.MAX_BATCH
    assert max(sum(len(r.text) for r in batch) for batch in batches) <= validate.BATCH_BYTES
    assert list(validate.batches([])) == []


def test_an_entity_has_a_value_for_every_column_but_the_servers_own() -> None:
    for lite in (True, False):
        columns = {column.name for column in schema.schema(DIM, lite=lite).columns}
        assert set(validate.to_entity(row("a"))) == columns - {schema.SPARSE}


def test_only_terms_too_long_for_the_tokenizer_are_shortened_and_stay_distinct() -> None:
    long, longer, exact = "x" * 97, "x" * 98, "语" * 32
    short = validate.short_terms(f"a {long} {longer} {exact} b-c").split(" ")
    assert [short[0], short[3], short[4]] == ["a", exact, "b-c"]
    assert len({long, longer, *short}) == 7
    assert validate.query_terms(f" {long}\n") == short[1]
    assert max(len(term.encode()) for term in short) <= validate.TERM_BYTES


def test_half_a_character_in_a_query_is_refused() -> None:
    with pytest.raises(InputError):
        validate.query_terms("\ud800")
