"""How well, and how fast, evaluators grade passages on data that nothing was fitted on.

    python -m bench.evaluator [--pairs 300] [--verdicts 60] [--out .kb/bench/evaluator.json]

Per set: accuracy at a threshold frozen before (beside the majority's), AUC, expected calibration error, milliseconds a
passage; the share of grades a cascade would send on; verdicts on RGB's zh_refine with none, some and all of five
passages relevant. The reader was trained on half of XQuAD's and CMRC2018's articles by a split that is not recorded, so
its figures there are on partly known articles; RGB and TimeQA's test pages are unknown to everybody.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.graded import cases
from bench.pairs import Pair, digest, flat, held_out_sets, rgb
from bench.vectors import Vectors
from crag_runtime.calibrating.calibration import accuracy, auc, ece, majority
from crag_runtime.evaluators.coefficients import DATA, coefficients
from crag_runtime.evaluators.fast import FastEvaluator, own_bands
from crag_runtime.evaluators.features import cosine_of
from crag_runtime.evidence import Grade, Label, QuestionType, Usage, Verdict
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.threads import Threads
from crag_runtime.verdict import label_of, verdict_of
from kb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.graded import Case
    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.ports import Evaluator

STORED = 3  # passages of one timed call
TIMED = 60  # timed calls
K = 5  # passages of a verdict
NOISE = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)  # share of them that is irrelevant
READING = (
    "xquad-en reading",
    "xquad-zh reading",
    "cmrc reading",
    "rgb en_fact",
    "rgb zh_fact",
    "rgb zh_refine",
    "rgb zh_int",
)
UNCLEAR = (Label.AMBIGUOUS, Label.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """An evaluator and the threshold of its relevance that was frozen before."""

    evaluator: Evaluator
    middle: float
    without_vectors: bool = False


class CosineEvaluator:
    """The cosine of the stored vectors and nothing else: a regression on one feature."""

    identity = EvaluatorIdentity(name="cosine", model="regression", version=coefficients().version)

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage."""
        return Grading(grades=tuple(self._grade(asked, e) for e in evidence), usage=Usage())

    def _grade(self, asked: Asked, evidence: Evidence) -> Grade:
        cosine = cosine_of(asked, evidence)
        relevance = None if cosine is None else coefficients().cosine.probability({"cosine": cosine})
        return Grade(id=evidence.id, label=label_of(relevance, own_bands()[asked.type]), relevance=relevance)


def entrants(threads: Threads) -> dict[str, Entrant]:
    """Return everybody who takes part; the reader where it can be opened."""
    middle = json.loads((DATA / "fast.json").read_text(encoding="utf-8"))["fitted"]["middle"]
    fast = FastEvaluator(own_bands())
    found = {
        "fast": Entrant(evaluator=fast, middle=middle["full"]),
        "cosine": Entrant(evaluator=CosineEvaluator(), middle=middle["cosine"]),
        "lexical": Entrant(evaluator=fast, middle=middle["lexical"], without_vectors=True),
    }
    try:
        from crag_runtime.evaluators import reader
    except ImportError as error:
        print(f"without the reader: {error}")
        return found
    found["reader"] = Entrant(evaluator=reader.open_reader(Settings().cache_dir, reader.BANDS, threads), middle=0.5)
    return found


async def graded(entrant: Entrant, own: Sequence[Case]) -> tuple[list[Grade], float]:
    """Return the grade of every case, and milliseconds a passage."""
    began = time.perf_counter()
    grades = []
    for case in own:
        asked, evidence = case.asked, case.evidence
        if entrant.without_vectors:
            asked, evidence = replace(asked, vector=None), replace(evidence, vector=None)
        grades.append((await entrant.evaluator.grade(asked, [evidence])).grades[0])
    return grades, (time.perf_counter() - began) * 1000 / max(1, len(own))


