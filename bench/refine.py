"""How much text refinement keeps, and how often the answer is still in it.

    python -m bench.refine [--sample 400] [--reader] [--out .kb/bench/refine.json]

Passages that hold an accepted answer, verbatim: XQuAD en and zh, one paragraph each and chunks of two to four
paragraphs; CMRC2018; RGB. Their own strips by shared words alone, and with what the reader read (`--reader`). Weights
were fitted on half of the articles (by hash): `fitted` and `held_out` are told apart; RGB was never fitted on. The
reader has seen half of XQuAD's articles and of CMRC2018 in training, so RGB alone is new to it. `budgeted` gives each
passage 40 % of its tokens and not one more.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_runtime.evidence import Asked, Evidence, Grade, Label, Origin, QuestionType
from crag_runtime.refine import refined
from crag_runtime.threads import Threads
from kb.dates.period import TimeIntent
from kb.tokens import cl100k_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

DATASETS = Path(__file__).parents[1] / "../shared/datasets"
NOW = 1_800_000_000_000
BUDGET = 0.4
PLENTY = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question and a passage that holds an accepted answer."""

    group: str
    question: str
    text: str
    answers: tuple[str, ...]

    @property
    def half(self) -> str:
        """Whether weights were fitted on its article."""
        return "held_out" if hashlib.sha256(self.group.encode()).digest()[0] % 2 else "fitted"


def xquad(language: str, *, joined: bool, seed: int = 0) -> Iterator[Case]:
    """Yield XQuAD's questions with their paragraph, or with a chunk of two to four paragraphs around it."""
    rng = random.Random(seed)
    for article in json.loads((DATASETS / f"XQuAD/xquad.{language}.json").read_text(encoding="utf-8"))["data"]:
        paragraphs = [p["context"] for p in article["paragraphs"]]
        for i, paragraph in enumerate(article["paragraphs"]):
            for qa in paragraph["qas"]:
                size = rng.choice([2, 3, 4]) if joined else 1
                first = max(0, min(i - rng.randrange(size), len(paragraphs) - size))
                text = "\n\n".join(paragraphs[first : first + size])
                answers = tuple(a["text"] for a in qa["answers"])
                yield Case(group=article["title"], question=qa["question"], text=text, answers=answers)


def cmrc() -> Iterator[Case]:
    """Yield CMRC2018's development questions."""
    for entry in json.loads((DATASETS / "CMRC2018/cmrc2018_dev.json").read_text(encoding="utf-8")):
        for qa in entry["qas"]:
            answers = tuple(str(a) for a in qa["answers"])
            yield Case(group=entry["title"], question=qa["query_text"], text=entry["context_text"], answers=answers)


def rgb(name: str) -> Iterator[Case]:
    """Yield RGB's questions with each of their true passages."""
    for line in (DATASETS / f"RGB/{name}.json").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        answers = tuple(flattened(row["answer"]))
        for text in row["positive"]:
            yield Case(group=str(row["id"]), question=row["query"], text=text, answers=answers)


def flattened(answer: Any) -> Iterator[str]:  # noqa: ANN401 - strings, or lists of them, at any depth
    """Yield the strings of nested lists."""
    if isinstance(answer, list):
        for part in answer:
            yield from flattened(part)
    else:
        yield str(answer)


SETS: dict[str, Callable[[], Iterator[Case]]] = {
    "XQuAD en, chunks": lambda: xquad("en", joined=True),
    "XQuAD zh, chunks": lambda: xquad("zh", joined=True),
    "XQuAD en, paragraphs": lambda: xquad("en", joined=False),
    "XQuAD zh, paragraphs": lambda: xquad("zh", joined=False),
    "CMRC2018": cmrc,
    "RGB zh_refine": lambda: rgb("zh_refine"),
    "RGB zh_fact": lambda: rgb("zh_fact"),
}


def sampled(cases: Iterator[Case], size: int) -> list[Case]:
    """Return at most `size` cases that can be answered, the same ones every time."""
    usable = [case for case in cases if any(answer in case.text for answer in case.answers)]
    return usable if len(usable) <= size else random.Random(1).sample(usable, size)


def unread(cases: Sequence[Case]) -> list[Grade]:
    """Return grades that say nothing but that the passages may be used."""
    return [Grade(id=str(i), label=Label.RELEVANT, relevance=1.0) for i in range(len(cases))]


async def read(cases: Sequence[Case], cache_dir: Path) -> list[Grade]:
    """Return the reader's grades; whatever it thinks of a passage, the passage may be used."""
    from crag_runtime.evaluators.reader import BANDS, open_reader

    threads = Threads(1)
    reader = open_reader(cache_dir, BANDS, threads)
    grades = []
    for i, case in enumerate(cases):
        asked = Asked(question=case.question, type=QuestionType.FACTUAL, time=TimeIntent(), today=NOW, tenant="bench")
        (grade,) = (await reader.grade(asked, [_evidence(str(i), case)])).grades
        grades.append(replace(grade, label=Label.RELEVANT))
    threads.close()
    return grades


def _evidence(id_: str, case: Case) -> Evidence:
    return Evidence(id=id_, origin=Origin.MEMORY, text=case.text)


def measured(cases: Sequence[Case], grades: Sequence[Grade], *, budgeted: bool) -> dict[str, dict[str, float]]:
    """Return tokens kept and answers that survive, for each half."""
    result: dict[str, dict[str, float]] = {}
    for half in ("fitted", "held_out"):
        kept = whole = survived = n = 0
        took: list[float] = []
        for case, grade in zip(cases, grades, strict=True):
            if case.half != half:
                continue
            tokens = cl100k_count(case.text)
            began = time.perf_counter()
            strips = refined(
                case.question,
                [_evidence(grade.id, case)],
                {grade.id: grade},
                budget=int(BUDGET * tokens) if budgeted else PLENTY,
                count=cl100k_count,
            )
            took.append((time.perf_counter() - began) * 1000)
            text = "\n".join(case.text[s.start : s.end] for s in strips)
            kept += sum(cl100k_count(case.text[s.start : s.end]) for s in strips)
            whole += tokens
            survived += any(answer in text for answer in case.answers)
            n += 1
        result[half] = {
            "n": n,
            "tokens": round(whole / max(1, n), 1),
            "kept": round(kept / max(1, whole), 4),
            "survival": round(survived / max(1, n), 4),
            "p50_ms": round(sorted(took)[len(took) // 2], 2) if took else 0.0,
        }
    return result


def main() -> None:
    """Measure every set and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sample", type=int, default=PLENTY)
    arguments.add_argument("--reader", action="store_true")
    arguments.add_argument("--cache", type=Path, default=Path(".kb/cache"))
    arguments.add_argument("--out", type=Path, default=Path(".kb/bench/refine.json"))
    options = arguments.parse_args()
    results: dict[str, Any] = {}
    for name, load in SETS.items():
        cases = sampled(load(), options.sample)
        grades = asyncio.run(read(cases, options.cache)) if options.reader else unread(cases)
        results[name] = {way: measured(cases, grades, budgeted=way == "budgeted") for way in ("unbounded", "budgeted")}
        for way, halves in results[name].items():
            for half, row in halves.items():
                print(f"{name:22} {way:10} {half:9} " + "  ".join(f"{k} {v:g}" for k, v in row.items()), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"reader": options.reader, "sets": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
