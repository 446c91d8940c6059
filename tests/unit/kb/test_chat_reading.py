"""Reading structure from a model's text, and the schema that asks for it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from kb.chat.reading import UnreadableError, found, in_words, parsed, strict_schema


class Part(BaseModel):
    """A part."""

    title: str = Field(default="x", max_length=9, description="its name")


class Whole(BaseModel):
    """A whole."""

    label: Literal["yes", "no"]
    score: float = Field(ge=0, le=1)
    parts: list[Part] = Field(default_factory=list, max_length=3)
    other: Part | None = None


GOOD = {"label": "yes", "score": 0.5}


def test_the_strict_schema_requires_all_and_allows_no_more() -> None:
    schema = strict_schema(Whole)
    assert schema["required"] == ["label", "score", "parts", "other"]
    assert schema["additionalProperties"] is False
    part = schema["$defs"]["Part"]
    assert (part["required"], part["additionalProperties"]) == (["title"], False)
    assert part["properties"]["title"] == {"type": "string", "description": "its name"}  # a name, not a schema's word


def test_the_words_carry_the_whole_schema() -> None:
    assert json.dumps(strict_schema(Whole)) in in_words(Whole)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"```json\n{json.dumps(GOOD, indent=1)}\n```",
        f"Here you are: {json.dumps(GOOD)} - anything else?",
        f'<think>maybe {{"label": "no", "score": 0}}?</think>{json.dumps(GOOD)}',
        f"{{not json}} {json.dumps(GOOD)}",
        f'{{"properties": {{}}}} {json.dumps(GOOD)}',
        f'{json.dumps(GOOD)} {{"label": "no", "score": 0}}',
    ],
)
def test_the_first_object_that_fits_is_found(text: str) -> None:
    assert found(Whole, text) == Whole(label="yes", score=0.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "[]",
        "null",
        "{",
        "{}",
        '{"label": "yes"}',
        '{"label": "yes", "score": NaN}',
        '{"label": "yes", "score": Infinity}',
        '{"label": "yes", "score": 2}',
        '<think>{"label": "yes", "score": 1}',
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 50_000,
    ],
    ids=lambda t: t[:20],
)
def test_what_does_not_fit_is_no_value(text: str) -> None:
    for read in (found, parsed):
        with pytest.raises(UnreadableError):
            read(Whole, text)


def test_a_reason_quotes_no_value() -> None:
    with pytest.raises(UnreadableError) as failure:
        parsed(Whole, '{"label": "the passage says so", "score": 1}')
    assert "passage" not in str(failure.value)
    assert "label" in str(failure.value)


def test_a_strict_reply_is_read_whole_or_not_at_all() -> None:
    with pytest.raises(UnreadableError):
        parsed(Whole, f"{json.dumps(GOOD)} and more")


@given(st.text(max_size=200), st.text(alphabet="}])\n .", max_size=50))
def test_prose_around_an_object_hides_it_only_where_it_opens_one(before: str, after: str) -> None:
    text = before.replace("{", "(").replace("<think>", "") + json.dumps(GOOD) + after
    assert found(Whole, text) == Whole(label="yes", score=0.5)


@given(st.text(alphabet='{}[]":,yesno01. \\', max_size=300))
def test_reading_never_fails_otherwise(text: str) -> None:
    for read in (found, parsed):
        with suppress(UnreadableError):
            assert isinstance(read(Whole, text), Whole)
