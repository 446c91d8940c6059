"""The compiled graph: its edges, the pictures of it, and what it refuses."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime import graph as graph_module
from crag_runtime.graph import build_graph
from crag_runtime.nodes import judge, plan
from crag_runtime.routes import Limits
from crag_runtime.state import NodeName
from tests.asking import ask, open_runtime

if TYPE_CHECKING:
    from kb.memories import Memories

ROOT = Path(__file__).parents[3]
EDGES = """
__start__: begin
begin: plan
plan: retrieve
retrieve: grade judge
grade: judge
judge: approve backup human refine rewrite
rewrite: approve backup grade human judge refine retrieve web
backup: grade judge
approve: backup human refine rewrite web
human: approve backup refine retrieve rewrite
web: grade judge rewrite
refine: generate hand_over refuse
hand_over: write_back
generate: check refuse
check: generate refuse write_back
refuse: write_back
write_back: __end__
"""
NAME = r"(?<![\w_])([a-z_]+)"
NOT_DRAWN = {NodeName.HAND_OVER}  # where another model writes: everything else is as drawn


@pytest.fixture(scope="module")
def compiled() -> Any:
    """The graph of a runtime with a search."""
    return build_graph(Limits(rewrites=1, searches=2, has_search=True))


def edges_of(compiled: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for edge in compiled.get_graph().edges:
        found.setdefault(edge.source, set()).add(edge.target)
    return found


def test_the_edges_are_these_and_no_others(compiled: Any) -> None:
    written = dict(line.split(": ") for line in EDGES.strip().splitlines())
    assert edges_of(compiled) == {source: set(targets.split()) for source, targets in written.items()}


def test_whatever_was_corrected_is_graded_and_judged_again(compiled: Any) -> None:
    edges = edges_of(compiled)
    assert {NodeName.REFINE, NodeName.GENERATE} & edges[NodeName.WEB] == set()
    assert {NodeName.REFINE, NodeName.GENERATE} & (edges[NodeName.RETRIEVE] | edges[NodeName.GRADE]) == set()


def picture(text: str) -> str:
    drawing = next(part for part in text.split("\n\n") if "▶" in part)
    return drawing.replace("write back", "write_back")


def arrows(drawing: str) -> set[tuple[str, str]]:
    """Return the arrows between two words of one line."""
    right = re.findall(rf"(?={NAME}[…?]?\s*─*[→▶]\s*{NAME})", drawing)
    left = re.findall(rf"(?={NAME} ◀─* {NAME})", drawing)
    return {*right, *((b, a) for a, b in left)}


@pytest.mark.parametrize("where", ["docstring", "page"])
def test_the_pictures_show_every_node_and_no_arrow_that_is_no_edge(where: str, compiled: Any) -> None:
    page = (ROOT / "docs/explanation/runtime.md").read_text(encoding="utf-8")
    drawing = picture(str(graph_module.__doc__) if where == "docstring" else page)
    names = set(NodeName)
    drawn = {(a, b) for a, b in arrows(drawing) if a in names and b in names}
    edges = edges_of(compiled)
    assert len(drawn) >= 8
    assert {(a, b) for a, b in drawn if b not in edges[a]} == set()
    not_drawn = NOT_DRAWN | ({NodeName.BEGIN} if where == "page" else set())
    assert set(re.findall(r"[a-z_]+", drawing)) & names == names - not_drawn


def test_what_stands_in_for_a_failed_node_leads_where_the_node_leads(compiled: Any) -> None:
    builder = compiled.builder
    stand_ins = [name for name in builder.nodes if name.startswith("__error_handler__")]
    assert len(stand_ins) >= 10
    for name in stand_ins:
        node = name.removeprefix("__error_handler__")
        plain = {target for source, target in builder.edges if source == name}
        assert plain == {target for source, target in builder.edges if source == node}
        ends = [set(branch.ends) for branch in builder.branches.get(name, {}).values()]
        assert ends == [set(branch.ends) for branch in builder.branches.get(node, {}).values()]


def test_an_edge_to_a_node_that_is_not_there_is_refused_when_the_graph_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = graph_module._nodes
    monkeypatch.setattr(graph_module, "_nodes", lambda limits: [n for n in every(limits) if n[0] is not NodeName.WEB])
    with pytest.raises(ValueError, match="web"):
        build_graph(Limits(rewrites=1, searches=2, has_search=True))


@pytest.mark.parametrize("written", ["question", "tenant", "answer_id", "thread", "scope"])
def test_a_node_that_writes_what_the_caller_gave_is_a_defect(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    own = plan.plan

    async def drifting(state: Any, runtime: Any) -> Any:
        return {**await own(state, runtime), written: "rewritten"}

    monkeypatch.setattr(plan, "plan", drifting)

    async def story() -> None:
        async with open_runtime(store, tmp_path / "data") as runtime:
            with pytest.raises(AssertionError, match=f"plan writes what the caller gave: {written}"):
                await ask(runtime, "How many?")

    asyncio.run(story())


def test_a_route_to_no_name_of_a_node_is_a_defect_and_not_an_end(
    store: Memories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module.routes, "after_judge", lambda _state, limits: f"web_search {limits.searches}")
    assert judge.judge is not None

    async def story() -> None:
        async with open_runtime(store, tmp_path / "data") as runtime:
            with pytest.raises(KeyError, match="web_search"):
                await ask(runtime, "How many?")

    asyncio.run(story())
