"""`kb eval`: how good the evaluator is, whether it drifts, and what can be learned for the settings."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.ask import EvaluatorName
from kb_cli.session import AsJson, Tenant, clock, opened, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from crag_runtime.calibrating.calibrate import CalibrationReport
    from crag_runtime.calibrating.drift import Measures
    from crag_runtime.calibrating.drifting import Check, DriftReport
    from crag_runtime.calibrating.grading import Bench
    from crag_runtime.calibrating.judged import JudgedLog
    from crag_runtime.calibrating.labelled import LabelledPair
    from crag_runtime.calibrating.sources import SourcesFit
    from kb.model import Json
    from kb.settings import Settings

app = typer.Typer(help="The evaluator: measure it, calibrate it, watch it.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The evaluator: measure it, calibrate it, watch it."""


@app.command("calibrate")
def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="One {question, passage, relevant} a line.")],
    evaluator: EvaluatorName = None,
    as_json: AsJson = False,
) -> None:
    """Fit thresholds to labelled pairs; report accuracy beside the majority's, AUC and ECE."""
    from crag_runtime.calibrating.labelled import read_pairs

    settings = settings_of(ask=None if evaluator is None else {"evaluator": evaluator.value})
    report = asyncio.run(_calibrated(settings, read_pairs(file)))
    if as_json:
        render.emit_json(report.as_json())
    else:
        render.say(*_lines(report))


@app.command("drift")
def drift(
    golden: Annotated[Path, typer.Argument(metavar="GOLDEN.jsonl", help="One {question, passage, relevant} a line.")],
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="The frozen grades; default: GOLDEN.baseline.json beside it.")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Freeze the grades of now as the new baseline.")] = False,
    max_flipped: Annotated[float, typer.Option("--max-flipped", help="Share of verdicts that may flip.")] = 0.05,
    max_drop: Annotated[float, typer.Option("--max-drop", help="Accuracy that may be lost.")] = 0.03,
    max_moved: Annotated[float, typer.Option("--max-moved", help="Mean change of relevance that may be.")] = 0.05,
    max_unknown: Annotated[float, typer.Option("--max-unknown", help="Share that may lack a grade.")] = 0.1,
    evaluator: EvaluatorName = None,
    as_json: AsJson = False,
) -> None:
    """Grade a golden set anew and compare with its baseline; exit 5 beyond tolerance, 4 with too few grades."""
    from crag_runtime.calibrating.baseline import baseline_path, check_place, read_baseline, write_baseline
    from crag_runtime.calibrating.drift import Tolerance
    from crag_runtime.calibrating.drifting import Check
    from crag_runtime.calibrating.labelled import read_pairs

    tolerance = Tolerance(flipped=max_flipped, drop=max_drop, moved=max_moved, unknown=max_unknown)
    pairs, path = tuple(read_pairs(golden)), baseline or baseline_path(golden)
    before = read_baseline(path)
    if accept or before is None:
        check_place(path, golden)
    chosen = {} if evaluator is None else {"evaluator": evaluator.value}
    settings = settings_of(ask={**chosen, "grade_cache": "none"})  # what is remembered cannot drift
    check = Check(pairs=pairs, baseline=before, tolerance=tolerance, is_accepted=accept)
    report = asyncio.run(_checked(settings, check))
    if report.is_frozen:
        write_baseline(path, report.now)
    if as_json:
        render.emit_json({"path": str(path), **report.as_json()})
    else:
        render.say(*_drift_lines(report, path))
    _leave(report)


