from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crag_runtime.checking.check import checked
from crag_runtime.evidence import Checked, Citation, Conflict, Draft, Evidence, Excerpt, Label, Origin, Plan, Side, Task
from crag_runtime.generators.extractive import quoting

ROOT = Path(__file__).parents[3]
RGB = ROOT / "../shared/datasets/RGB"


def task(question: str, texts: list[str], **changes: object) -> Task:
    excerpts = tuple(
        Excerpt(
            evidence=Evidence(id=f"m{n}", origin=Origin.MEMORY, text=text, root=f"r{n}"),
            sub=0,
            strips=(text,),
            relevance=0.9,
            label=Label.RELEVANT,
        )
        for n, text in enumerate(texts)
    )
    given: dict[str, object] = {"missing": (), "conflicts": (), "today": 1_790_000_000_000, **changes}
    return Task(plan=Plan(question=question, sub_questions=(question,)), excerpts=excerpts, **given)  # type: ignore[arg-type]


def draft(text: str, cited: int = 1) -> Draft:
    return Draft(text=text, citations=tuple(Citation(number=n + 1, id=f"m{n}", quote="") for n in range(cited)))


def verdict(question: str, texts: list[str], answer: str) -> Checked:
    return checked(draft(answer, len(texts)), task(question, texts))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_hand_made_drafts_are_told_apart(language: str) -> None:
    wrong = []
    for case in lines(ROOT / f"tests/data/support_{language}.jsonl"):
        found = verdict(case["question"], case["evidence"], case["answer"])  # type: ignore[arg-type]
        if (found.is_supported and found.is_answer) != case["ok"]:
            wrong.append((case["answer"], found.complaint))
    assert wrong == []


def first(answer: object) -> str:
    return first(answer[0]) if isinstance(answer, list) else str(answer)


@pytest.mark.corpus
@pytest.mark.skipif(not RGB.is_dir(), reason="no RGB")
@pytest.mark.parametrize(("name", "form"), [("en_fact", "The answer is {} {}."), ("zh_fact", "答案是{}{}。")])
def test_true_answers_pass_and_counterfactual_ones_do_not(name: str, form: str) -> None:
    rows = lines(RGB / f"{name}.json")
    passed = {"answer": 0, "fakeanswer": 0}
    for row in rows:
        texts: list[str] = row["positive"]  # type: ignore[assignment]
        marks = "".join(f"[{n + 1}]" for n in range(len(texts)))
        for key in passed:
            found = verdict(str(row["query"]), texts, form.format(first(row[key]), marks))
            passed[key] += found.is_supported and found.is_answer
    assert passed["answer"] / len(rows) >= 0.95
    assert passed["fakeanswer"] / len(rows) <= 0.05


PRICE = "The Team plan costs 75 euros a month since 1 July 2026."
ASKED = "How much does the Team plan cost?"


def test_a_complaint_names_the_first_unsupported_sentence_and_what_it_lacks() -> None:
    found = verdict(ASKED, [PRICE], "The Team plan costs 75 euros a month [1]. It was 49 euros in 2025 [1].")
    assert not found.is_supported
    assert "It was 49 euros in 2025." in found.complaint
    assert "2025 is not in it" in found.complaint


@pytest.mark.parametrize("text", ["I don't know.", "无法确定。", "The evidence does not mention it.", "Not mentioned."])
def test_a_reply_that_declines_is_no_answer(text: str) -> None:
    assert verdict(ASKED, [PRICE], text) == Checked(is_supported=True, is_answer=False, complaint="declined")


def test_words_of_not_knowing_that_the_source_has_itself_are_a_claim() -> None:
    text = "Travel costs are not covered by the plan."
    assert verdict("What is not covered by the plan?", [text], "Travel costs are not covered [1].").is_answer
    assert not verdict("What does travel cost?", [PRICE], "Travel costs are not covered [1].").is_answer


XQUAD = ROOT / "../shared/datasets/XQuAD"


@pytest.mark.corpus
@pytest.mark.skipif(not XQUAD.is_dir(), reason="no XQuAD")
@pytest.mark.parametrize(("name", "form"), [("en", "The answer is {} [1]."), ("zh", "答案是{}[1]。")])
def test_answers_of_questions_it_was_not_made_for_pass_and_those_of_others_do_not(name: str, form: str) -> None:
    data = json.loads((XQUAD / f"xquad.{name}.json").read_text(encoding="utf-8"))["data"]
    rows = [
        (paragraph["context"], qa["question"], qa["answers"][0]["text"])
        for article in data
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ][::12]
    passed = other = 0
    for n, (context, question, answer) in enumerate(rows):
        found = verdict(question, [context], form.format(answer))
        passed += found.is_supported and found.is_answer
        foreign = next(a for _, _, a in (*rows[n + 1 :], *rows) if a not in context)
        other += verdict(question, [context], form.format(foreign)).is_supported
    assert passed / len(rows) >= 0.9
    assert other / len(rows) <= 0.05


