"""Golden sets for tests, and checks of them by any evaluator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crag_runtime.calibrating.drift import Tolerance
from crag_runtime.calibrating.drifting import Check, checked
from crag_runtime.calibrating.grading import Bench
from crag_runtime.calibrating.labelled import LabelledPair
from crag_runtime.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.calibrating.drift import Baseline
    from crag_runtime.calibrating.drifting import DriftReport
    from crag_runtime.ports import Evaluator
    from kb.ports import Embedder

NOW = 1_796_000_000_000
DAY = 86_400_000
QUESTION = "How deep is harbour {}?"


def golden(count: int = 40) -> list[LabelledPair]:
    """Return pairs, half of them relevant, each relevant one before its irrelevant one."""
    return [
        LabelledPair(
            question=QUESTION.format(n // 2),
            passage="The town keeps cats." if n % 2 else f"Harbour {n // 2} is nine metres deep.",
            relevant=not n % 2,
            line=n + 1,
        )
        for n in range(count)
    ]


def check(
    evaluator: Evaluator, pairs: Sequence[LabelledPair], baseline: Baseline | None = None, **given: Any
) -> DriftReport:
    """Return the report of one run; see `checking`."""
    return asyncio.run(checking(evaluator, pairs, baseline, **given))


async def checking(
    evaluator: Evaluator,
    pairs: Sequence[LabelledPair],
    baseline: Baseline | None = None,
    *,
    tolerance: Tolerance | None = None,
    is_accepted: bool = False,
    embedder: Embedder | None = None,
    now: int = NOW,
) -> DriftReport:
    """Return the report of one run."""
    wanted = Check(pairs=tuple(pairs), baseline=baseline, tolerance=tolerance or Tolerance(), is_accepted=is_accepted)
    threads = Threads(2)
    try:
        bench = Bench(evaluator=evaluator, embedder=embedder, threads=threads)
        return await checked(wanted, bench, now, lambda _done, _total: None)
    finally:
        threads.close()
