"""How good answers are without a chat model: rules plan, the reader grades, quotation answers, the check decides.

    python -m bench.ask [--part dev|test|all] [--sets sample xquad-en xquad-zh cmrc] [--each 75] [--show]

The labelled questions over `sample/` are halved by the hash of their words: rules are tuned on `dev`, `test` is looked
at once. Two contradicting offices are added to the sample, which has no contradiction of its own. Held-out sets ingest
the articles of one half and ask as many questions of those as of articles that are not there, which must be refused.

`wrong`, the worst: an answer without reservation that lacks the value or gives another, or one that should not be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import tempfile
import time
import unicodedata
from collections import Counter, defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.graded import TODAY
from bench.pairs import DATASETS, digest
from crag_runtime.result import Answer, AskRequest
from crag_runtime.wiring import build_runtime
from ingest.parse.raw import ParseLimits
from ingest.parse.worker import ParserWorker
from ingest.pipeline import Sync
from ingest.prior import Given
from ingest.survey import SyncOptions
from ingest.target import target_of
from kb.index.lite import lite_server
from kb.memories import open_memories
from kb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from crag_runtime.runtime import CragRuntime

ROOT = Path(__file__).parents[1]
LABELLED = ROOT / "tests/data/questions_sample.jsonl"
SHOWN = 160
OFFICES = {
    "oslo-a.md": """# Oslo office

The front desk of the Oslo office opens at 8:00 on weekdays. The Oslo office has 40 parking spaces.
""",
    "oslo-b.md": """# Visiting Oslo

The front desk of the Oslo office opens at 9:00 on weekdays. The Oslo office has 55 parking spaces.
""",
    "dublin-a.md": "# 都柏林办公室\n\n都柏林办公室有120名员工。都柏林办公室的会议室有6间。\n",
    "dublin-b.md": "# 都柏林简介\n\n都柏林办公室有150名员工。都柏林办公室的会议室有9间。\n",
}
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_QUOTED = re.compile(r"[“「«](.+?)[”」»]|```\n?(.+?)```", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A question and what a good answer to it is.

    Args:
        id: for people.
        language: en or zh.
        kind: of question.
        question: the words.
        outcome: acceptable ones.
        contains: for each value the ways to write it.
        excludes: values of other things.
        cites: endings of sources, one of which is cited.
        says: words that the text has: what is not covered.
        reasons: of a refusal, all among those given.
        path: facts of the path: `sub_questions`.
    """

    id: str
    language: str
    kind: str
    question: str
    outcome: tuple[str, ...]
    contains: tuple[tuple[str, ...], ...] = ()
    excludes: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    path: dict[str, int] = field(default_factory=dict)

    @property
    def is_answerable(self) -> bool:
        """Whether anything but a refusal is right."""
        return "refused" not in self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """One answer, compared with its label; True where it is as it should be."""

    label: Labelled
    outcome: str
    is_outcome: bool
    is_value: bool
    is_cited: bool
    is_path: bool
    is_wrong: bool
    seconds: float
    text: str
    why: str


class Today:
    """A clock that stands still, so that every run is alike."""

    def now(self) -> int:
        """Return the instant that relative periods are resolved against."""
        return TODAY


class Quiet:
    """Progress that nobody watches."""

    def stage(self, name: str, total: int) -> None:
        """Nothing to show."""

    def advance(self, steps: int = 1) -> None:
        """Nothing to show."""


