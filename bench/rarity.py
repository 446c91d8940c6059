"""How rare words are in general text: counted in passages of the fit halves, and for Chinese in jieba's dictionary."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import jieba  # type: ignore[import-untyped] # has no types

from bench.pairs import DATASETS, FIT, cmrc_windows, half, xquad
from crag_runtime.evaluators.features import Rarity
from kb.terms import Script, script_of, terms

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT_FROM = 0.0025  # share of passages; rarer words are all alike
UNKNOWN = 7.0  # of a word in fewer: about 1 of 1,100
WORDS = 100  # of a passage, for turning a word's frequency into a share of passages


@cache
def rarity() -> Rarity:
    """Return the inverse document frequencies, natural logarithm, rounded to one digit."""
    shares: dict[str, float] = {}
    for passages in (_english(), _chinese()):
        counts = Counter(term for passage in passages for term in set(terms(passage).split()))
        for term, count in counts.items():
            shares[term] = max(shares.get(term, 0.0), count / len(passages))
    for term, share in _dictionary():
        shares[term] = max(shares.get(term, 0.0), share)
    table = {term: round(-log(share), 1) for term, share in sorted(shares.items()) if share >= KEPT_FROM}
    return Rarity(table=table, unknown=UNKNOWN)


def _english() -> list[str]:
    pages = json.loads((DATASETS / "TimeQA" / "human_annotated_train.json").read_text(encoding="utf-8"))
    paragraphs = [p for page in pages for p in page["paras"] if len(p.split()) >= WORDS // 2]
    return [*paragraphs, *_own(xquad("en"))]


def _chinese() -> list[str]:
    windows = [w for title, own in cmrc_windows().items() if half(title) == FIT for w in own]
    return [*windows, *_own(xquad("zh"))]


def _own(readings: Iterable[object]) -> list[str]:
    return list({r.passage: None for r in readings if half(r.title) == FIT})  # type: ignore[attr-defined] # readings


def _dictionary() -> Iterable[tuple[str, float]]:
    """Yield jieba's Chinese words and the share of passages of WORDS words that hold one."""
    path = Path(jieba.__file__).parent / jieba.DEFAULT_DICT_NAME
    entries = [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    total = sum(int(entry[1]) for entry in entries)
    for word, count, *_ in entries:
        if script_of(word) is Script.CJK:
            yield word, 1 - (1 - int(count) / total) ** WORDS