def measures(grades: Sequence[Grade], labels: Sequence[bool], middle: float) -> dict[str, float]:
    """Return one evaluator's figures on one set; a grade that is unknown counts as 0."""
    relevances = [g.relevance or 0.0 for g in grades]
    sent = [g.label in UNCLEAR for g in grades]
    decided = [(g.label is Label.RELEVANT) == label for g, label, s in zip(grades, labels, sent, strict=True) if not s]
    return {
        "accuracy": accuracy(relevances, labels, middle),
        "auc": auc(relevances, labels),
        "ece": ece(relevances, labels),
        "sent": sum(sent) / len(sent),
        "accuracy_of_the_rest": sum(decided) / len(decided) if decided else 0.0,
        "unknown": sum(g.label is Label.UNKNOWN for g in grades) / len(grades),
    }


async def on_sets(everybody: dict[str, Entrant], sets: dict[str, list[Case]]) -> dict[str, Any]:
    """Return every evaluator's figures on every set."""
    result: dict[str, Any] = {}
    for name, own in sets.items():
        labels = [case.relevant for case in own]
        row: dict[str, Any] = {"n": len(own), "majority": majority(labels)}
        for who, entrant in everybody.items():
            grades, ms = await graded(entrant, own)
            row[who] = {**measures(grades, labels, entrant.middle), "ms": ms}
        result[name] = row
        print(
            f"{name:18} n {len(own):4} majority {row['majority']:.3f}  "
            + "  ".join(
                f"{who} {row[who]['accuracy']:.3f}/{row[who]['auc']:.3f}/{row[who]['ece']:.3f}" for who in everybody
            ),
            flush=True,
        )
    return result


async def timed(entrant: Entrant, cases_: Sequence[Case]) -> dict[str, float]:
    """Return milliseconds, and those of CPU, of grading STORED passages for one question."""
    times: list[tuple[float, float]] = []
    for at in range(TIMED + 3):
        some = [cases_[(at * STORED + n) % len(cases_)] for n in range(STORED)]
        asked, evidence = some[0].asked, [case.evidence for case in some]
        if entrant.without_vectors:
            asked, evidence = replace(asked, vector=None), [replace(e, vector=None) for e in evidence]
        began, cpu = time.perf_counter(), time.process_time()
        await entrant.evaluator.grade(asked, evidence)
        times.append(((time.perf_counter() - began) * 1000, (time.process_time() - cpu) * 1000))
    wall, own = (sorted(column) for column in zip(*times[3:], strict=True))
    late = int(0.95 * len(wall))
    return {
        "p50_ms": statistics.median(wall),
        "p95_ms": wall[late],
        "p50_cpu_ms": statistics.median(own),
        "p95_cpu_ms": own[late],
    }


def verdict_sets(count: int) -> dict[float, list[list[Pair]]]:
    """Return, for each share of noise, sets of K passages of one question each."""
    rows = [r for r in rgb("zh_refine") if len(set(flat(r["positive"]))) >= K and len(set(r["negative"])) >= K]
    rows = sorted(rows, key=lambda r: digest(r["query"]))[:count]
    return {noise: [_mixed(row, round(noise * K)) for row in rows] for noise in NOISE}


def _mixed(row: dict[str, Any], irrelevant: int) -> list[Pair]:
    positive, negative = (sorted(set(flat(row[kind])), key=digest) for kind in ("positive", "negative"))
    chosen = [*((p, True) for p in positive[: K - irrelevant]), *((p, False) for p in negative[:irrelevant])]
    return [Pair(question=row["query"], passage=p, relevant=label) for p, label in chosen]