def test_an_answer_may_say_beside_a_claim_what_the_evidence_lacks() -> None:
    found = verdict(ASKED, [PRICE], "75 euros a month [1]. The evidence does not mention a discount.")
    assert found == Checked(is_supported=True, is_answer=True)


def test_a_title_a_heading_and_a_date_are_grounds_too() -> None:
    evidence = Evidence(
        id="m0", origin=Origin.MEMORY, text="It costs 75 euros.", title="Halden Relay", dated=1_782_864_000_000
    )
    own = Excerpt(evidence=evidence, sub=0, strips=(evidence.text,), relevance=1.0, label=Label.RELEVANT)
    given = Task(plan=Plan(question=ASKED, sub_questions=(ASKED,)), excerpts=(own,), missing=(), conflicts=(), today=0)
    assert checked(draft("As of 1 July 2026 Halden Relay costs 75 euros [1]."), given).is_supported
    assert not checked(draft("As of 2 July 2026 Halden Relay costs 75 euros [1]."), given).is_supported


def test_what_the_quoting_generator_writes_always_passes() -> None:
    texts = [
        PRICE,
        "自2026年7月1日起，团队版每月75欧元。\n入门版每月15欧元。",
        "从七月一日开始使用的团队版\n每月需要75欧元。",
        "| plan | price |\n| --- | --- |\n| Team | 75 |",
        "```python\nitems[0] = 75  # see [2]\n```",
        "See [2], 【3】 and `open. “Nested” costs 75 <b>euros</b> ![x](http://e) a month.",
        "word " * 300 + "costs 75 euros. " + "tail " * 200,
        "* one item of 75\n* two items",
    ]
    for text in texts:
        for answer in ("75", ""):
            given = task(ASKED, [text])
            given = replace(given, excerpts=(replace(given.excerpts[0], answer=answer),))
            found = checked(quoting(given), given)
            assert found.is_supported, (text[:40], quoting(given).text, found.complaint)
            assert found.is_answer or not answer


def test_a_shown_conflict_passes() -> None:
    other = "The Team plan costs 69 euros a month."
    sides = (
        Side(value="75 euros", ids=("m0",), quote=PRICE, source="docs://a", dated=1_782_864_000_000),
        Side(value="69 euros", ids=("m1",), quote=other, source="docs://b", dated=1_700_000_000_000),
    )
    given = task(ASKED, [PRICE, other], conflicts=(Conflict(sub=0, kind="number", sides=sides),))
    assert checked(quoting(given), given) == Checked(is_supported=True, is_answer=True)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (
            "How many tons does the bridge carry?",
            "The bridge carries forty tons on a dry day.",
            "It carries forty tons [1].",
        ),
        (
            "How many tons does the bridge carry?",
            "The bridge carries forty tons on a dry day.",
            "It carries 40 tons [1].",
        ),
        ("这座桥能载多少吨？", "这座桥在晴天能载四十吨。", "这座桥能载四十吨[1]。"),
    ],
)
def test_a_number_in_words_is_a_number(question: str, text: str, answer: str) -> None:
    assert verdict(question, [text], answer) == Checked(is_supported=True, is_answer=True)


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("How many tons?", "The bridge carries forty tons on a dry day.", "The bridge carries fifty tons [1]."),
        ("能载多少吨？", "这座桥在晴天能载四十吨。", "这座桥能载五十吨[1]。"),
    ],
)
def test_another_number_in_words_is_not_supported(question: str, text: str, answer: str) -> None:
    assert not verdict(question, [text], answer).is_supported


@pytest.mark.parametrize("told", ["40 tons [1].", "40 tons [1]. I do not know what colour it is."])
def test_a_part_that_the_draft_says_nothing_about_is_not_answered(told: str) -> None:
    parts = ("How many tons does the bridge carry?", "What colour is the bridge?")
    plan = Plan(question="How many tons does the bridge carry and what colour is it?", sub_questions=parts)
    texts = ("The bridge carries 40 tons.", "The bridge is painted green.")
    excerpts = tuple(
        Excerpt(
            evidence=Evidence(id=f"m{n}", origin=Origin.MEMORY, text=text),
            sub=n,
            strips=(text,),
            relevance=0.9,
            label=Label.RELEVANT,
        )
        for n, text in enumerate(texts)
    )
    task = Task(plan=plan, excerpts=excerpts, missing=(), conflicts=(), today=0)
    citations = tuple(Citation(number=n + 1, id=f"m{n}", quote=text) for n, text in enumerate(texts))
    result = checked(Draft(text=told, citations=citations), task)
    assert result.is_supported
    assert result.is_answer
    assert result.unanswered == (parts[1],)
    whole = checked(Draft(text="It carries 40 tons [1]. The bridge is painted green [2].", citations=citations), task)
    assert whole.unanswered == ()
