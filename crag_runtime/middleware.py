"""Corrective RAG for an existing LangChain agent: `create_agent(model, tools, middleware=[CRAGMiddleware(host)])`.

Evidence is gathered once per human turn and put in front of the human's message for each model call of that turn only,
as quoted data in a user-role block: the agent's stored messages are the same before and after. Tools that fetch foreign
text are put behind the same evaluator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from langchain.agents import AgentState
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import HumanMessage, ToolMessage

from crag_runtime.context_block import UNAVAILABLE_BLOCK, block_of, failed
from crag_runtime.gated import GatedCall, failure_text, gated_text, ungraded
from crag_runtime.result import MAX_QUESTION, AskRequest
from kb.errors import DependencyError
from kb.ids import digest
from kb.model import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain.tools import ToolRuntime
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import AnyMessage
    from langgraph.runtime import Runtime
    from langgraph.types import Command

    from crag_runtime.hosted import HostedRuntime
    from crag_runtime.runtime import CragRuntime

    ToolResult = ToolMessage | Command[Any]
    ScopeOf = Callable[[Runtime[Any] | ToolRuntime[Any, Any]], tuple[str, Scope]]
    Grading = Callable[[CragRuntime], Coroutine[Any, Any, str]]
    Gathering = Callable[[CragRuntime], Coroutine[Any, Any, "Turn"]]


class Turn(TypedDict):
    """What was gathered for one human message.

    `id` names the message, its words, and whose memories were asked; "" when the knowledge base was unavailable, so
    that the next run of the agent tries again.
    """

    id: str
    block: str
    questions: list[str]


class KnowledgeState(AgentState[Any]):
    """The agent's state with what was gathered for this turn; private, in no input and no output."""

    kb_turn: NotRequired[Annotated[Turn, PrivateStateAttr]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    turn: str
    request: AskRequest | None  # None where the message has no words


class CRAGMiddleware(AgentMiddleware[KnowledgeState, Any, Any]):
    """Gives an agent governed evidence for each human turn.

    When an outside service fails, the agent goes on: the block says that the knowledge base is unavailable. A thread of
    the agent is a thread of the runtime, so that a follow-up is understood by the question before it.

    Args:
        host: the runtime.
        tenant: whose memories; "" for the setting.
        scope: whose inside the tenant.
        scope_of: returns (tenant, scope) for a run, from LangGraph's runtime (its `context`); wins over the two before.
        gated_tools: names of tools whose text output is graded before the model sees it.

    Raises:
        InputError: a run has no tenant, or the host is closed.
        ConfigError: a setting is missing for what was chosen.
        Refused: the index was built with another embedder or schema.
    """

    state_schema = KnowledgeState

    def __init__(
        self,
        host: HostedRuntime,
        *,
        tenant: str = "",
        scope: Scope | None = None,
        scope_of: ScopeOf | None = None,
        gated_tools: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._host = host
        self._tenant = tenant or host.tenant
        self._scope = scope or Scope()
        self._scope_of = scope_of
        self._gated = frozenset([gated_tools] if isinstance(gated_tools, str) else gated_tools)

    def before_agent(self, state: KnowledgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Gather evidence for the newest human message, once."""
        asked = self._asked(state, runtime)
        if asked is None:
            return None
        if asked.request is None:
            return _kept(_silent(asked.turn))
        try:
            return _kept(self._host.run(_gathering(asked.turn, asked.request)))
        except DependencyError:
            return _kept(_unavailable(asked.request))

    async def abefore_agent(self, state: KnowledgeState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Gather evidence for the newest human message, once."""
        asked = self._asked(state, runtime)
        if asked is None:
            return None
        if asked.request is None:
            return _kept(_silent(asked.turn))
        try:
            return _kept(await self._host.arun(_gathering(asked.turn, asked.request)))
        except DependencyError:
            return _kept(_unavailable(asked.request))

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        """Let this one call see the evidence."""
        return handler(_with_knowledge(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Let this one call see the evidence."""
        return await handler(_with_knowledge(request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolResult]) -> ToolResult:
        """Grade what a gated tool returns; a `Command` is the agent's own and passes."""
        result = handler(request)
        if not isinstance(result, ToolMessage) or not self._is_gated(request):
            return result
        if result.status == "error":
            return _failed(request, result)
        try:
            return _replaced(result, self._host.run(self._grading(request, result)))
        except DependencyError as error:
            return _replaced(result, ungraded(type(error).__name__))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Grade what a gated tool returns; a `Command` is the agent's own and passes."""
        result = await handler(request)
        if not isinstance(result, ToolMessage) or not self._is_gated(request):
            return result
        if result.status == "error":
            return _failed(request, result)
        try:
            return _replaced(result, await self._host.arun(self._grading(request, result)))
        except DependencyError as error:
            return _replaced(result, ungraded(type(error).__name__))

    def _asked(self, state: KnowledgeState, runtime: Runtime[Any]) -> _Asked | None:
        """Return what the newest human message asks; None when it was gathered for already, or there is none."""
        messages = state["messages"]
        last = _last_human(messages)
        if last is None:
            return None
        tenant, scope = self._whose(runtime)
        question = text_of(last).strip()[:MAX_QUESTION].strip()
        name = last.id or str(len(messages))
        turn = digest("turn", tenant, scope.agent, scope.user, scope.conversation, name, question)
        if state.get("kb_turn", {}).get("id") == turn:
            return None
        if not question:
            return _Asked(turn=turn, request=None)
        thread = _thread_of(runtime)
        return _Asked(turn=turn, request=AskRequest(question=question, tenant=tenant, scope=scope, thread=thread))

    def _whose(self, runtime: Runtime[Any] | ToolRuntime[Any, Any]) -> tuple[str, Scope]:
        return self._scope_of(runtime) if self._scope_of else (self._tenant, self._scope)

    def _is_gated(self, request: ToolCallRequest) -> bool:
        return request.tool_call["name"] in self._gated

    def _grading(self, request: ToolCallRequest, result: ToolMessage) -> Grading:
        call = GatedCall(
            tool=request.tool_call["name"],
            content=result.content,
            questions=_questions(request),
            tenant=self._whose(request.runtime)[0],
        )

        async def grade(own: CragRuntime) -> str:
            return await gated_text(own.deps, call)

        return grade


def text_of(message: AnyMessage | None) -> str:
    """Return a message's text; of a list of blocks, their text parts."""
    if message is None:
        return ""
    content = message.content
    if isinstance(content, str):
        return content
    return "\n".join(text for part in content if (text := _part(part)))


def _part(part: str | dict[Any, Any]) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if part.get("type", "text") in ("text", "input_text") else ""
    return text if isinstance(text, str) else ""


def _last_human(messages: Sequence[AnyMessage]) -> AnyMessage | None:
    return next((m for m in reversed(messages) if m.type == "human"), None)


def _thread_of(runtime: Runtime[Any]) -> str:
    info = runtime.execution_info
    return digest("agent", info.thread_id) if info is not None and info.thread_id else ""


def _gathering(turn: str, request: AskRequest) -> Gathering:
    async def gather(own: CragRuntime) -> Turn:
        context = await own.gather(request)
        if failed(context):
            return _unavailable(request)
        parts = context.answer.plan.get("sub_questions")
        questions = [str(part) for part in parts] if isinstance(parts, list | tuple) else []
        return Turn(id=turn, block=block_of(context), questions=questions)

    return gather


def _silent(turn: str) -> Turn:
    return Turn(id=turn, block="", questions=[])


def _unavailable(request: AskRequest) -> Turn:
    return Turn(id="", block=UNAVAILABLE_BLOCK, questions=[request.question])


def _kept(turn: Turn) -> dict[str, Any]:
    return {"kb_turn": turn}


def _with_knowledge(request: ModelRequest) -> ModelRequest:
    turn: Any = request.state.get("kb_turn") or {}
    block = turn.get("block")
    if not block:
        return request
    messages = list(request.messages)
    at = max((i for i, m in enumerate(messages) if m.type == "human"), default=0)
    return request.override(messages=[*messages[:at], HumanMessage(block), *messages[at:]])


def _questions(request: ToolCallRequest) -> tuple[str, ...]:
    """Return what a tool's output may be relevant to: the human's question and its parts, and what the tool was asked.

    The last is for questions of several steps, where one step's result says nothing about the whole.
    """
    state: Any = request.state if isinstance(request.state, dict) else {}
    human = text_of(_last_human(state.get("messages") or []))
    parts = (state.get("kb_turn") or {}).get("questions") or []
    words = " ".join(value for value in request.tool_call["args"].values() if isinstance(value, str))
    return (*parts, human, words)


def _failed(request: ToolCallRequest, result: ToolMessage) -> ToolMessage:
    return _replaced(result, failure_text(list(request.tool.args) if request.tool else []))


def _replaced(result: ToolMessage, text: str) -> ToolMessage:
    """Return the message with what may be shown; the artifact goes, since nobody graded it."""
    return result.model_copy(update={"content": text, "artifact": None})
