"""The graph: nodes, edges, limits and what happens when a node fails. Nothing is decided here.

begin → plan → retrieve → grade… → judge → refine → generate → check → write_back
                   ▲                 │        │         ▲ │ complaint, once     ▲
                   ├──── rewrite ◀───┤        └─ refuse ┼─┴─────────────────────┤
                   │        ▲        │                  │  no evidence, or unsupported
                   │ timeout│        ▼                  │
                   │       web ◀ approve                │
                   │        └──▶ grade… → judge ────────┤
                   └───── human ◀────┤                  │
                         backup ◀────┘                  │
                            └──▶ grade… → judge ────────┘

Below judge stand the remedies: which are tried, and in what order, is `ask.remedies`; one that cannot help leads on to
the next.
"""

from __future__ import annotations

import time
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from langgraph.errors import NodeError, NodeTimeoutError
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send

from crag_runtime import routes
from crag_runtime.deps import Deps
from crag_runtime.nodes import approve as approving
from crag_runtime.nodes import backup as backing_up
from crag_runtime.nodes import begin as beginning
from crag_runtime.nodes import check as checking
from crag_runtime.nodes import generate as generating
from crag_runtime.nodes import grade as grading
from crag_runtime.nodes import hand_over as handing_over
from crag_runtime.nodes import human as asking
from crag_runtime.nodes import judge as judging
from crag_runtime.nodes import plan as planning
from crag_runtime.nodes import refine as refining
from crag_runtime.nodes import refuse as refusing
from crag_runtime.nodes import retrieve as retrieving
from crag_runtime.nodes import rewrite as rewriting
from crag_runtime.nodes import web as searching
from crag_runtime.nodes import write_back as writing_back
from crag_runtime.state import Given, GradeInput, NodeName, RunState
from kb.errors import DependencyError, IndexUnavailable, LedgerUnavailable
from kb.telemetry import Attr, Metric, Span, observe, span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.runtime import Runtime

    from crag_runtime.routes import Limits
    from crag_runtime.state import Update

    Node = Callable[[Any, Runtime[Deps]], Awaitable[Update]]
    Fallback = Callable[[Any, str], Update]
    Compiled = CompiledStateGraph[RunState, Deps, RunState, RunState]

Destination = list[Send] | NodeName
GIVEN = frozenset(Given.__annotations__)
_HANDLER = (
    "__error_handler__{}"  # what the library calls the node that stands in for a failed one; it has no edges of its own
)


def build_graph(
    limits: Limits, *, node_seconds: float = 60.0, checkpointer: BaseCheckpointSaver[str] | None = None
) -> Compiled:
    """Return the compiled graph.

    Args:
        limits: what correction may do.
        node_seconds: wall-clock limit of one node.
        checkpointer: where runs are kept so that they can be resumed; None: nowhere.
    """
    graph: StateGraph[RunState, Deps, RunState, RunState] = StateGraph(RunState, context_schema=Deps)
    for name, node, fallback in _nodes(limits):
        settings: dict[str, Any] = {
            "input_schema": GradeInput if name is NodeName.GRADE else RunState,
            "timeout": node_seconds,
            "retry_policy": RetryPolicy(initial_interval=0.1, max_attempts=2, retry_on=is_passing),
        }
        if fallback is not None:
            settings["error_handler"] = _degraded(fallback)
        observed: Any = _observed(name, node)
        graph.add_node(name.value, observed, **settings)
    _connect(graph, limits)
    return graph.compile(checkpointer=checkpointer, name="crag")


def _nodes(limits: Limits) -> list[tuple[NodeName, Node, Fallback | None]]:
    async def refuse(state: RunState, runtime: Runtime[Deps]) -> Update:
        if state["attempts"]:
            runtime.stream_writer({"void": True})  # a draft that was streamed is not the answer
        return await refusing.refuse(state, limits)

    async def judge(state: RunState, runtime: Runtime[Deps]) -> Update:
        return await judging.judge(state, runtime, limits)

    async def human(state: RunState, runtime: Runtime[Deps]) -> Update:
        return await asking.human(state, runtime, limits)

    return [
        (NodeName.BEGIN, beginning.begin, None),
        (NodeName.PLAN, planning.plan, planning.unplanned),
        (NodeName.RETRIEVE, retrieving.retrieve, retrieving.unretrieved),
        (NodeName.GRADE, grading.grade, grading.ungradable),
        (NodeName.JUDGE, judge, judging.unjudged),
        (NodeName.REWRITE, rewriting.rewrite, rewriting.unrewritten),
        (NodeName.BACKUP, backing_up.backup, backing_up.unbacked),
        (NodeName.HUMAN, human, asking.undecided),
        (NodeName.APPROVE, approving.approve, None),
        (NodeName.WEB, searching.web, searching.unsearched),
        (NodeName.REFINE, refining.refine, refining.unrefined),
        (NodeName.HAND_OVER, handing_over.hand_over, None),
        (NodeName.GENERATE, generating.generate, generating.ungenerated),
        (NodeName.CHECK, checking.check, checking.unchecked),
        (NodeName.REFUSE, refuse, None),
        (NodeName.WRITE_BACK, writing_back.write_back, writing_back.unwritten),
    ]