async def verdicts(everybody: dict[str, Entrant], count: int, vectors: Vectors) -> dict[str, Any]:
    """Return how often each verdict was given with none, some and all passages relevant.

    By the paper's rule any relevant passage makes a set correct, so right is `incorrect` for none and `correct` for
    some and all; `ambiguous` is neither right nor wrong.
    """
    result: dict[str, Any] = {}
    sets = verdict_sets(count)
    for who, entrant in everybody.items():
        seen: dict[str, Counter[str]] = {"none": Counter(), "some": Counter(), "all": Counter()}
        known: dict[str, Grade] = {}
        for noise, groups in sets.items():
            kind = "none" if noise == 1.0 else "all" if noise == 0.0 else "some"
            for group in groups:
                own = [c for c, p in zip(cases(group, vectors), group, strict=True) if _key(p) not in known]
                fresh = [p for p in group if _key(p) not in known]
                grades, _ = await graded(entrant, own)
                known |= {_key(p): g for p, g in zip(fresh, grades, strict=True)}
                seen[kind][verdict_of([known[_key(p)].label for p in group])] += 1
        result[who] = {kind: {v.value: c[v] / max(1, c.total()) for v in Verdict} for kind, c in seen.items()}
        right = seen["none"][Verdict.INCORRECT] + seen["some"][Verdict.CORRECT] + seen["all"][Verdict.CORRECT]
        wrong = seen["none"][Verdict.CORRECT] + seen["some"][Verdict.INCORRECT] + seen["all"][Verdict.INCORRECT]
        total = sum(c.total() for c in seen.values())
        result[who] |= {"right": right / total, "wrong": wrong / total, "open": 1 - (right + wrong) / total}
    return result


def _key(pair: Pair) -> str:
    return f"{pair.question}\n{pair.passage}"


def table(result: dict[str, Any], names: Sequence[str]) -> str:
    """Return the figures as a table for people."""
    lines = ["set (n, majority)      " + "".join(f"{who + ' acc/AUC/ECE':>26}{'sent':>6}" for who in names)]
    for name, row in result["sets"].items():
        cells = "".join(
            f"{row[w]['accuracy']:>14.3f}/{row[w]['auc']:.3f}/{row[w]['ece']:.3f}{row[w]['sent']:>6.2f}" for w in names
        )
        lines.append(f"{name:17} ({row['n']}, {row['majority']:.2f}) {cells}")
    for who in names:
        times = "  ".join(
            f"{kind} {t['p50_ms']:.1f}/{t['p95_ms']:.1f} (CPU {t['p95_cpu_ms']:.1f})"
            for kind, t in result["times"][who].items()
        )
        lines.append(f"{who}: ms for {STORED} stored passages p50/p95: {times}")
    for who in names:
        v = result["verdicts"][who]
        shares = "  ".join(
            f"{kind}: " + " ".join(f"{word} {share:.2f}" for word, share in v[kind].items() if share)
            for kind in ("none", "some", "all")
        )
        lines.append(f"{who}: right {v['right']:.2f} wrong {v['wrong']:.2f} open {v['open']:.2f} | {shares}")
    return "\n".join(lines)


async def measure(pairs: int, count: int) -> dict[str, Any]:
    """Return everything measured."""
    threads, vectors = Threads(1), Vectors()
    try:
        everybody = entrants(threads)
        sets = {name: cases(own, vectors) for name, own in held_out_sets(pairs).items()}
        result: dict[str, Any] = {"sets": await on_sets(everybody, sets)}
        result["times"] = {
            who: {
                kind: await timed(entrant, sets[kind])
                for kind in ("xquad-en reading", "cmrc reading", "timeqa periods")
            }
            for who, entrant in everybody.items()
        }
        result["verdicts"] = await verdicts(everybody, count, vectors)
        result["bands"] = {k.value: [v.lower, v.upper] for k, v in own_bands().items() if k is QuestionType.FACTUAL}
        result["identities"] = {w: str(e.evaluator.identity) for w, e in everybody.items()}
    finally:
        threads.close()
    if "reader" in everybody:
        ahead = {n: result["sets"][n]["reader"]["auc"] - result["sets"][n]["cosine"]["auc"] for n in READING}
        result["reader_ahead_of_cosine"] = ahead
    return result


def main() -> None:
    """Measure, print the table and write the JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=300, help="of each set")
    arguments.add_argument("--verdicts", type=int, default=60, help="questions whose verdicts are counted")
    arguments.add_argument("--out", type=Path, default=Path(".kb/bench/evaluator.json"))
    options = arguments.parse_args()
    result = asyncio.run(measure(options.pairs, options.verdicts))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result, list(result["verdicts"])))
    if "reader_ahead_of_cosine" in result:
        print("reader's AUC less cosine's:", {k: round(v, 3) for k, v in result["reader_ahead_of_cosine"].items()})


if __name__ == "__main__":
    main()
