"""What a model's sentence cites bears it out, unless the sentence only says that nothing is known."""

from __future__ import annotations

import pytest

from crag_runtime.evidence import Evidence, Excerpt, Label, Origin, Plan, Task
from crag_runtime.generators.llm import _citations

LOAD, COLOUR = "The Anping bridge carries 40 tons on a dry day.", "The Anping bridge is painted green every spring."


def supports(text: str, *, colour: str = COLOUR) -> dict[str, bool]:
    excerpts = tuple(
        Excerpt(
            evidence=Evidence(id=id_, origin=Origin.MEMORY, text=own), sub=sub, strips=(own,), relevance=0.9,
            label=Label.RELEVANT,
        )
        for sub, (id_, own) in enumerate((("load", LOAD), ("colour", colour)))
    )  # fmt: skip
    plan = Plan(question="q", sub_questions=("How many tons does it carry?", "What colour is it?"))
    task = Task(plan=plan, excerpts=excerpts, missing=(), conflicts=(), today=0)
    return {c.id: c.supports for c in _citations(text, {1: "load", 2: "colour"}, task)}


@pytest.mark.parametrize(
    "declined",
    ["The evidence does not mention the colour [2].", "The colour is not specified [2].", "资料中没有提到颜色 [2]。"],
)
def test_a_sentence_that_declines_is_supported_by_nothing(declined):
    assert supports(f"{LOAD} [1] {declined}") == {"load": True, "colour": False}


def test_a_source_that_says_itself_that_nothing_is_known_supports_that():
    unknown = "The colour was not specified by the builder."
    assert supports(f"{LOAD} [1] {unknown} [2]", colour=unknown) == {"load": True, "colour": True}


def test_what_also_claims_something_still_supports_it():
    text = f"{LOAD} [1] The evidence does not mention the year [2]. {COLOUR} [2]"
    assert supports(text) == {"load": True, "colour": True}
