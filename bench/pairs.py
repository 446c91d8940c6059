"""Question and passage pairs with a label, built from the data sets beside the repository.

Reading sets put the passage that answers against passages of the same article; topical sets against the best lexical
match in other articles; RGB against its own negatives, all of them on the question's topic; TimeQA against what
answers the same question of another period. Articles fall into two halves by the hash of their title: coefficients
are fitted on one and measured on the other; RGB and TimeQA's test pages are never fitted on.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.terms import query_terms, terms
from kb.words.strips import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DATASETS = Path(__file__).parents[1] / "../shared/datasets"
FIT, HELD_OUT = 0, 1  # halves of the articles
WINDOW = 220  # characters a CMRC window aims at; its articles are one long paragraph each
LICENCES = {
    "XQuAD": "CC BY-SA 4.0",
    "CMRC2018": "CC BY-SA 4.0",
    "TimeQA": "BSD-3-Clause; text from Wikipedia",
    "RGB": "CC BY-NC-SA 4.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A passage and whether it answers the question."""

    question: str
    passage: str
    relevant: bool
    title: str = ""
    article: str = ""  # what the halves are cut by


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A question, the passage that answers it, and the answers."""

    question: str
    passage: str
    answers: tuple[str, ...]
    title: str


def digest(text: str) -> int:
    """Return a number of 64 bits that only the text decides."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def half(article: str) -> int:
    """Return which half an article falls into."""
    return digest(f"half {article}") % 2


