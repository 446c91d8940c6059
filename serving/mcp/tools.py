"""The tools: ask, search, get, remember, give feedback, trace; what each may do is what its caller's key may do."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from pydantic import Field

from crag_runtime.objects import result_json
from crag_runtime.recording.feedback import give_feedback
from crag_runtime.recording.objects import feedback_object
from crag_runtime.result import Answer, AskRequest
from governance.lineage import traced
from kb.errors import InputError, KbError, UnknownMemory
from kb.history import AnswerId
from kb.keys import Holder, KeyScope
from kb.memories import Note
from kb.model import MemoryId, Scope, SourceClass
from kb.objects import memory_object, search_object
from kb.search import SearchRequest
from kb.statuses import words_of
from serving.advice import hint_over_mcp, over_mcp
from serving.failures import tell_of_what_is_away
from serving.mcp.shapes import Answered, FedBack, Found, Remembered, Traced
from serving.problems import Forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crag_runtime.result import Waiting
    from kb.keys import Principal
    from serving.service import Service

    Steps = Callable[[str], Any]

Question = Annotated[str, Field(min_length=1, max_length=8_000, description="one question, in English or Chinese")]
Id = Annotated[str, Field(min_length=1, max_length=128)]
Whose = Annotated[str, Field(max_length=128, description="also what belongs to this user; empty: what is everybody's")]
Thread = Annotated[str, Field(max_length=128, description="conversation that it belongs to, for follow-ups")]
MAX_HITS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """The tools over one server's parts; each is told who calls.

    Args:
        service: returns the parts.
    """

    service: Callable[[], Service]

    async def query(
        self, caller: Principal, question: str, *, thread: str = "", user: str = "", step: Steps | None = None
    ) -> Answered:
        """Return a governed answer; `step` is awaited with what each step did."""
        service = self._for(caller, KeyScope.QUERY)
        request = AskRequest(question=question, tenant=caller.tenant, thread=thread, scope=_asks_as(caller, user))
        result: Answer | Waiting | None = None
        async for event in service.runtime.stream(request):
            if step is not None and event.step is not None:
                await step(str(event.step["node"]))
            result = event.result or result
        assert result is not None, "a stream ends with its result"
        return _answered(result_json(result, is_kept=service.settings.ask.checkpointer != "none"))

    async def search(self, caller: Principal, question: str, *, k: int = 5, user: str = "") -> Found:
        """Return passages above the gate."""
        service = self._for(caller, KeyScope.QUERY)
        gate = service.memories.gate
        request = SearchRequest(question=question, tenant=caller.tenant, k=k, gate=gate, scope=_asks_as(caller, user))
        found = await service.threads.call(service.memories.search, request)
        return Found.model_validate(search_object(found))

    async def get(self, caller: Principal, id_: str) -> Remembered:
        """Return one memory."""
        service = self._for(caller, KeyScope.QUERY)
        memory = await service.threads.call(service.memories.get, MemoryId(id_), caller.tenant)
        return Remembered.model_validate(memory_object(service.memories, memory))

    async def remember(
        self, caller: Principal, text: str, *, title: str = "", derived_from: list[str], user: str = ""
    ) -> Remembered:
        """Keep a note in quarantine: whoever holds the key, over MCP it is an agent that speaks."""
        service = self._for(caller, KeyScope.WRITE)
        note = Note(
            text=text,
            tenant=caller.tenant,
            by=SourceClass.AGENT,
            title=title,
            scope=Scope(user=user),
            derived_from=tuple(derived_from),
            metadata={"remembered_by": caller.name},
        )
        memory, _ = await service.threads.call(service.memories.add_note, note)
        return Remembered.model_validate(memory_object(service.memories, memory))

    async def feedback(self, caller: Principal, answer_id: str, *, good: bool, memory_id: str | None) -> FedBack:
        """Say whether an answer was right: whoever holds the key, over MCP it is an agent's word."""
        service = self._for(caller, KeyScope.WRITE)
        only = None if memory_id is None else MemoryId(memory_id)

        def give() -> dict[str, Any]:
            given = give_feedback(
                service.memories,
                AnswerId(answer_id),
                caller.tenant,
                is_good=good,
                only=only,
                by=caller.name,
                is_agent=True,
            )
            return feedback_object(service.memories, given)

        return FedBack.model_validate(await service.threads.call(give))

    async def trace(self, caller: Principal, id_: str, *, up: bool, down: bool) -> Traced:
        """Return where a memory or an answer came from, and what was made from it."""
        service = self._for(caller, KeyScope.QUERY)
        if not (up or down):
            raise InputError("a trace goes up, down, or both ways")

        def trace() -> dict[str, Any]:
            return traced(service.memories, id_, caller.tenant, up=up, down=down).as_json()

        return Traced(trace=await service.threads.call(trace))

    def _for(self, caller: Principal, scope: KeyScope) -> Service:
        """Return the parts for a caller whose key has the scope.

        Raises:
            Forbidden: it has not.
        """
        if not caller.may(scope):
            raise Forbidden(f"the key {caller.name!r} lacks the scope {scope.value}")
        return self.service()


def _asks_as(caller: Principal, user: str) -> Scope:
    """Return whose memories, and whose conversation, a question is about: an agent's key stands for its agent."""
    return Scope(agent=caller.name if caller.holder is Holder.AGENT else "", user=user)


@contextmanager
def told() -> Iterator[None]:
    """Say what went wrong as the model may read it, with the way out; what is unforeseen says nothing of itself."""
    try:
        yield
    except KbError as error:
        tell_of_what_is_away("/mcp/", error)
        said, hint = over_mcp(words_of(error)), hint_over_mcp(error.hint)
        raise ToolError(f"{said}; {hint}" if hint else said) from error


@contextmanager
def told_of_resource() -> Iterator[None]:
    """Likewise for resources."""
    try:
        yield
    except UnknownMemory as error:
        raise ResourceNotFoundError(str(error)) from error
    except KbError as error:
        tell_of_what_is_away("/mcp/", error)
        raise ResourceError(over_mcp(words_of(error))) from error


def _answered(said: dict[str, Any]) -> Answered:
    if said["outcome"] == "waiting":
        waits = "; ".join(map(str, said["queries"]))
        return Answered(
            outcome="waiting",
            answer=f"A person must decide first: {waits}",
            answer_id=said["answer_id"],
            thread=said["thread"],
        )
    return Answered.model_validate({**said, "suppressed": len(said["suppressed"])})
