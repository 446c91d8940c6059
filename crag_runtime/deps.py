"""What the graph's nodes are given: the seams, wired once. Nothing here is ever in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crag_runtime.spending import Spending

if TYPE_CHECKING:
    from collections.abc import Callable

    from crag_runtime.policy import RuntimePolicy
    from crag_runtime.ports import Evaluator, Generator, GradeCache, Planner, Rewriter, WebSearch
    from crag_runtime.recording.recorder import Recorder
    from crag_runtime.store import Store
    from crag_runtime.threads import Threads
    from kb.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """Everything a node may use.

    Args:
        policy: budgets, gates and limits.
        store: reads memories.
        recorder: writes back.
        threads: the bridge to both.
        clock: the time.
        planner: question → plan.
        evaluator: grades.
        rewriter: other queries.
        generator: writes the answer.
        quoting: the generator that needs no model; takes over when the other fails.
        cache: of grades, to be purged of memories that changed; None when there is none.
        search: the web; None when none is configured.
        count_tokens: tokens (cl100k) of a text.
        spending: counts chat calls and tokens by question; in front of the chat model.
        notices: what the user should know of this runtime from the start, e.g. that a fallback is in use.
    """

    policy: RuntimePolicy
    store: Store
    recorder: Recorder
    threads: Threads
    clock: Clock
    planner: Planner
    evaluator: Evaluator
    rewriter: Rewriter
    generator: Generator
    quoting: Generator
    search: WebSearch | None
    cache: GradeCache | None
    count_tokens: Callable[[str], int]
    spending: Spending = field(default_factory=lambda: Spending(24, 60_000))
    notices: tuple[str, ...] = ()
