"""What every generator must do, whoever writes: quoting, a chat model, the fake."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from crag_runtime.checking.citing import cited_numbers
from crag_runtime.evidence import (
    Conflict,
    Draft,
    Evidence,
    Excerpt,
    Label,
    Origin,
    Plan,
    Side,
    Task,
)
from crag_runtime.generators.extractive import ExtractiveGenerator
from crag_runtime.generators.llm import LlmGenerator
from crag_runtime.language import Phrase, said
from crag_runtime.threads import Threads
from kb.errors import Fault, ModelUnavailable
from tests.fakes.chat import FakeChat
from tests.fakes.generator import FakeGenerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crag_runtime.ports import Generator

TODAY = 1_790_000_000_000
PRICE = "The Team plan costs 75 euros a month since 1 July 2026."
KEPT = "Unread messages are kept for 30 days on Team."
ZH_PRICE = "自2026年7月1日起，团队版每月75欧元。"
TABLE = "| plan | price |\n| --- | --- |\n| Team | 75 |\n| Business | 450 |"


def excerpt(known: str, text: str, *, sub: int = 0, answer: str = "", root: str = "docs") -> Excerpt:
    evidence = Evidence(
        id=known, origin=Origin.MEMORY, text=text, title="Plans", source=f"file://{root}/p.md", root=root
    )
    return Excerpt(evidence=evidence, sub=sub, strips=(text,), relevance=0.9, label=Label.RELEVANT, answer=answer)


def task(
    *excerpts: Excerpt, parts: tuple[str, ...] = ("How much does the Team plan cost?",), **changes: object
) -> Task:
    given: dict[str, object] = {"missing": (), "conflicts": (), "today": TODAY, **changes}
    question = parts[0] if len(parts) == 1 else " and ".join(parts)
    return Task(plan=Plan(question=question, sub_questions=parts), excerpts=excerpts, **given)  # type: ignore[arg-type]


def echo(asking: object) -> str:
    """Answer from the prompt's first evidence, as an obedient model would."""
    prompt: str = asking.by_role("user")  # type: ignore[attr-defined]
    text = re.search(r'<data kind="evidence" number="1"[^>]*>\n(.*?)\n</data>', prompt, re.DOTALL)
    assert text
    return f"{text.group(1).splitlines()[-1]} 【1】"


@pytest.fixture(params=["extractive", "llm", "fake"])
def generator(request: pytest.FixtureRequest) -> Iterator[Generator]:
    threads = Threads(1)
    makers: dict[str, Callable[[], Generator]] = {
        "extractive": lambda: ExtractiveGenerator(threads),
        "llm": lambda: LlmGenerator(FakeChat(respond=echo), threads),
        "fake": FakeGenerator,
    }
    yield makers[request.param]()
    threads.close()


def run(generator: Generator, given: Task) -> tuple[Draft, str]:
    pieces: list[str] = []
    draft = asyncio.run(generator.generate(given, pieces.append))
    return draft, "".join(pieces)


TASKS = {
    "one sentence": task(excerpt("a", PRICE, answer="75 euros")),
    "two sources": task(excerpt("a", PRICE, answer="75 euros"), excerpt("b", "Team: 75 euros.", root="web")),
    "two parts": task(
        excerpt("a", PRICE),
        excerpt("b", KEPT, sub=1),
        parts=("How much is Team?", "How long are messages kept?"),
    ),
    "table": task(excerpt("a", TABLE, answer="75")),
    "chinese": task(excerpt("a", ZH_PRICE, answer="75欧元"), parts=("团队版多少钱？",)),
    "missing": task(excerpt("a", PRICE), parts=("How much is Team?", "Who sells it?"), missing=("Who sells it?",)),
    "marks in the text": task(excerpt("a", "See [2] and 【7】: the Team plan costs 75 euros.")),
    "uncertain": task(excerpt("a", PRICE), is_uncertain=True),
}


