"""Corrective RAG for an existing LangChain agent: `create_agent(model, tools, middleware=[CRAGMiddleware(host)])`.

Evidence is gathered once per human turn and put in front of the human's message for each model call of that turn only,
as quoted data in a user-role block: the agent's stored messages are the same before and after. Tools that fetch foreign
text are put behind the same evaluator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import HumanMessage, ToolMessage

from crag_runtime.context_block import block_of
from crag_runtime.gated import gated_text
from crag_runtime.result import AskRequest
from kb.model import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import AnyMessage
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from crag_runtime.hosted import HostedRuntime
    from crag_runtime.runtime import CragRuntime

    ToolResult = ToolMessage | Command[Any]


class KnowledgeState(AgentState[Any]):
    """The agent's state with what was gathered for this turn; private, in no input and no output."""

    kb_turn: NotRequired[Annotated[str, PrivateStateAttr]]  # id of the human message it was gathered for
    kb_block: NotRequired[Annotated[str, PrivateStateAttr]]


class CRAGMiddleware(AgentMiddleware[KnowledgeState, Any, Any]):
    """Gives an agent governed evidence for each human turn.

    Args:
        host: the runtime.
        tenant: whose memories; "" for the setting.
        scope: whose inside the tenant.
        scope_of: returns (tenant, scope) for a run, from LangGraph's runtime; wins over the two before.
        gated_tools: names of tools whose text output is graded before the model sees it.
    """

    state_schema = KnowledgeState

    def __init__(
        self,
        host: HostedRuntime,
        *,
        tenant: str = "",
        scope: Scope | None = None,
        scope_of: Callable[[Runtime[Any]], tuple[str, Scope]] | None = None,
        gated_tools: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._host = host
        self._tenant = tenant or host.tenant
        self._scope = scope or Scope()
        self._scope_of = scope_of
        self._gated = frozenset(gated_tools)

    def before_agent(self, state: KnowledgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Gather evidence for the newest human message, once."""
        asked = _asked(state)
        return None if asked is None else self._kept(asked, self._host.run(self._gathering(asked[1], runtime)))

    async def abefore_agent(self, state: KnowledgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Gather evidence for the newest human message, once."""
        asked = _asked(state)
        return None if asked is None else self._kept(asked, await self._host.arun(self._gathering(asked[1], runtime)))

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        """Let this one call see the evidence."""
        return handler(_with_knowledge(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Let this one call see the evidence."""
        return await handler(_with_knowledge(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Grade what a gated tool returns."""
        result = handler(request)
        if not self._is_gated(request, result):
            return result
        assert isinstance(result, ToolMessage)
        return _replaced(result, self._host.run(self._grading(request, result)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Grade what a gated tool returns."""
        result = await handler(request)
        if not self._is_gated(request, result):
            return result
        assert isinstance(result, ToolMessage)
        return _replaced(result, await self._host.arun(self._grading(request, result)))

    def _kept(self, asked: tuple[str, str], block: str) -> dict[str, Any]:
        return {"kb_turn": asked[0], "kb_block": block}

    def _gathering(self, question: str, runtime: Runtime[Any]) -> Any:  # noqa: ANN401 - work for the host
        tenant, scope = self._scope_of(runtime) if self._scope_of else (self._tenant, self._scope)
        request = AskRequest(question=question, tenant=tenant, scope=scope)

        async def gather(own: CragRuntime) -> str:
            return block_of(await own.gather(request))

        return gather

    def _is_gated(self, request: ToolCallRequest, result: ToolResult) -> bool:
        return request.tool_call["name"] in self._gated and isinstance(result, ToolMessage)

    def _grading(self, request: ToolCallRequest, result: ToolMessage) -> Any:  # noqa: ANN401 - work for the host
        state = request.state
        messages = state["messages"] if isinstance(state, dict) else state.messages
        question, output, tenant = text_of(_last_human(messages)), text_of(result), self._tenant
        name = request.tool_call["name"]

        async def grade(own: CragRuntime) -> str:
            return await gated_text(own.deps, question, output, tool=name, tenant=tenant)

        return grade


def text_of(message: AnyMessage | None) -> str:
    """Return a message's text; of a list of blocks, their text parts."""
    if message is None:
        return ""
    content = message.content
    if isinstance(content, str):
        return content
    parts = (p if isinstance(p, str) else str(p.get("text") or "") for p in content)
    return "\n".join(part for part in parts if part)


def _asked(state: KnowledgeState) -> tuple[str, str] | None:
    """Return (turn, question) of the newest human message; None when it was gathered for already, or says nothing."""
    messages = state["messages"]
    last = _last_human(messages)
    question = text_of(last).strip()[:8000]
    if last is None or not question:
        return None
    turn = last.id or f"{len(messages)}:{question}"
    return None if state.get("kb_turn") == turn else (turn, question)


def _last_human(messages: Sequence[AnyMessage]) -> AnyMessage | None:
    return next((m for m in reversed(messages) if m.type == "human"), None)


def _with_knowledge(request: ModelRequest) -> ModelRequest:
    block = request.state.get("kb_block")
    if not isinstance(block, str) or not block:
        return request
    messages = list(request.messages)
    at = max((i for i, m in enumerate(messages) if m.type == "human"), default=len(messages))
    return request.override(messages=[*messages[:at], HumanMessage(block), *messages[at:]])


def _replaced(result: ToolMessage, text: str) -> ToolMessage:
    return result.model_copy(update={"content": text, "artifact": None})