def labelled(part: str = "all") -> list[Labelled]:
    """Return the labelled questions over the sample: dev, test or all. The hash halves each kind by itself."""
    labels = [_label(json.loads(line)) for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    groups: dict[tuple[str, str], list[Labelled]] = defaultdict(list)
    for label in sorted(labels, key=lambda known: digest(f"ask {known.question}")):
        groups[label.kind, label.language].append(label)
    halves = {label.id: ("dev", "test")[n % 2] for own in groups.values() for n, label in enumerate(own)}
    return [label for label in labels if part in ("all", halves[label.id])]


def _label(row: dict[str, Any]) -> Labelled:
    lists = {key: tuple(row.get(key, ())) for key in ("outcome", "excludes", "cites", "says", "reasons")}
    return Labelled(
        id=row["id"],
        language=row["language"],
        kind=row["kind"],
        question=row["question"],
        contains=tuple(tuple(ways) for ways in row.get("contains", ())),
        path=row.get("path", {}),
        **lists,
    )


def marked(label: Labelled, answer: Answer, seconds: float) -> Marked:
    """Compare an answer with its label.

    A value counts when what leads the answer has it: the spans in bold, or else what is quoted.
    """
    outcome, text = answer.outcome.value, answer.text
    lead = lead_of(text)
    is_value = all(any(has(lead, way) for way in ways) for ways in label.contains)
    is_value = is_value and not any(has(lead, other) for other in label.excludes)
    is_value = is_value and (outcome == "refused") != label.is_answerable
    is_outcome = outcome in label.outcome
    plans = [step["why"] for step in answer.path if step["node"] == "plan"]
    parts = label.path.get("sub_questions")
    said = all(word in text for word in label.says) and set(label.reasons) <= {str(r) for r in answer.reasons}
    return Marked(
        label=label,
        outcome=outcome,
        is_outcome=is_outcome,
        is_value=is_value,
        is_cited=not label.cites or any(c.source.endswith(label.cites) for c in answer.citations),
        is_path=said and (parts is None or f" {parts} sub-question" in str(plans[0])),
        is_wrong=outcome in ("answered", "conflict") and not (is_value and is_outcome),
        seconds=seconds,
        text=text,
        why=" | ".join(f"{step['node']}: {step['why']}" for step in answer.path[1:]),
    )


def lead_of(text: str) -> str:
    """Return what leads each line of an answer: its bold spans, or what is quoted where it has none."""
    lines = re.split(r"\n(?=- )", text)
    return "\n".join(
        "\n".join(_BOLD.findall(line)) or "\n".join(a or b for a, b in _QUOTED.findall(line)) for line in lines
    )


def has(text: str, value: str) -> bool:
    """Return whether a text has a value; digits stand alone: 75 is not in 175, nor 0.90 in 0.905."""
    plain, sought = _plain(text), _plain(value)
    before = r"(?<![\d.])" if sought[:1].isdigit() else ""
    after = r"(?!\d|\.\d)" if sought[-1:].isdigit() else ""
    return re.search(before + re.escape(sought) + after, plain) is not None


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", re.sub(r"[\\`]", "", text)).casefold().replace(",", "")
    return re.sub(r"(?<=[\u3400-\u9fff])\s+|\s+(?=[\u3400-\u9fff])", "", " ".join(folded.split()))


@asynccontextmanager
async def open_runtime(documents: Path) -> AsyncIterator[CragRuntime]:
    """Ingest a folder into a store of its own and open the runtime that an installation without keys has."""
    with tempfile.TemporaryDirectory() as data:
        settings = Settings(data_dir=Path(data), index_timeout=60)
        try:
            with open_memories(settings, Today()) as memories:
                target = target_of(documents, "bench", [])
                options = SyncOptions(tenant="default", given=Given())
                limits = ParseLimits()
                Sync(
                    memories, target, options, settings, open_parser=lambda: ParserWorker(limits), progress=Quiet()
                ).run()
                async with build_runtime(settings, memories, clock=Today()) as runtime:
                    yield runtime
        finally:
            lite_server(settings).stop()


async def asked(documents: Path, labels: Sequence[Labelled]) -> list[Marked]:
    """Ask every question of a store of these documents."""
    found = []
    async with open_runtime(documents) as runtime:
        for label in labels:
            began = time.perf_counter()
            answer = await runtime.ask(AskRequest(question=label.question, tenant="default"))
            assert isinstance(answer, Answer)
            found.append(marked(label, answer, time.perf_counter() - began))
    return found


def figures(found: Sequence[Marked]) -> dict[str, Any]:
    """Return the figures of a run; shares of what they are about, 0 where there is none."""
    answerable = [m for m in found if m.label.is_answerable]
    refused = [m for m in found if m.outcome == "refused"]
    unanswerable = [m for m in found if not m.label.is_answerable]
    return {
        "n": len(found),
        "outcome": _share([m.is_outcome for m in found]),
        "value": _share([m.is_value for m in answerable]),
        "wrong": _share([m.is_wrong for m in found]),
        "half_wrong": _share([m.outcome == "partial" and not (m.is_value and m.is_outcome) for m in found]),
        "cited": _share([m.is_cited for m in answerable if m.is_outcome]),
        "path": _share([m.is_path for m in found if m.is_outcome]),
        "refusal_recall": _share([m.outcome == "refused" for m in unanswerable]),
        "refusal_precision": _share([not m.label.is_answerable for m in refused]),
        "outcomes": dict(Counter(m.outcome for m in found)),
        "seconds_p50": sorted(m.seconds for m in found)[len(found) // 2] if found else 0.0,
    }


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0


def held_out(name: str, each: int, into: Path) -> list[Labelled]:
    """Write the articles of one half into a folder; return questions of both halves, as many of each."""
    language = "en" if name.endswith("-en") else "zh"
    articles = dict(_articles(name))
    here = sorted(articles, key=lambda title: digest(f"here {title}"))[: len(articles) // 2]
    for n, title in enumerate(sorted(here)):
        body = "\n\n".join(text for text, _ in articles[title])
        (into / f"{n:03d}.md").write_text(f"# {title}\n\n{body}\n", encoding="utf-8")
    groups: dict[bool, list[Labelled]] = defaultdict(list)
    for title, paragraphs in articles.items():
        for _, questions in paragraphs:
            for question, answers in questions:
                is_here = title in here
                groups[is_here].append(
                    Labelled(
                        id=name,
                        language=language,
                        kind="answerable" if is_here else "unanswerable",
                        question=question,
                        outcome=("answered", "partial") if is_here else ("refused",),
                        contains=(answers,) if is_here else (),
                    )
                )
    return [q for own in groups.values() for q in sorted(own, key=lambda q: digest(q.question))[:each]]


def _articles(name: str) -> Iterator[tuple[str, list[tuple[str, list[tuple[str, tuple[str, ...]]]]]]]:
    """Yield titles, with their paragraphs and each paragraph's questions and answers."""
    if name == "cmrc":
        for article in json.loads((DATASETS / "CMRC2018/cmrc2018_dev.json").read_text(encoding="utf-8"))[::3]:
            questions = [(qa["query_text"], tuple(dict.fromkeys(qa["answers"]))) for qa in article["qas"]]
            yield article["title"], [(article["context_text"], questions)]
        return
    path = DATASETS / "XQuAD" / f"xquad.{name.removeprefix('xquad-')}.json"
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        yield (
            article["title"].replace("_", " "),
            [
                (p["context"], [(qa["question"], tuple(a["text"] for a in qa["answers"])) for qa in p["qas"]])
                for p in article["paragraphs"]
            ],
        )


def contained(found: Sequence[Marked]) -> dict[str, Any]:
    """Return the figures of a held-out set: the gold answer is anywhere in the text, or in what leads it."""
    answerable = [m for m in found if m.label.is_answerable]
    holds = [any(has(m.text, way) for way in m.label.contains[0]) for m in answerable]
    answered = [(m, h) for m, h in zip(answerable, holds, strict=True) if m.outcome in ("answered", "conflict")]
    return {
        **figures(found),
        "contained": _share(holds),
        "contained_when_answered": _share([h for _, h in answered]),
        "wrong": _share(
            [not h for _, h in answered]
            + [m.outcome not in ("refused", "partial") for m in found if not m.label.is_answerable]
            + [False] * (len(answerable) - len(answered))
        ),
    }


def report(name: str, found: Sequence[Marked], *, is_shown: bool) -> dict[str, Any]:
    """Print a set's figures, and its faults when asked; return them."""
    of = figures if name.startswith("sample") else contained
    result = {"all": of(found)} | {
        language: of(own) for language in ("en", "zh") if (own := [m for m in found if m.label.language == language])
    }
    if is_shown:
        for m in found:
            if not (m.is_outcome and m.is_value and m.is_cited and m.is_path) or m.is_wrong:
                faults = dict(zip("ovcp", (m.is_outcome, m.is_value, m.is_cited, m.is_path), strict=True))
                flags = "".join(letter for letter, is_good in faults.items() if not is_good)
                print(f"\n{'WRONG ' if m.is_wrong else ''}{m.label.id} [{flags}] {m.label.question}")
                print(
                    f"  want {m.label.outcome} {m.label.contains}; got {m.outcome}: {m.text[: SHOWN * 3]!r}\n  {m.why}"
                )
    for part, row in result.items():
        print(f"{name:10} {part:3} " + " ".join(f"{k} {v}" for k, v in row.items()), flush=True)
    return result


def main() -> None:
    """Measure, print the tables and write the JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--part", choices=("dev", "test", "all"), default="all")
    arguments.add_argument("--sets", nargs="+", default=["sample", "xquad-en", "xquad-zh", "cmrc"])
    arguments.add_argument("--each", type=int, default=75, help="questions of each half of a held-out set")
    arguments.add_argument("--show", action="store_true", help="print every fault")
    arguments.add_argument("--out", type=Path, default=Path(".kb/bench/ask.json"))
    options = arguments.parse_args()
    result: dict[str, Any] = {}
    for name in options.sets:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch).resolve() / "docs"
            if name == "sample":
                shutil.copytree(
                    ROOT / "sample", folder, ignore=shutil.ignore_patterns("*.sh", "*.py", "sources", "README.md")
                )
                for file, text in OFFICES.items():
                    (folder / file).write_text(text, encoding="utf-8")
                labels = labelled(options.part)
            else:
                folder.mkdir()
                labels = held_out(name, options.each, folder)
            found = asyncio.run(asked(folder, labels))
            result[name] = report(f"sample {options.part}" if name == "sample" else name, found, is_shown=options.show)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
