"""`kb eval`: how good the evaluator is on one's own labelled pairs, and thresholds fitted to them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.ask import EvaluatorName
from kb_cli.session import AsJson, settings_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.calibrating.calibrate import CalibrationReport
    from crag_runtime.calibrating.labelled import LabelledPair
    from kb.settings import Settings

app = typer.Typer(help="The evaluator: measure it, calibrate it.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The evaluator: measure it, calibrate it."""


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


async def _calibrated(settings: Settings, pairs: Sequence[LabelledPair]) -> CalibrationReport:
    from crag_runtime.calibrating.calibrate import calibrate as fitted
    from crag_runtime.wiring import build_runtime
    from kb.clock import SystemClock

    async with build_runtime(settings) as runtime:
        deps = runtime.deps
        embedder = deps.store.memories.embedder

        told = -1  # tenths

        def progress(done: int, total: int) -> None:
            nonlocal told
            if (tenths := 10 * done // max(total, 1)) > told:
                told = tenths
                render.tell(f"graded {done} of {total}")

        now = SystemClock().now()
        return await fitted(deps.evaluator, embedder, pairs, threads=deps.threads, now=now, progress=progress)