@pytest.mark.parametrize("given", TASKS.values(), ids=TASKS.keys())
def test_a_draft_cites_only_excerpts_and_every_mark_is_a_citation(generator: Generator, given: Task) -> None:
    draft, _ = run(generator, given)
    known = {e.evidence.id: "\n".join(e.strips) for e in given.excerpts}
    assert draft.text.strip()
    assert draft.citations
    assert {citation.id for citation in draft.citations} <= known.keys()
    assert all(citation.quote in known[citation.id] for citation in draft.citations)
    if not isinstance(generator, FakeGenerator):
        assert set(cited_numbers(draft.text)) == {citation.number for citation in draft.citations}


@pytest.mark.parametrize("given", TASKS.values(), ids=TASKS.keys())
def test_streamed_pieces_join_to_the_text(generator: Generator, given: Task) -> None:
    draft, streamed = run(generator, given)
    assert streamed == draft.text


@pytest.mark.parametrize("given", TASKS.values(), ids=TASKS.keys())
def test_a_draft_names_who_wrote_it_and_what_it_could_not_answer(generator: Generator, given: Task) -> None:
    draft, _ = run(generator, given)
    assert draft.generator == generator.name
    assert set(given.missing) <= set(draft.missing)


def test_a_task_without_excerpts_is_a_programming_error(generator: Generator) -> None:
    with pytest.raises(ValueError, match="excerpts"):
        run(generator, task())


@pytest.mark.parametrize("fault", list(Fault))
def test_a_model_that_fails_is_a_typed_fault(fault: Fault) -> None:
    threads = Threads(1)
    for failing in (LlmGenerator(FakeChat(fault), threads), FakeGenerator(script=[fault])):
        with pytest.raises(ModelUnavailable) as raised:
            run(failing, TASKS["one sentence"])
        assert raised.value.fault is fault
    threads.close()


@pytest.mark.parametrize("name", ["extractive", "llm"])
@pytest.mark.parametrize("in_chinese", [False, True])
def test_missing_parts_and_uncertainty_are_said_in_the_questions_language(name: str, *, in_chinese: bool) -> None:
    parts = ("团队版多少钱？", "谁在销售？") if in_chinese else ("How much is Team?", "Who sells it?")
    given = task(excerpt("a", PRICE), parts=parts, missing=(parts[1],), is_uncertain=True)
    threads = Threads(1)
    generator = ExtractiveGenerator(threads) if name == "extractive" else LlmGenerator(FakeChat(respond=echo), threads)
    draft, _ = run(generator, given)
    threads.close()
    assert said(Phrase.NOT_COVERED, in_chinese=in_chinese) + parts[1] in draft.text
    assert draft.text.startswith(said(Phrase.UNCERTAIN, in_chinese=in_chinese))


@pytest.mark.parametrize("name", ["extractive", "llm"])
def test_both_sides_of_a_conflict_are_shown_with_date_and_source(name: str) -> None:
    sides = (
        Side(value="75 euros", ids=("a",), quote=PRICE, source="file://docs/p.md", dated=1_782_864_000_000),
        Side(value="69 euros", ids=("b",), quote="The Team plan costs 69 euros.", source="file://old/p.md"),
    )
    given = task(
        excerpt("a", PRICE),
        excerpt("b", sides[1].quote, root="old"),
        conflicts=(Conflict(sub=0, kind="number", sides=sides),),
    )
    threads = Threads(1)
    generator = ExtractiveGenerator(threads) if name == "extractive" else LlmGenerator(FakeChat(respond=echo), threads)
    draft, streamed = run(generator, given)
    threads.close()
    assert streamed == draft.text
    for expected in ("75 euros", "69 euros", "2026-07-01", "undated", "file://docs/p.md", "file://old/p.md"):
        assert expected in draft.text
    assert {citation.id: citation.supports for citation in draft.citations} == {"a": True, "b": False}
