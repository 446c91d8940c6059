"""Which strip of a passage is likely to hold the answer, by shared words, neighbours and a reading. Pure.

A conditional logit over the strips of one passage: share_i = exp(w·f_i) / sum_j exp(w·f_j). The weights were fitted on
one half of the articles of public reading sets, English and Chinese; `bench/refine.py` measures the other half.
"""

from __future__ import annotations

import math
import re
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from crag_runtime.checking.answering import Wanted, wanted_by
from kb.terms import terms
from kb.words.strips import coverage, question_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

STEM = 5  # letters by which two words of one root are known: "elected", "election"
AROUND = 2  # strips on either side that count as near
_HAN = re.compile(r"[\u3400-\u9fff]")
_DATE = re.compile(
    r"\b[12]\d{3}\b|\d\s*[年月日号]|世纪|年代|\b(?:january|february|march|april|may|june|july|august|september|october|"
    r"november|december)\b|\d(?:th|st|nd|rd) century",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|billion|half|third|"
    r"quarter)\b|[一二三四五六七八九十百千万两]+[个名位座枚人次年家项种分届元岁米公]|百分之",
    re.IGNORECASE,
)
_WHY = re.compile(r"\bwhy\b|\bwhat (?:caused?|reason)|为什么|为何|原因", re.IGNORECASE)
_CAUSE = re.compile(
    r"\bbecause|due to|\bsince\b|result|caus|in order to|因为|由于|因此|原因|为了|导致|所以", re.IGNORECASE
)
_COMMON_LETTERS = frozenset(
    "的了是在和与及或有被把对于为以从到由向给让使也都就还又而但并且着过地得之其这那个些哪里儿位年什么怎样如何时谁多少几吗呢吧"
)


@dataclass(frozen=True, slots=True)
class Features:
    """What speaks for one strip; all in [0, 1]. In the same form: the weights."""

    words: float = 0.0  # share of the question's words
    leads: float = 0.0  # that, against the best strip
    before: float = 0.0  # `leads` of the strip before
    after: float = 0.0  # `leads` of the strip after
    near: float = 0.0  # best `words` nearby
    stems: float = 0.0  # share of the question's long words whose root is there
    letters: float = 0.0  # share of the question's Han letters
    date: float = 0.0  # a date, for "when"
    number: float = 0.0  # a number, for "how many"
    cause: float = 0.0  # a cause, for "why"
    read: float = 0.0  # relevance of the window that it was read in
    span: float = 0.0  # the reader's answer is in it


WEIGHTS = Features(
    words=3.2, leads=1.9, before=0.9, after=0.3, near=3.2, stems=1.6, letters=2.2, date=2.4, number=1.7, cause=2.3,
    read=0.8, span=2.0,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What an evaluator that reads says of the strips: relevance of their window, and where its answer is."""

    windows: tuple[float, ...]
    spans: tuple[bool, ...]


def likelihoods(question: str, strips: Sequence[str], reading: Reading | None = None) -> list[float]:
    """Return for each strip the probability that it holds the answer, if any does: in [0, 1], of sum 1.

    Args:
        question: any language.
        strips: of one passage, in order.
        reading: one entry for each strip; None when nobody read.
    """
    if not strips:
        return []
    odds = [_weighed(features) for features in features_of(question, strips, reading)]
    top = max(odds)
    powers = [math.exp(o - top) for o in odds]
    whole = sum(powers)
    return [power / whole for power in powers]


def features_of(question: str, strips: Sequence[str], reading: Reading | None = None) -> list[Features]:
    """Return what speaks for each strip."""
    found = [frozenset(terms(strip).split()) for strip in strips]
    wanted = question_terms(question)
    words = coverage(wanted, found)
    leads = _scaled(words)
    roots = frozenset(term[:STEM] for term in wanted if len(term) >= STEM and term.isascii())
    letters = frozenset(_HAN.findall(question)) - _COMMON_LETTERS
    kind, is_why = wanted_by(question), _WHY.search(question) is not None
    read = reading.windows if reading else (0.0,) * len(strips)
    return [
        Features(
            words=words[i],
            leads=leads[i],
            before=leads[i - 1] if i else 0.0,
            after=leads[i + 1] if i + 1 < len(strips) else 0.0,
            near=max(words[max(0, i - AROUND) : i + AROUND + 1]),
            stems=_share(roots, {term[:STEM] for term in found[i]}),
            letters=_share(letters, set(strip)),
            date=float(kind is Wanted.WHEN and _DATE.search(strip) is not None),
            number=float(kind is Wanted.COUNT and _NUMBER.search(strip) is not None),
            cause=float(is_why and _CAUSE.search(strip) is not None),
            read=read[i],
            span=float(reading is not None and reading.spans[i]),
        )
        for i, strip in enumerate(strips)
    ]


def _weighed(features: Features) -> float:
    weighed: float = sum(w * f for w, f in zip(astuple(WEIGHTS), astuple(features), strict=True))
    return weighed


def _scaled(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    return [score / top if top else 0.0 for score in scores]


def _share(wanted: frozenset[str], found: set[str]) -> float:
    return len(wanted & found) / len(wanted) if wanted else 0.0
