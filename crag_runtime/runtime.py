"""The runtime's door: ask, stream, resume, give feedback. One object serves any number of questions at a time."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from langgraph.types import Command

from crag_runtime.result import Answer, AskRequest, Context, Waiting, answer_of, cited_ids
from crag_runtime.state import RunState, findings_of
from crag_runtime.task import task_of
from kb.errors import InputError
from kb.history import AnswerId
from kb.ids import digest
from kb.telemetry import Metric, Span, count, observe, span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from crag_runtime.deps import Deps
    from crag_runtime.graph import Compiled
    from kb.model import Json, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened while a question was worked on.

    Args:
        kind: step, token, void (what was streamed so far is not the answer), answer or waiting.
        step: for steps: node and why.
        token: for tokens: a piece of the text.
        result: for answer and waiting.
    """

    kind: str
    step: Mapping[str, Json] | None = None
    token: str = ""
    result: Answer | Waiting | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """The two graphs of a runtime: one writes answers, the other gathers evidence for a caller that does."""

    answering: Compiled
    gathering: Compiled


class CragRuntime:
    """Answers questions. Made by `build_runtime`; belongs to one event loop."""

    def __init__(
        self,
        deps: Deps,
        graphs: Graphs,
        *,
        checkpointer: BaseCheckpointSaver[str] | None,
        durability: str,
        is_lasting: bool,
    ) -> None:
        self.deps = deps
        self._graph = graphs.answering
        self._gathering = graphs.gathering
        self._checkpointer = checkpointer
        self._durability = durability if is_lasting else "exit"
        self._is_lasting = is_lasting
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def ask(self, request: AskRequest) -> Answer | Waiting:
        """Return the answer, or the search that waits for a person.

        Raises:
            InputError: the request is not valid.
            Refused: the index was built with another embedder or schema.
            KbError: something unexpected; an outside service that fails is an outcome, not an exception.
        """
        return await _last(self.stream(request))

    async def resume(
        self, thread: str, tenant: str, *, scope: Scope | None = None, decision: str = "", query: str = ""
    ) -> Answer | Waiting:
        """Go on with a question that waits for a person, or that a crash cut off.

        Args:
            thread: its thread; the answer's id when it was asked without one.
            tenant: whose question it was.
            scope: as when it was asked.
            decision: approve, decline or edit; "" after a crash.
            query: for edit: the words to search instead.

        Raises:
            InputError: nothing waits there, or nothing is kept.
        """
        return await _last(self.resuming(thread, tenant, scope=scope, decision=decision, query=query))

    async def gather(self, request: AskRequest) -> Context:
        """Return graded, refined evidence for a caller whose own model writes the answer. Never waits for a person.

        Raises:
            InputError: the request is not valid.
            Refused: the index was built with another embedder or schema.
        """
        asked = request.approve or self.deps.policy.approve
        count(Metric.REQUESTS)
        given = _given(request, uuid.uuid4().hex, approve="always" if asked == "always" else "never")
        with span(Span.ASK):
            ended: Any = await self._gathering.ainvoke(given, self._config(""), context=self.deps)
        state: RunState = ended
        task = await task_of(state, self.deps)
        return Context(answer=await self._finished(state), excerpts=task.excerpts)

    async def stream(self, request: AskRequest) -> AsyncIterator[Event]:
        """Yield steps and tokens as they come, and the result last."""
        answer_id = uuid.uuid4().hex
        thread = request.thread or answer_id
        given = _given(request, answer_id, approve=request.approve)
        key = _thread_key(request.tenant, request.scope, thread)
        count(Metric.REQUESTS)
        async with self._turn(key):
            async for event in self._run(given, key, thread):
                yield event

    async def resuming(
        self, thread: str, tenant: str, *, scope: Scope | None = None, decision: str = "", query: str = ""
    ) -> AsyncIterator[Event]:
        """Yield what is left of an interrupted question; see `resume`."""
        from kb.model import Scope as Whose  # noqa: PLC0415 - only the default needs it

        if decision not in ("", "approve", "decline", "edit"):
            raise InputError(f"decision is {decision!r}; it must be approve, decline or edit")
        if decision == "edit" and not query.strip():
            raise InputError("an edited search needs its words")
        if self._checkpointer is None:
            raise InputError("nothing is kept to go on from", hint="set ask.checkpointer to sqlite or postgres")
        key = _thread_key(tenant, scope or Whose(), thread)
        async with self._turn(key):
            snapshot = await self._graph.aget_state(self._config(key))
            if not snapshot.next:
                raise InputError(f"no question waits on thread {thread}")
            is_asked = any(task.interrupts for task in snapshot.tasks)
            if is_asked and not decision:
                raise InputError(
                    f"the question on thread {thread} waits for a decision", hint="approve, decline, or edit with words"
                )
            said: Any = Command(resume={"decision": decision, "query": query}) if is_asked else None
            async for event in self._run(said, key, thread):
                yield event

    async def _run(self, given: Any, key: str, thread: str) -> AsyncIterator[Event]:  # noqa: ANN401 - input or command
        began = time.perf_counter()
        waiting: Mapping[str, Any] | None = None
        state: RunState = {}
        with span(Span.ASK):
            durability: Any = self._durability if self._checkpointer else None
            parts: AsyncIterator[Any] = self._graph.astream(
                given,
                self._config(key),
                context=self.deps,
                stream_mode=["updates", "custom", "values"],
                durability=durability,
            )
            async for mode, data in parts:
                if mode == "values":
                    state = data
                elif mode == "custom":
                    yield Event(kind="void") if data.get("void") else Event(kind="token", token=data["token"])
                elif "__interrupt__" in data:
                    waiting = data["__interrupt__"][0].value
                else:
                    for step in _steps(data):
                        yield Event(kind="step", step=step)
        observe(Metric.ASK_SECONDS, time.perf_counter() - began)
        if waiting is not None:
            yield Event(kind="waiting", result=_waiting(waiting, state, thread))
            return
        yield Event(kind="answer", result=await self._finished(state))
        await self._forget(key)

    async def _finished(self, state: RunState) -> Answer:
        deps = self.deps
        ids = dict.fromkeys(cited_ids(state), 0.0)
        evidence = {}
        if ids:
            evidence = await deps.threads.call(
                deps.store.evidence, ids, findings_of(state), tenant=state["tenant"], now=state["asked_at"]
            )
        answer = answer_of(state, evidence)
        count(Metric.OUTCOMES, outcome=answer.outcome.value)
        if state["approval"]:
            count(Metric.FALLBACKS)
        return answer

    async def _forget(self, key: str) -> None:
        """Drop what an in-process saver holds: it is there for a decision, not for history."""
        if self._checkpointer is not None and not self._is_lasting:
            await self._checkpointer.adelete_thread(key)

    def _config(self, key: str) -> Any:  # noqa: ANN401 - the graph's own configuration
        return {
            "configurable": {"thread_id": key},
            "recursion_limit": self.deps.policy.budgets.steps,
            "max_concurrency": self.deps.policy.grade_concurrency,
        }

    @contextlib.asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One turn of a thread at a time."""
        lock = self._turns.get(key)
        if lock is None:
            lock = self._turns[key] = asyncio.Lock()
        async with lock:
            yield


def _given(request: AskRequest, answer_id: str, *, approve: str) -> RunState:
    scope = request.scope
    return RunState(
        question=request.question,
        tenant=request.tenant,
        scope={"agent": scope.agent, "user": scope.user, "conversation": scope.conversation},
        thread=request.thread,
        answer_id=answer_id,
        at=request.at,
        sources=list(request.sources),
        doc_ids=list(request.doc_ids),
        approve=approve,
    )


def _thread_key(tenant: str, scope: Scope, thread: str) -> str:
    """Return where a thread's state is kept: no two tenants, users or conversations share one."""
    return digest("thread", tenant, scope.agent, scope.user, scope.conversation, thread)


def _steps(update: Mapping[str, Any]) -> list[Mapping[str, Json]]:
    """Return the steps of the path that nodes have just added."""
    paths = [part.get("path") for part in update.values() if isinstance(part, dict)]
    return [step for path in paths for step in (getattr(path, "value", path) or [])]


def _waiting(asked: Mapping[str, Any], state: RunState, thread: str) -> Waiting:
    return Waiting(
        answer_id=AnswerId(state["answer_id"]),
        thread=thread,
        provider=asked["provider"],
        queries=tuple(asked["queries"]),
        max_searches=asked["max_searches"],
    )


async def _last(events: AsyncIterator[Event]) -> Answer | Waiting:
    result: Answer | Waiting | None = None
    async for event in events:
        result = event.result or result
    assert result is not None
    return result
