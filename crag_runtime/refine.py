"""Refinement: of the passages that may be used, the strips that matter, within a token budget. Pure.

Never a whole text for want of something better: a passage with nothing that matches gives no strips, and its grade is
lowered by the caller.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crag_runtime.evidence import Label, Strip
from crag_runtime.refining.likelihood import Reading, likelihoods
from kb.terms import Script, script_of, terms
from kb.words.strips import lexical_scores, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from crag_runtime.evidence import Evidence, Grade, ScoredStrip

MASS = 0.98  # of the likelihood that a passage's kept strips must have together
READ_MASS = 0.998  # that, where an evaluator has read: its likelihoods are sharper
SHARE = 0.9  # of a passage's characters that is kept at most, its best strip apart
READ_FROM = 0.3  # relevance of a window from which it matches without sharing a word
LOWERED = 0.5  # factor on the relevance of a passage in which nothing matches
_USABLE = (Label.RELEVANT, Label.AMBIGUOUS)
_DOWN = {Label.RELEVANT: Label.AMBIGUOUS, Label.AMBIGUOUS: Label.IRRELEVANT}
_ROW = re.compile(r"\s*\||(?:[^|\n]*(?<!\\)\|){2}|(?:[^\t\n]*\S\t){2}")
_RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
_ITEM = re.compile(
    r"\s*(?:[-*+•·]|\d{1,4}[.)、]|[(（][0-9一二三四五六七八九十]{1,4}[)）]|[一二三四五六七八九十]{1,3}、)\s?\S"
)
_INTRODUCES = re.compile(r"[:：]\s*$")
_WORD = re.compile(r"\w")
_SIGNS = re.compile(r"[€$£¥₹%‰°<>≤≥±]|[-−+](?=\d)")  # marks that change a value and are no terms
_ARTICLES = frozenset({"a", "an", "the", "的", "了"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """A strip that matches, with what must stand with it, and how much it is wanted."""

    strip: Strip
    leads: tuple[Strip, ...]
    is_best: bool
    rank: float


def refined(
    question: str,
    evidence: Sequence[Evidence],
    grades: Mapping[str, Grade],
    *,
    budget: int,
    count: Callable[[str], int],
) -> tuple[Strip, ...]:
    """Return the kept strips, in the order of the evidence and of its texts.

    Every passage's best strip comes before any other's second one. A strip that two passages share is kept once, of
    the more trusted one; strips that differ in any word but an article are not the same.

    Args:
        question: one sub-question.
        evidence: what may be used; what is not graded relevant or ambiguous gives nothing.
        grades: by id of evidence.
        budget: tokens that the kept strips have together at most, each counted by itself.
        count: tokens of a text.
    """
    texts = {e.id: e.text for e in evidence}
    wishes = [w for e in evidence if e.id in grades for w in _wishes(question, e, grades[e.id])]
    wishes = _distinct(wishes, {e.id: e for e in evidence})
    kept: dict[tuple[str, int], Strip] = {}
    for wish in sorted(wishes, key=lambda w: (not w.is_best, -w.rank)):
        added = [s for s in (*wish.leads, wish.strip) if (s.id, s.start) not in kept]
        cost = sum(count(texts[s.id][s.start : s.end]) for s in added)
        if cost <= budget:
            budget -= cost
            kept.update({(s.id, s.start): s for s in added})
    order = {e.id: i for i, e in enumerate(evidence)}
    return tuple(sorted(kept.values(), key=lambda s: (order[s.id], s.start)))


def matched(question: str, evidence: Evidence, grade: Grade) -> tuple[Strip, ...]:
    """Return the strips of one passage that match the question, in order, whatever the budget and the others."""
    strips = {s.start: s for wish in _wishes(question, evidence, grade) for s in (*wish.leads, wish.strip)}
    return tuple(strips[start] for start in sorted(strips))


def lowered(grade: Grade, strips: Sequence[Strip]) -> Grade:
    """Return the grade of a passage whose matching strips are `strips`: one label down when there are none.

    The relevance is halved with it; the evaluator's thresholds are not consulted again.
    """
    if strips or grade.label not in _DOWN:
        return grade
    reason = f"{grade.reason}; no strip matches the question".removeprefix("; ")
    relevance = None if grade.relevance is None else grade.relevance * LOWERED
    return replace(grade, label=_DOWN[grade.label], relevance=relevance, reason=reason)


def _wishes(question: str, evidence: Evidence, grade: Grade) -> list[_Wish]:
    if grade.label not in _USABLE:
        return []
    spans = split(evidence.text)
    texts = [evidence.text[a:b] for a, b in spans]
    reading = _reading(evidence.text, spans, grade)
    if not _matches(question, texts, reading):
        return []
    shares = likelihoods(question, texts, reading)
    strips = [Strip(id=evidence.id, start=a, end=b, score=p) for (a, b), p in zip(spans, shares, strict=True)]
    leads = _leads(texts)
    relevance = grade.relevance or 0.0
    return [
        _Wish(
            strip=strips[i],
            leads=tuple(strips[j] for j in leads.get(i, ())),
            is_best=rank == 0,
            rank=relevance if rank == 0 else relevance * shares[i],
        )
        for rank, i in enumerate(_chosen(texts, shares, READ_MASS if reading else MASS))
    ]


def _matches(question: str, texts: Sequence[str], reading: Reading | None) -> bool:
    if reading and (any(reading.spans) or max(reading.windows, default=0.0) >= READ_FROM):
        return True
    return _is_foreign(question, texts) or any(lexical_scores(question, texts))


def _is_foreign(question: str, texts: Sequence[str]) -> bool:
    """Return whether question and passage are in different scripts, which share no words even when they match."""
    asked, given = script_of(question), script_of("\n".join(texts))
    return Script.NONE not in (asked, given) and asked is not given


def _reading(text: str, spans: Sequence[tuple[int, int]], grade: Grade) -> Reading | None:
    if not grade.strips and not grade.answer:
        return None
    answers = tuple(_places(text, grade.answer))
    return Reading(
        windows=tuple(_window(span, grade.strips) for span in spans),
        spans=tuple(any(a < end and start < b for a, b in answers) for start, end in spans),
    )


def _window(span: tuple[int, int], windows: Sequence[ScoredStrip]) -> float:
    """Return the best score of the windows that have at least half of a strip."""
    start, end = span
    return max((w.score for w in windows if 2 * (min(end, w.end) - max(start, w.start)) >= end - start), default=0.0)


def _places(text: str, answer: str) -> Iterator[tuple[int, int]]:
    at = text.find(answer) if answer else -1
    while at >= 0:
        yield at, at + len(answer)
        at = text.find(answer, at + len(answer))


def _chosen(texts: Sequence[str], shares: Sequence[float], enough: float) -> list[int]:
    """Return the likeliest strips, best first, until they have `enough` together; a long strip must be likelier."""
    order = sorted(range(len(texts)), key=lambda i: (-shares[i] / len(texts[i]) ** 0.5, i))
    limit = SHARE * sum(map(len, texts))
    chosen: list[int] = []
    mass, size = 0.0, 0
    for i in order:
        if mass >= enough:
            break
        if not _WORD.search(texts[i]) or (chosen and size + len(texts[i]) > limit):
            continue
        chosen.append(i)
        mass, size = mass + shares[i], size + len(texts[i])
    return chosen


def _leads(texts: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """Return which strips must stand with one: the header of a table with its rows, the line that opens a list."""
    leads: dict[int, tuple[int, ...]] = {}
    header: tuple[int, ...] = ()
    for i, text in enumerate(texts):
        before = texts[i - 1] if i else ""
        if _ROW.match(text):
            if not _ROW.match(before):
                header = (i,)
            elif _RULE.fullmatch(text):
                header = (i - 1, i)
            if i not in header:
                leads[i] = header
        elif _ITEM.match(text):
            header = ((i - 1,) if _INTRODUCES.search(before) else ()) if not _ITEM.match(before) else header
            if header:
                leads[i] = header
    return leads


def _distinct(wishes: Sequence[_Wish], evidence: Mapping[str, Evidence]) -> list[_Wish]:
    """Leave out strips that another, more trusted passage has word for word."""
    best: dict[str, _Wish] = {}
    for wish in wishes:
        words = _words(evidence[wish.strip.id].text[wish.strip.start : wish.strip.end])
        held = best.get(words)
        if held is None or _trust(evidence[wish.strip.id]) > _trust(evidence[held.strip.id]):
            best[words] = wish
    chosen = {(w.strip.id, w.strip.start) for w in best.values()}
    return [w for w in wishes if (w.strip.id, w.strip.start) in chosen]


def _words(text: str) -> str:
    """Return what two strips that say the same share: no case, width, punctuation, articles or endings."""
    words = [term for term in terms(text).split() if term not in _ARTICLES]
    return " ".join([*words, *_SIGNS.findall(unicodedata.normalize("NFKC", text))]) if words else text


def _trust(evidence: Evidence) -> tuple[bool, float]:
    return evidence.verified, evidence.confidence
