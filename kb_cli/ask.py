"""`kb ask`: a question in, an answer out with citations, its path and its costs."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.answers import as_lines, waiting_json, waiting_lines
from kb_cli.search import ADVICE, Agent, At, Conversation, Sources, User
from kb_cli.session import AsJson, Tenant, settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crag_runtime.result import Answer, AskRequest, Waiting
    from crag_runtime.runtime import Event
    from kb.model import Json, Scope
    from kb.settings import Settings


class EvaluatorOption(StrEnum):
    """Who grades."""

    AUTO = "auto"
    FAST = "fast"
    READER = "reader"
    LLM = "llm"
    CASCADE = "cascade"


class ApproveOption(StrEnum):
    """Who decides on a paid web search."""

    ASK = "ask"
    ALWAYS = "always"
    NEVER = "never"


class DecideOption(StrEnum):
    """What is decided on a search that waits."""

    APPROVE = "approve"
    DECLINE = "decline"
    EDIT = "edit"


Question = Annotated[str | None, typer.Argument(help="The question; `-` reads it from standard input.")]
Stream = Annotated[
    bool, typer.Option("--stream", help="Print the answer as it is written; with --json one event a line.")
]
Thread = Annotated[str, typer.Option("--thread", help="Conversation that it belongs to.")]
EvaluatorName = Annotated[EvaluatorOption | None, typer.Option("--evaluator", help="Who grades.")]
Approve = Annotated[ApproveOption | None, typer.Option("--approve", help="Who decides on a paid web search.")]
Documents = Annotated[list[str] | None, typer.Option("--document", help="Only this document's id; repeatable.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the question that waits on --thread.")]
Decide = Annotated[DecideOption | None, typer.Option("--decide", help="With --resume: the decision on the search.")]
Query = Annotated[str, typer.Option("--query", help="With --decide edit: the words to search instead.")]


def ask(
    question: Question = None,
    stream: Stream = False,
    thread: Thread = "",
    tenant: Tenant = None,
    evaluator: EvaluatorName = None,
    approve: Approve = None,
    at: At = None,
    user: User = "",
    agent: Agent = "",
    conversation: Conversation = "",
    source: Sources = None,
    document: Documents = None,
    resume: Resume = False,
    decide: Decide = None,
    query: Query = "",
    as_json: AsJson = False,
) -> None:
    """Answer a question from trusted, relevant memories, with citations; or say honestly why not."""
    from kb.errors import InputError
    from kb.model import Scope
    from kb_cli.values import readable

    readable(question or "", thread, user, agent, conversation, query, *(source or ()), *(document or ()))
    settings = settings_of(tenant=tenant, ask=None if evaluator is None else {"evaluator": evaluator.value})
    scope = Scope(agent=agent, user=user, conversation=conversation)
    show = _Show(as_json=as_json, is_streaming=stream)
    if resume:
        if not thread:
            raise InputError("--resume needs the --thread that waits")
        asyncio.run(_resumed(settings, thread, scope, "" if decide is None else decide.value, query, show))
        return
    narrowed = (tuple(source or ()), tuple(document or ()))
    request = _request(question, settings.tenant, scope, thread, at, narrowed, approve)
    asyncio.run(_asked(settings, request, show))


def _request(  # noqa: PLR0917 - a command line's options, passed on once
    question: str | None,
    tenant: str,
    scope: Scope,
    thread: str,
    at: str | None,
    narrowed: tuple[tuple[str, ...], tuple[str, ...]],
    approve: ApproveOption | None,
) -> AskRequest:
    from crag_runtime.result import AskRequest
    from kb.clock import SystemClock
    from kb.errors import InputError
    from kb_cli.values import from_stdin, instant

    if question is None:
        raise InputError("there is no question", hint='kb ask "…", or `kb ask -` to read it from standard input')
    return AskRequest(
        question=from_stdin() if question == "-" else question,
        tenant=tenant,
        scope=scope,
        thread=thread,
        at=None if at is None else instant(at, SystemClock().now()),
        sources=narrowed[0],
        doc_ids=narrowed[1],
        approve="" if approve is None else approve.value,
    )


class _Show:
    """How events are shown."""

    def __init__(self, *, as_json: bool, is_streaming: bool) -> None:
        self.as_json = as_json
        self.is_streaming = is_streaming
        self._wrote = False

    def event(self, event: Event) -> None:
        """Show what happens on the way."""
        if not self.is_streaming or event.result is not None:
            return
        if self.as_json:
            render.emit_json(_event_json(event))
        elif event.kind == "token":
            render.write(event.token)
            self._wrote = True
        elif event.kind == "void" and self._wrote:
            render.say("", "(withdrawn; once more)")
            self._wrote = False

    def answer(self, answer: Answer) -> None:
        """Show the answer."""
        from crag_runtime.result import as_json

        if self.as_json:
            shown = as_json(answer)
            render.emit_json({"event": "answer", **shown} if self.is_streaming else shown)
            return
        if self._wrote:
            render.say("")
        render.say(*as_lines(answer, advice=ADVICE, with_text=not self._wrote))

    def waiting(self, waiting: Waiting) -> None:
        """Show the search that waits for a person."""
        if self.as_json:
            shown = waiting_json(waiting)
            render.emit_json({"event": "waiting", **shown} if self.is_streaming else shown)
        else:
            render.say(*waiting_lines(waiting))


def _event_json(event: Event) -> dict[str, Json]:
    if event.step is not None:
        return {"event": "step", **event.step}
    return {"event": event.kind, "token": event.token} if event.kind == "token" else {"event": event.kind}


async def _asked(settings: Settings, request: AskRequest, show: _Show) -> None:
    from crag_runtime.wiring import build_runtime

    async with build_runtime(settings) as runtime:
        result = await _shown(runtime.stream(request), show)
        while not _is_answer(result) and _is_watched(show):
            decision, words = _decision(result)  # type: ignore[arg-type] # not an answer: it waits
            thread = request.thread or result.answer_id
            events = runtime.resuming(thread, request.tenant, scope=request.scope, decision=decision, query=words)
            result = await _shown(events, show)
        _end(result, show, settings)


async def _resumed(  # noqa: PLR0917 - a command line's options, passed on once
    settings: Settings, thread: str, scope: Scope, decision: str, query: str, show: _Show
) -> None:
    from crag_runtime.wiring import build_runtime

    async with build_runtime(settings) as runtime:
        events = runtime.resuming(thread, settings.tenant, scope=scope, decision=decision, query=query)
        _end(await _shown(events, show), show, settings)


async def _shown(events: AsyncIterator[Event], show: _Show) -> Answer | Waiting:
    result: Answer | Waiting | None = None
    async for event in events:
        show.event(event)
        result = event.result or result
    assert result is not None
    return result


def _is_answer(result: Answer | Waiting) -> bool:
    from crag_runtime.result import Answer

    return isinstance(result, Answer)


def _is_watched(show: _Show) -> bool:
    return not show.as_json and sys.stdin.isatty() and sys.stderr.isatty()


def _decision(waiting: Waiting) -> tuple[str, str]:
    """Ask the person at the terminal."""
    render.tell(*waiting_lines(waiting))
    said = typer.prompt("approve, decline, or other words to search for", default="decline", err=True).strip()
    return (said, "") if said in ("approve", "decline") else ("edit", said)


def _end(result: Answer | Waiting, show: _Show, settings: Settings) -> None:
    """Show the result and leave with its exit code."""
    from crag_runtime.result import Answer
    from kb.errors import ExitCode

    if not isinstance(result, Answer):
        show.waiting(result)
        if settings.ask.checkpointer == "none":
            render.tell("nothing is kept of it: set ask.checkpointer, or ask again with --approve always")
        raise typer.Exit(ExitCode.REFUSED)
    show.answer(result)
    if any(reason.endswith("_unavailable") for reason in result.reasons):
        raise typer.Exit(ExitCode.DEPENDENCY)
