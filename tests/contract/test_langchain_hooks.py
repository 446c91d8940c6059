"""The installed LangChain calls the hooks that the middleware overrides, by these names and with these arguments."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain.agents.middleware.types import OmitFromSchema
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever

from crag_runtime.middleware import CRAGMiddleware, KnowledgeState
from crag_runtime.retriever import KbRetriever
from tests.fakes.scripted_model import ScriptedModel

HOOKS = (
    "before_agent",
    "abefore_agent",
    "wrap_model_call",
    "awrap_model_call",
    "wrap_tool_call",
    "awrap_tool_call",
)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_framework_has_the_hook_with_the_same_arguments(hook: str) -> None:
    own, theirs = getattr(CRAGMiddleware, hook), getattr(AgentMiddleware, hook, None)
    assert theirs is not None, f"{hook} is not called by this version of langchain"
    assert own is not theirs
    assert list(inspect.signature(own).parameters) == list(inspect.signature(theirs).parameters)
    assert inspect.iscoroutinefunction(own) == inspect.iscoroutinefunction(theirs) == hook.startswith("a")


def test_no_public_method_is_a_hook_that_nobody_calls() -> None:
    methods = {name for name, value in vars(CRAGMiddleware).items() if inspect.isfunction(value)}
    assert {name for name in methods if not name.startswith("_")} == set(HOOKS)


def test_what_is_gathered_is_declared_private_state() -> None:
    hints = get_type_hints(KnowledgeState, include_extras=True)
    marks = [m for m in hints["kb_turn"].__args__[0].__metadata__ if isinstance(m, OmitFromSchema)]
    assert [(m.input, m.output) for m in marks] == [(True, True)]
    assert CRAGMiddleware.state_schema is KnowledgeState


def test_a_model_request_can_be_overridden_for_one_call() -> None:
    request = ModelRequest(model=ScriptedModel(), messages=[HumanMessage("q")], state={"messages": []})
    other = request.override(messages=[HumanMessage("block"), HumanMessage("q")])
    assert [m.content for m in request.messages] == ["q"]
    assert [m.content for m in other.messages] == ["block", "q"]


def test_a_tool_call_request_has_what_the_gate_reads() -> None:
    assert {"tool_call", "tool", "state", "runtime"} <= set(ToolCallRequest.__dataclass_fields__)
    assert {"status", "artifact", "content"} <= set(ToolMessage.model_fields)


@pytest.mark.parametrize("method", ["_get_relevant_documents", "_aget_relevant_documents"])
def test_the_retriever_overrides_what_the_framework_calls(method: str) -> None:
    own, theirs = getattr(KbRetriever, method), getattr(BaseRetriever, method)
    assert own is not theirs
    assert list(inspect.signature(own).parameters) == list(inspect.signature(theirs).parameters)
