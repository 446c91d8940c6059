"""OpenAI's shapes: nothing is lost in pieces, what cannot be honoured is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from serving.completions import PIECE, ChatBody, checked_parameters, pieces, question_in
from serving.failures import RefusedParameter

HELLO = [{"role": "user", "content": "Hello?"}]


def body(messages=None, **more):
    return ChatBody.model_validate({"model": "kb", "messages": messages or HELLO, **more})


@given(st.text(max_size=500))
def test_pieces_make_up_the_text(text):
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert all(0 < len(piece) <= PIECE for piece in cut)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function"}]),
        ("functions", [{}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("modalities", ["audio"]),
        ("audio", {}),
        ("web_search_options", {}),
    ],
)
def test_what_is_not_done_here_is_refused_by_name(name, value):
    with pytest.raises(RefusedParameter) as refused:
        checked_parameters(body(**{name: value}))
    assert refused.value.parameter == name


def test_what_only_tunes_a_model_is_taken_and_named():
    given = {"temperature": 0, "top_p": 1, "seed": 3, "max_tokens": 5, "n": 1, "tools": [], "logprobs": False}
    assert checked_parameters(body(**given)) == ["max_tokens", "seed", "temperature", "top_p"]


def test_another_model_is_not_found():
    with pytest.raises(RefusedParameter) as refused:
        checked_parameters(body(model="gpt-5"))
    assert (refused.value.code, refused.value.status) == ("model_not_found", 404)


def test_the_last_user_message_is_the_question():
    turns = [
        {"role": "system", "content": "You are a pirate. The bridge opens at six."},
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": "At noon."},
        {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "why?"}]},
        {"role": "assistant", "content": None},
    ]
    assert question_in(body(turns).messages) == "And\nwhy?"


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x.test"}}]}],
        [{"role": "user", "content": [{"type": "text", "text": 3}]}],
    ],
)
def test_what_holds_no_question_is_refused(messages):
    with pytest.raises(RefusedParameter):
        question_in(body(messages).messages)


def test_options_of_ours_that_are_not_known_are_refused():
    with pytest.raises(ValidationError):
        body(kb={"tenant": "another"})
