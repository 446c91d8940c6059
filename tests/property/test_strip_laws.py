"""Laws of strips, of refinement and of conflicts, whatever the text."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from crag_runtime.evidence import Evidence, Excerpt, Grade, Label, Origin, ScoredStrip
from crag_runtime.refine import matched, refined
from crag_runtime.refining.conflict import agreements, conflicts
from crag_runtime.refining.likelihood import likelihoods
from kb.dates.period import TimeIntent
from kb.words.quantities import quantities_of
from kb.words.strips import lexical_scores, split

TODAY = 1_790_000_000_000
_PIECES = st.sampled_from(
    [
        "The Team plan costs 19 euros. ", "The Solo plan costs 21 euros per month! ", "团队方案每月19欧元。",
        "价格是3.5元；", "Dr. No said…", "\n", "\n\n", "| Team | 19 |\n", "|---|---|\n", "- Team: 9\n", "```\n",
        "x = 1.5\n", "# Plans\n", "“好！”", "v2.4.1 ", "https://a.example/x?y=1. ", "in 2024 ", "  ", "\u3000", "\x85",
        "\r\n", "e\u0301 ", "not ",
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(_PIECES, max_size=14).map("".join), st.text(max_size=80))
QUESTIONS = st.sampled_from(
    ["How much does the Team plan cost?", "团队方案多少钱？", "When?", "", "Is Team not 19 euros?", "谁"]
)
LABELS = st.sampled_from(list(Label))


@given(TEXTS)
def test_strips_cover_every_visible_character_once_and_in_order(text: str) -> None:
    spans = split(text)
    assert all(0 <= a < b <= len(text) and text[a:b] == text[a:b].strip() for a, b in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    covered = {i for a, b in spans for i in range(a, b)}
    assert all(i in covered or c.isspace() for i, c in enumerate(text))


@given(QUESTIONS, st.lists(TEXTS, max_size=5))
def test_scores_are_shares(question: str, strips: list[str]) -> None:
    scores = lexical_scores(question, strips)
    assert len(scores) == len(strips)
    assert all(0 <= score <= 1 for score in scores)
    shares = likelihoods(question, strips)
    assert not strips or abs(sum(shares) - 1) < 1e-9


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Evidence], dict[str, Grade]]:
    texts = draw(st.lists(TEXTS, min_size=1, max_size=4))
    pieces = [Evidence(id=str(i), origin=Origin.MEMORY, text=t, confidence=i / 9) for i, t in enumerate(texts)]
    grades = {}
    for piece in pieces:
        end = draw(st.integers(0, len(piece.text)))
        start = draw(st.integers(0, end))
        windows = (ScoredStrip(start=start, end=end, score=draw(st.floats(0, 1))),) if draw(st.booleans()) else ()
        answer = piece.text[start:end] if draw(st.booleans()) else ""
        label = draw(LABELS)
        grades[piece.id] = Grade(id=piece.id, label=label, relevance=0.5, answer=answer, strips=windows)
    return pieces, grades


@given(QUESTIONS, cases(), st.integers(0, 60))
def test_what_is_kept_is_within_budget_in_order_and_of_the_text(
    question: str, case: tuple[list[Evidence], dict[str, Grade]], budget: int
) -> None:
    pieces, grades = case
    found = refined(question, pieces, grades, budget=budget, count=len)
    texts = {p.id: p.text for p in pieces}
    assert sum(s.end - s.start for s in found) <= budget
    places = [(int(s.id), s.start, s.end) for s in found]
    assert places == sorted(places)
    for s in found:
        assert (s.start, s.end) in split(texts[s.id])
        assert grades[s.id].label in {Label.RELEVANT, Label.AMBIGUOUS}
        assert 0 <= s.score <= 1
    allowed = {(s.id, s.start) for p in pieces for s in matched(question, p, grades[p.id])}
    assert {(s.id, s.start) for s in found} <= allowed


@given(TEXTS)
def test_quantities_stand_where_they_are_said(text: str) -> None:
    for quantity in quantities_of(text):
        assert 0 <= quantity.start < quantity.end <= len(text)
        assert quantity.agrees(quantity)


@settings(max_examples=60)
@given(QUESTIONS, st.lists(TEXTS, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_conflicts_do_not_depend_on_order_and_exclude_agreement(
    question: str, texts: list[str], random: object
) -> None:
    excerpts = [
        Excerpt(
            evidence=Evidence(id=str(i), origin=Origin.MEMORY, text=text, doc_id=str(i), root=str(i)),
            sub=0,
            strips=(text,),
            relevance=0.9,
            label=Label.RELEVANT,
        )
        for i, text in enumerate(texts)
    ]
    mixed = list(excerpts)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    found = conflicts([question], excerpts, TimeIntent(), TODAY)
    assert found == conflicts([question], mixed, TimeIntent(), TODAY)
    agreed = agreements([question], excerpts, TimeIntent(), TODAY)
    assert agreed == agreements([question], mixed, TimeIntent(), TODAY)
    for conflict in found:
        assert len(conflict.sides) >= 2
    for pair in agreed:
        own = [e for e in excerpts if e.evidence.id in pair.ids]
        assert conflicts([question], own, TimeIntent(), TODAY) == ()
