"""Contradictions on real texts: hardly a false alarm among neighbouring passages, and edited facts that are found."""

from __future__ import annotations

import heapq
import json
import math
import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from governance.comparing.sayings import Passed
from governance.contradict import Agree, Contradict, compare
from ingest.chunk import ChunkLimits, Counters, chunk
from ingest.parse.markdown import parse_markdown
from ingest.parse.raw import ParseLimits, RawFile
from kb.terms import query_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED = Path(__file__).parents[2] / ".." / "shared"
CORPORA, RGB = SHARED / "corpora", SHARED / "datasets" / "RGB"
WRITTEN = 1_735_689_600_000
COUNTERS = Counters(embedder=lambda texts: [len(text.encode()) // 4 + 4 for text in texts])
NEAREST = 6


def passages(folder: Path, files: int) -> list[tuple[int, Passed]]:
    """Return the passages of the first documents of a folder, each with its document's number."""
    made = []
    for n, path in enumerate(sorted(folder.rglob("*.md"))[:files]):
        document = parse_markdown(RawFile(name=path.name, data=path.read_bytes(), limits=ParseLimits()))
        title = document.title or ""
        made += [
            (n, Passed(text=c.text, title=title, heading_path=tuple(c.heading_path), valid_from=WRITTEN))
            for c in chunk(document, ChunkLimits(), COUNTERS)
        ]
    return made


def neighbours(made: Sequence[tuple[int, Passed]]) -> set[tuple[int, int]]:
    """Return the pairs of passages of different documents that share the most and rarest words."""
    bags = [frozenset(query_terms(p.text).split()) for _, p in made]
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for i, bag in enumerate(bags):
        for term in bag:
            holders[term].append(i)
    weights = {t: math.log(len(made) / len(h)) ** 2 for t, h in holders.items() if 2 <= len(h) <= 100}
    sizes = [math.sqrt(sum(weights.get(t, 1.0) for t in bag)) + 1 for bag in bags]
    pairs = set()
    for i, bag in enumerate(bags):
        scores: Counter[int] = Counter()
        for term in bag & weights.keys():
            for j in holders[term]:
                if made[j][0] != made[i][0]:
                    scores[j] += weights[term]  # type: ignore[assignment] # a count that is no whole number
        pairs |= {(min(i, j), max(i, j)) for j in heapq.nlargest(NEAREST, scores, key=lambda j: scores[j] / sizes[j])}
    return pairs


@pytest.mark.corpus
@pytest.mark.skipif(not CORPORA.is_dir(), reason="the corpora are not here")
@pytest.mark.parametrize("folder", ["zh/tidb-docs-cn", "handbook/milvus-docs"])
def test_neighbouring_passages_of_real_documents_hardly_raise_an_alarm(folder: str) -> None:
    made = passages(CORPORA / folder, 80)
    pairs = neighbours(made)
    assert len(pairs) > 1_500
    alarms = [p for p in pairs if isinstance(compare(made[p[0]][1], made[p[1]][1]), Contradict)]
    assert len(alarms) <= 1, [(made[i][1].text[:200], made[j][1].text[:200]) for i, j in alarms[:5]]


def facts(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RGB / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.corpus
@pytest.mark.skipif(not RGB.is_dir(), reason="the data set is not here")
@pytest.mark.parametrize(("name", "least"), [("en_fact.json", 0.5), ("zh_fact.json", 0.6)])
def test_edited_values_are_found_and_true_passages_never_contradict_each_other(name: str, least: float) -> None:
    edited, found, agreed, alarms = 0, 0, 0, 0
    for fact in facts(name):
        true, wrong = fact["positive"], fact["positive_wrong"]
        is_value = re.search(r"\d", str(fact["answer"])) is not None
        for one, other in zip(true, wrong, strict=True):
            said = compare(Passed(text=one), Passed(text=other))
            if one != other:
                edited += is_value
                found += is_value and isinstance(said, Contradict)
                agreed += isinstance(said, Agree)
        others = [*combinations(true, 2), *((a, b) for a in true for b in fact.get("negative", []))]
        alarms += sum(isinstance(compare(Passed(text=a), Passed(text=b)), Contradict) for a, b in others)
    assert found >= least * edited > 0
    assert alarms == 0
    assert agreed <= 5  # what was edited is never taken for corroboration, but for slips of the data set