class Bm25:
    """Finds the passages that share most with a question; `k1` 1.2, `b` 0.75."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._counts = [Counter(terms(p).split()) for p in passages]
        self._lengths = [c.total() for c in self._counts]
        self._mean = sum(self._lengths) / max(1, len(passages))
        self._holders: dict[str, list[int]] = defaultdict(list)
        for i, counts in enumerate(self._counts):
            for term in counts:
                self._holders[term].append(i)

    def ranked(self, question: str) -> list[int]:
        """Return the indices of all passages that share a term, best first."""
        scores: dict[int, float] = defaultdict(float)
        n = len(self._counts)
        for term in query_terms(question).split():
            holders = self._holders.get(term, [])
            idf = log(1 + (n - len(holders) + 0.5) / (len(holders) + 0.5))
            for i in holders:
                count = self._counts[i][term]
                scores[i] += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self._lengths[i] / self._mean))
        return sorted(scores, key=lambda i: (-scores[i], i))


def xquad(language: str) -> list[Reading]:
    """Return XQuAD's questions; `language` en or zh."""
    data = json.loads((DATASETS / "XQuAD" / f"xquad.{language}.json").read_text(encoding="utf-8"))["data"]
    return [
        Reading(
            question=qa["question"],
            passage=paragraph["context"],
            answers=tuple(_plain(a["text"]) for a in qa["answers"]),
            title=article["title"].replace("_", " "),
        )
        for article in data
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def cmrc() -> list[Reading]:
    """Return CMRC2018's questions with the window of the article that holds the answer; split answers are left out."""
    found = []
    for article in json.loads((DATASETS / "CMRC2018" / "cmrc2018_dev.json").read_text(encoding="utf-8")):
        windows = windows_of(article["context_text"])
        for qa in article["qas"]:
            answers = tuple(dict.fromkeys(map(_plain, qa["answers"])))
            holding = [w for w in windows if answers[0] in w]
            if len(holding) == 1:
                reading = Reading(
                    question=qa["query_text"], passage=holding[0], answers=answers, title=article["title"]
                )
                found.append(reading)
    return found


def cmrc_windows() -> dict[str, list[str]]:
    """Return all windows of each CMRC2018 article, by title."""
    articles = json.loads((DATASETS / "CMRC2018" / "cmrc2018_dev.json").read_text(encoding="utf-8"))
    return {a["title"]: windows_of(a["context_text"]) for a in articles}


def windows_of(text: str) -> list[str]:
    """Return the text in windows of whole sentences, about WINDOW characters each."""
    windows = [""]
    for start, end in split(text):
        if windows[-1] and len(windows[-1]) + end - start > WINDOW:
            windows.append("")
        windows[-1] += text[start:end]
    return [w for w in windows if w]


def reading_pairs(readings: Sequence[Reading], siblings: dict[str, list[str]]) -> Iterator[Pair]:
    """Yield each positive with up to two passages of its article that do not hold an answer: a hard one and any."""
    finders = {title: Bm25(passages) for title, passages in siblings.items()}
    for r in readings:
        passages = siblings[r.title]
        ranked = [passages[i] for i in finders[r.title].ranked(r.question)]
        others = [p for p in dict.fromkeys([*ranked, *passages]) if p != r.passage and not _holds(p, r.answers)]
        if not others:
            continue
        any_other = others[1 + digest(r.question) % (len(others) - 1)] if len(others) > 1 else None
        yield _pair(r, r.passage, r.title, relevant=True)
        for other in (others[0], any_other):
            if other is not None:
                yield _pair(r, other, r.title, relevant=False)


def topical_pairs(readings: Sequence[Reading]) -> Iterator[Pair]:
    """Yield each positive with the best lexical match in another article."""
    homes = {r.passage: r.title for r in readings}
    passages = list(homes)
    finder = Bm25(passages)
    for r in readings:
        others = (passages[i] for i in finder.ranked(r.question))
        other = next((p for p in others if homes[p] != r.title and not _holds(p, r.answers)), None)
        if other is not None:
            yield _pair(r, r.passage, r.title, relevant=True)
            yield _pair(r, other, homes[other], relevant=False)


def period_pairs(split_name: str) -> Iterator[Pair]:
    """Yield TimeQA's answering paragraphs against those that answer the same question of other periods."""
    for page in json.loads((DATASETS / "TimeQA" / f"human_annotated_{split_name}.json").read_text(encoding="utf-8")):
        paragraphs, title = page["paras"], page["paras"][0]
        answers = [(q, [a for a in given if a["answer"]]) for q, given in page["questions"]]
        named = {a["para"] for _, given in answers for a in given if 0 < a["para"] < len(paragraphs)}
        for question, given in answers:
            own = {a["para"] for a in given} & named
            texts = tuple(a["answer"] for a in given)
            for n in sorted(named):
                is_own = n in own
                if own and (is_own or not _holds(paragraphs[n], texts)):
                    yield Pair(
                        question=question, passage=paragraphs[n], relevant=is_own, title=title, article=page["index"]
                    )


def rgb(name: str) -> list[dict[str, Any]]:
    """Return the rows of one RGB file: en_fact, zh_fact, zh_refine or zh_int."""
    lines = (DATASETS / "RGB" / f"{name}.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def rgb_pairs(name: str) -> Iterator[Pair]:
    """Yield up to three positives and as many negatives of each question."""
    for row in rgb(name):
        positive = flat(row["positive"])
        for kind, passages in ((True, positive), (False, row["negative"])):
            for passage in sorted(dict.fromkeys(passages), key=digest)[: min(3, len(positive))]:
                yield Pair(question=row["query"], passage=passage, relevant=kind, article=row["query"])


def flat(passages: Sequence[Any]) -> list[str]:
    """Return passages that stand in lists of lists as one list."""
    return [p for part in passages for p in (part if isinstance(part, list) else [part])]


def sampled(pairs: Iterable[Pair], limit: int) -> list[Pair]:
    """Return up to `limit` pairs of whole questions, in the order of the questions' hashes."""
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.question].append(pair)
    ordered = sorted(groups.values(), key=lambda g: digest(g[0].question))
    both = (p for g in ordered if len({p.relevant for p in g}) > 1 for p in g)
    return list(islice(both, limit))


def article_sets(which: int, limit: int) -> dict[str, list[Pair]]:
    """Return reading and topical sets of XQuAD and CMRC2018 from one half of their articles."""
    sets = {}
    for name, readings in (("xquad-en", xquad("en")), ("xquad-zh", xquad("zh")), ("cmrc", cmrc())):
        chosen = [r for r in readings if half(r.title) == which]
        if name == "cmrc":
            chosen = sorted(chosen, key=lambda r: digest(r.question))[: 2 * limit]
            windows = cmrc_windows()
            siblings = {r.title: windows[r.title] for r in chosen}
        else:
            siblings = {r.title: [] for r in chosen}
            for passage, title in {r.passage: r.title for r in chosen}.items():
                siblings[title].append(passage)
        sets[f"{name} reading"] = sampled(reading_pairs(chosen, siblings), limit)
        sets[f"{name} topical"] = sampled(topical_pairs(chosen), limit)
    return sets


def held_out_sets(limit: int) -> dict[str, list[Pair]]:
    """Return every set to measure on, none of which coefficients were fitted on."""
    own = {f"rgb {name}": sampled(rgb_pairs(name), limit) for name in ("en_fact", "zh_fact", "zh_refine", "zh_int")}
    return {**article_sets(HELD_OUT, limit), **own, "timeqa periods": sampled(period_pairs("test"), limit)}


def fit_sets(limit: int) -> dict[str, list[Pair]]:
    """Return the sets to fit on."""
    return {**article_sets(FIT, limit), "timeqa periods": sampled(period_pairs("train"), limit)}


def _pair(reading: Reading, passage: str, title: str, *, relevant: bool) -> Pair:
    return Pair(question=reading.question, passage=passage, relevant=relevant, title=title, article=reading.title)


def _plain(answer: str | float) -> str:
    return str(answer).removesuffix(".0")  # answers that look like numbers are stored as floats


def _holds(passage: str, answers: Sequence[str]) -> bool:
    lowered = passage.casefold()
    return any(answer.casefold() in lowered for answer in answers)