def _connect(graph: StateGraph[RunState, Deps, RunState, RunState], limits: Limits) -> None:
    n = NodeName
    graph.add_edge(START, n.BEGIN)
    for source, target in (
        (n.BEGIN, n.PLAN),
        (n.PLAN, n.RETRIEVE),
        (n.GRADE, n.JUDGE),
        (n.REFUSE, n.WRITE_BACK),
        (n.HAND_OVER, n.WRITE_BACK),
        (n.WRITE_BACK, END),
    ):
        for start in _starts(graph, source):
            graph.add_edge(start, target)
    for source, route, targets in (
        (n.RETRIEVE, fanned_out, (n.GRADE, n.JUDGE)),
        (n.JUDGE, partial(routes.after_judge, limits=limits), (n.REWRITE, n.BACKUP, n.APPROVE, n.HUMAN, n.REFINE)),
        (
            n.REWRITE,
            partial(after_rewrite, limits=limits),
            (n.RETRIEVE, n.WEB, n.BACKUP, n.APPROVE, n.HUMAN, n.REFINE, n.GRADE, n.JUDGE),
        ),
        (n.BACKUP, fanned_out, (n.GRADE, n.JUDGE)),
        (
            n.APPROVE,
            partial(routes.after_approve, limits=limits),
            (n.WEB, n.REWRITE, n.BACKUP, n.HUMAN, n.REFINE),
        ),
        (
            n.HUMAN,
            partial(routes.after_human, limits=limits),
            (n.RETRIEVE, n.REWRITE, n.BACKUP, n.APPROVE, n.REFINE),
        ),
        (n.WEB, after_web, (n.GRADE, n.JUDGE, n.REWRITE)),
        (n.REFINE, partial(routes.after_refine, limits=limits), (n.GENERATE, n.HAND_OVER, n.REFUSE)),
        (n.GENERATE, routes.after_generate, (n.CHECK, n.REFUSE)),
        (n.CHECK, routes.after_check, (n.WRITE_BACK, n.GENERATE, n.REFUSE)),
    ):
        for start in _starts(graph, source):
            graph.add_conditional_edges(start, _awaited(route), [target.value for target in targets])


def _awaited(route: Callable[[RunState], Destination]) -> Callable[[RunState], Awaitable[Destination]]:
    """Return the route as the graph can take it on its own loop: a synchronous one costs it a thread each time."""

    async def routed(state: RunState) -> Destination:
        return route(state)

    return routed


def _starts(graph: StateGraph[RunState, Deps, RunState, RunState], name: NodeName) -> list[str]:
    """Return the nodes that a node's edges start from: itself, and what stands in for it after it failed."""
    return [start for start in (name.value, _HANDLER.format(name.value)) if start in graph.nodes]


def fanned_out(state: RunState) -> list[Send] | NodeName:
    """Return one grading branch per ungraded passage; the verdict itself when there is nothing to grade."""
    scores = {(c["sub"], c["id"]): c["score"] for c in state["candidates"]}
    found = {(f["sub"], f["id"]): f["finding"] for f in state["found"]}
    waiting = routes.ungraded(state)
    if not waiting:
        return NodeName.JUDGE
    return [
        Send(
            NodeName.GRADE,
            GradeInput(
                sub=sub,
                id=id_,
                score=scores.get((sub, id_), 0.0),
                finding=found.get((sub, id_)),
                plan=state["plan"],
                tenant=state["tenant"],
                scope=state.get("scope", {}),
                at=state.get("at"),
                as_of=state["as_of"],
                sources=state.get("sources", []),
                doc_ids=state.get("doc_ids", []),
                asked_at=state["asked_at"],
                answer_id=state["answer_id"],
                usage=state["usage"],
            ),
        )
        for sub, id_ in waiting
    ]


def after_web(state: RunState) -> list[Send] | NodeName:
    """Return the repeat of a search that timed out, or the grading of what was found."""
    return NodeName.REWRITE if state["is_retry"] else fanned_out(state)


def after_rewrite(state: RunState, limits: Limits) -> list[Send] | NodeName:
    """Return where new words lead; when there are none for a search that timed out, what else was found is graded."""
    if state["is_retry"] and not state["web_queries"]:
        return fanned_out(state)
    return routes.after_rewrite(state, limits)


def is_passing(error: Exception) -> bool:
    """Return whether a node is worth repeating: the chat model and the web search have repeats of their own."""
    return isinstance(error, IndexUnavailable | LedgerUnavailable)


def _degraded(fallback: Fallback) -> Callable[[Any, NodeError], Update]:
    """Return the handler that lets a question go on after a node failed; a defect still ends it."""

    def handler(state: Any, error: NodeError) -> Update:  # noqa: ANN401 - the failed node's own input
        cause = error.error
        if isinstance(cause, NodeTimeoutError):
            return fallback(state, f"{error.node} ran out of time")
        if isinstance(cause, DependencyError):
            return fallback(state, f"{type(cause).__name__}: {cause}")
        raise cause

    return handler


def _observed(name: NodeName, node: Node) -> Node:
    """Return the node with its span and latency, refused when it writes what the caller gave."""

    @wraps(node)
    async def observed(state: Any, runtime: Runtime[Deps]) -> Update:  # noqa: ANN401 - a node's own input
        began = time.perf_counter()
        reserve = 0 if name is NodeName.GENERATE else 1
        account = runtime.context.spending.of(state.get("answer_id", ""), state.get("usage", {}), reserve=reserve)
        with span(Span.NODE, {Attr.NODE: name.value}), account:
            update = await node(state, runtime)
        observe(Metric.NODE_SECONDS, time.perf_counter() - began, node=name.value)
        if written := GIVEN & update.keys():
            raise AssertionError(f"node {name.value} writes what the caller gave: {', '.join(sorted(written))}")
        return update

    return observed