@app.command("sources")
def sources(
    log: Annotated[
        Path | None, typer.Argument(metavar="LOG.jsonl", help="One {question or type, sources, right} a line.")
    ] = None,
    from_history: Annotated[
        bool, typer.Option("--from-history", help="Learn from the answers that got feedback.")
    ] = False,
    target: Annotated[float, typer.Option("--target", help="Share of answers that should be right.")] = 0.9,
    need: Annotated[int, typer.Option("--need", help="Answers that must support a number of sources.")] = 20,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Learn per type of question how many independent sources a correct verdict should need; change nothing."""
    from crag_runtime.calibrating.sources import learned_sources, toml_lines
    from kb.errors import InputError

    if (log is None) != from_history:
        raise InputError("name either a log or --from-history")
    judged = _judged(log, tenant)
    fits = learned_sources(judged.answers, target=target, need=need)
    toml = toml_lines(fits, name=judged.name, log=judged.hash, now=clock().now())
    if as_json:
        types: dict[str, Json] = {fit.type.value: fit.as_json() for fit in fits}
        left_out: dict[str, Json] = dict(judged.left_out.items())
        render.emit_json({"log": judged.hash, "types": types, "left_out": left_out, "toml": toml})
    else:
        render.say(*_sources_lines(fits, judged), "", "for kb.toml:", "", toml.rstrip())


def _lines(report: CalibrationReport) -> list[str]:
    from crag_runtime.calibrating.calibrate import toml_lines

    head = ("questions", "n", "majority", "accuracy", "auc", "ece", "lower", "upper")
    rows = [
        (c.type, c.n, *(f"{v:.3f}" for v in (c.majority, c.accuracy, c.auc, c.ece, c.lower, c.upper)))
        for c in (report.overall, *report.types)
    ]
    identity = report.evaluator
    lines = [f"{identity.name} ({identity.model}, {identity.version})", *render.table(head, rows)]
    lines += [f"not graded: {report.unknown}"] if report.unknown else []
    warnings = [*report.warnings, *(w for c in (report.overall, *report.types) for w in c.warnings)]
    lines += [f"warning: {warning}" for warning in dict.fromkeys(warnings)]
    return [*lines, "", "for kb.toml:", "", toml_lines(report).rstrip()]


def _drift_lines(report: DriftReport, path: Path) -> list[str]:
    identity, before, found = report.now.evaluator, report.before, report.drift
    lines = [f"{identity.name} ({identity.model}, {identity.version})"]
    rows = [_measured("now", report.now.measures)]
    if before:
        rows.insert(0, _measured("baseline", before.measures))
    lines += render.table(("grades", "n", "accuracy", "auc", "ece"), rows)
    if found:
        lines += [
            f"compared: {found.compared}; verdicts flipped: {len(found.flips)} ({found.flipped:.3f})",
            f"accuracy: {found.change:+.3f}, 95 % between {found.low:+.3f} and {found.high:+.3f}, p {found.p:.3f}",
            f"mean change of the relevance: {found.moved:.3f}",
        ]
        lines += [
            f"flipped: line {number}: {f.before.verdict} → {f.now.verdict}: {render.excerpt(f.now.question)}"
            for f in found.flips
            for number in [next(g.pair.line for g in report.graded if g.pair.key == f.now.key)]
        ]
    lines += [f"not graded: line {g.pair.line}: {render.excerpt(g.problem)}" for g in report.unknown]
    lines += [f"warning: {warning}" for warning in report.warnings]
    lines += [f"{report.state}: {reason}" for reason in report.reasons]
    return [*lines, _ending(report, path)]


def _measured(name: str, of: Measures) -> tuple[object, ...]:
    return (name, of.n, *("-" if v is None else f"{v:.3f}" for v in (of.accuracy, of.auc, of.ece)))


def _ending(report: DriftReport, path: Path) -> str:
    return {
        "created": f"there was no baseline; these grades are frozen in {path}",
        "accepted": f"these grades are the new baseline, frozen in {path}",
        "within": "no drift",
        "drifted": "drift: find out what changed, or take it as it is with --accept",
        "ungraded": "too few grades to tell; `kb doctor` checks what the evaluator needs",
    }[report.state.value]


def _leave(report: DriftReport) -> None:
    from crag_runtime.calibrating.drifting import DriftState
    from kb.errors import ExitCode
    from kb.telemetry import Metric, count

    count(Metric.DRIFT_CHECKS, evaluator=report.now.evaluator.name, state=report.state.value)
    if report.state is DriftState.DRIFTED:
        raise typer.Exit(ExitCode.REFUSED)
    if report.state is DriftState.UNGRADED:
        raise typer.Exit(ExitCode.DEPENDENCY)


def _judged(log: Path | None, tenant: str | None) -> JudgedLog:
    from crag_runtime.calibrating.judged import read_history, read_log
    from crag_runtime.planning.question_types import question_type

    if log is not None:
        return read_log(log, question_type)
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        return read_history(memories, settings.tenant, question_type)


def _sources_lines(fits: Sequence[SourcesFit], judged: JudgedLog) -> list[str]:
    head = ("questions", "sources", "kept", "right", "surely above", "coverage", "")
    rows = [
        (
            fit.type,
            f"{row.sources}+",
            row.kept,
            row.right,
            f"{row.bound:.3f}",
            f"{row.coverage:.3f}",
            "← learned" if row.sources == fit.min_sources and not fit.why else "",
        )
        for fit in fits
        for row in fit.rows
    ]
    lines = [f"{len(judged.answers)} answers from {judged.name}", *render.table(head, rows)]
    lines += [f"left out: {count}: {why}" for why, count in sorted(judged.left_out.items())]
    return lines + [f"{fit.type}: one source stays enough: {fit.why}" for fit in fits if fit.why]


@asynccontextmanager
async def _bench(settings: Settings) -> AsyncIterator[Bench]:
    from crag_runtime.calibrating.grading import Bench
    from crag_runtime.wiring import build_runtime

    async with build_runtime(settings) as runtime:
        deps = runtime.deps
        yield Bench(evaluator=deps.evaluator, embedder=deps.store.memories.embedder, threads=deps.threads)


def _progress() -> Callable[[int, int], None]:
    """Return what tells of each tenth that is done."""
    told = -1  # tenths

    def progress(done: int, total: int) -> None:
        nonlocal told
        if (tenths := 10 * done // max(total, 1)) > told:
            told = tenths
            render.tell(f"graded {done} of {total}")

    return progress


async def _calibrated(settings: Settings, pairs: Sequence[LabelledPair]) -> CalibrationReport:
    from crag_runtime.calibrating.calibrate import calibrate as fitted

    async with _bench(settings) as bench:
        return await fitted(bench, pairs, clock().now(), _progress())


async def _checked(settings: Settings, check: Check) -> DriftReport:
    from crag_runtime.calibrating.drifting import checked

    async with _bench(settings) as bench:
        return await checked(check, bench, clock().now(), _progress())
