"""What an author may say about trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.front_matter import Governed, governed
from ingest.sidecar import SidecarRules, read_rules, sidecar_rules
from kb.errors import ConfigError, DocumentError, FailureCode

if TYPE_CHECKING:
    from pathlib import Path

    from kb.model import Json


def test_governed_values_are_taken_and_the_rest_is_metadata() -> None:
    said = governed(
        {"confidence": 1, "verified": False, "title": " A  title ", "tags": ["x", 2, "x"], "owner": "legal", "n": None}
    )
    assert said == Governed(
        confidence=1.0, verified=False, title="A title", tags=("x", "2"), rest={"owner": "legal", "n": None}
    )


def test_nothing_said_is_nothing() -> None:
    assert governed({}) == governed({"confidence": None, "verified": None, "title": "", "tags": None}) == Governed()


def test_tags_may_be_parted_by_commas() -> None:
    assert governed({"tags": "a, b,,a"}).tags == ("a", "b")


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("confidence", 1.5, "a number from 0 to 1"),
        ("confidence", -0.1, "a number from 0 to 1"),
        ("confidence", "high", "a number from 0 to 1"),
        ("confidence", "0.9", "a number from 0 to 1"),
        ("confidence", True, "a number from 0 to 1"),
        ("confidence", float("nan"), "a number from 0 to 1"),
        ("confidence", float("inf"), "a number from 0 to 1"),
        ("confidence", [0.5], "a number from 0 to 1"),
        pytest.param("confidence", 10**400, "a number from 0 to 1", id="huge"),
        ("verified", "maybe", "true or false"),
        ("verified", "true", "true or false"),
        ("verified", 1, "true or false"),
        ("title", ["a"], "a text"),
        ("tags", {"a": 1}, "a list of texts, or texts parted by commas"),
        ("tags", [["a"]], "a list of texts, or texts parted by commas"),
        ("tags", 3, "a list of texts, or texts parted by commas"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(key: str, value: Json, allowed: str) -> None:
    with pytest.raises(DocumentError) as caught:
        governed({key: value})
    assert caught.value.code is FailureCode.FRONT_MATTER
    assert str(caught.value).startswith(f"{key}: {value!r}"[:60])
    assert str(caught.value).endswith(f"it must be {allowed}")


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(("confidence", "verified", "title", "tags", "owner"))


@given(st.dictionaries(keys, json))
def test_any_front_matter_is_governed_or_refused_with_a_code(values: dict[str, Json]) -> None:
    try:
        said = governed(values)
    except DocumentError as error:
        code = error.code
    else:
        code = FailureCode.FRONT_MATTER
        assert said.confidence is None or 0 <= said.confidence <= 1
        assert said.verified in (None, True, False)
    assert code is FailureCode.FRONT_MATTER


SIDECAR = """
rules:
  - match: policies/
    confidence: 0.95
    verified: true
    tags: [policy]
    owner: legal
  - match: ["*.draft.md", "/old/**"]
    verified: false
    tags: [draft]
    since: 2026-01-31
"""


def test_later_rules_win_key_by_key() -> None:
    rules = sidecar_rules(SIDECAR)
    assert rules.of("readme.md") == Governed()
    assert rules.of("policies/leave.md") == Governed(
        confidence=0.95, verified=True, tags=("policy",), rest={"owner": "legal"}
    )
    assert rules.of("policies/leave.draft.md") == Governed(
        confidence=0.95, verified=False, tags=("policy", "draft"), rest={"owner": "legal", "since": "2026-01-31"}
    )
    assert rules.of("old/a/b.md").verified is False
    assert rules.of("new/old/a.md") == Governed()


@pytest.mark.parametrize("text", ["", "# nothing\n", "rules:\n", "rules: []"])
def test_a_sidecar_may_say_nothing(text: str) -> None:
    assert sidecar_rules(text) == SidecarRules()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: {", "does not parse"),
        ("rules: 3", "must be a list"),
        ("rule: []", "nothing beside it"),
        ("[1]", "nothing beside it"),
        ("rules: [3]", "rule 1 must be a mapping"),
        ("rules: [{confidence: 1}]", "rule 1 needs `match`"),
        ("rules: [{match: []}]", "rule 1 needs `match`"),
        ("rules: [{match: [3]}]", "must be a text"),
        ("rules: [{match: '!'}]", "rule 1"),
        ("rules: [{match: a}, {match: b, confidence: 1.5}]", "rule 2: confidence: 1.5 is not allowed"),
        ("rules: [{match: a, verified: maybe}]", "rule 1: verified: 'maybe' is not allowed"),
    ],
)
def test_a_sidecar_that_is_wrong_stops_the_run(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sidecar_rules(text)
    assert said in str(caught.value)


def test_a_number_too_long_to_print_is_refused_like_any_other() -> None:
    with pytest.raises(DocumentError, match="thousands of digits"):
        governed({"confidence": 10**5000})


def test_an_alias_bomb_is_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(ConfigError, match="does not parse"):
        sidecar_rules(bomb)


def test_a_source_without_a_sidecar_has_no_rules(tmp_path: Path) -> None:
    assert read_rules(tmp_path) == SidecarRules()
    (tmp_path / ".kb.yaml").write_text(SIDECAR, encoding="utf-8")
    assert read_rules(tmp_path).of("policies/a.md").verified is True


def test_a_sidecar_that_is_no_text_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / ".kb.yaml").write_bytes(b"\xff\xfe\x00rules")
    with pytest.raises(ConfigError):
        read_rules(tmp_path)
