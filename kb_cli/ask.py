"""`kb ask`: a question in, an answer out with citations, its path and its costs."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.answers import waiting_lines
from kb_cli.search import Agent, At, Conversation, Sources, User
from kb_cli.session import AsJson, Tenant, clock, settings_of
from kb_cli.showing import Show

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crag_runtime.result import Answer, AskRequest, Waiting
    from crag_runtime.runtime import CragRuntime, Event
    from kb.model import Scope
    from kb.settings import Settings


EvaluatorOption = StrEnum("EvaluatorOption", ["AUTO", "FAST", "READER", "LLM", "CASCADE"])
PresetOption = StrEnum("PresetOption", ["FAST", "BALANCED", "STRICT"])
ApproveOption = StrEnum("ApproveOption", ["ASK", "ALWAYS", "NEVER"])
DecideOption = StrEnum("DecideOption", ["APPROVE", "DECLINE", "EDIT"])

Question = Annotated[str | None, typer.Argument(help="The question; `-` reads it from standard input.")]
Stream = Annotated[
    bool, typer.Option("--stream", help="Print the answer as it is written; with --json one event a line.")
]
Thread = Annotated[str, typer.Option("--thread", help="Conversation that it belongs to.")]
EvaluatorName = Annotated[EvaluatorOption | None, typer.Option("--evaluator", help="Who grades.")]
PresetName = Annotated[
    PresetOption | None, typer.Option("--preset", help="Values for what is set nowhere: fast, balanced or strict.")
]
Approve = Annotated[ApproveOption | None, typer.Option("--approve", help="Who decides on a paid web search.")]
Documents = Annotated[list[str] | None, typer.Option("--document", help="Only this document's id; repeatable.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the question on --thread that waits, or that was cut off.")
]
Decide = Annotated[DecideOption | None, typer.Option("--decide", help="With --resume: the decision on what waits.")]
AnswerOption = Annotated[
    str, typer.Option("--answer", help="With --resume: id of the answer decided on, lest it be a newer question's.")
]
Query = Annotated[str, typer.Option("--query", help="With --decide edit: the words to look for instead.")]

AWAY = ("_unavailable", "search_failed")  # endings of the reasons that a later try may mend


def ask(
    question: Question = None,
    stream: Stream = False,
    thread: Thread = "",
    tenant: Tenant = None,
    evaluator: EvaluatorName = None,
    preset: PresetName = None,
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
    answer: AnswerOption = "",
    as_json: AsJson = False,
) -> None:
    """Answer a question from trusted, relevant memories, with citations; or say honestly why not."""
    from kb.model import Scope
    from kb_cli.values import readable

    readable(question or "", thread, user, agent, conversation, query, *(source or ()), *(document or ()))
    said = Said(decision="" if decide is None else decide.value, query=query, answer=answer)
    narrowed = Narrowed(
        at=at,
        sources=tuple(source or ()),
        documents=tuple(document or ()),
        approve="" if approve is None else approve.value,
    )
    _check(question, thread, narrowed, said, is_resumed=resume)
    chosen = {name: option.value for name, option in (("evaluator", evaluator), ("preset", preset)) if option}
    settings = settings_of(tenant=tenant, ask=chosen or None)
    scope = Scope(agent=agent, user=user, conversation=conversation)
    show = Show(as_json=as_json, is_streaming=stream)
    if resume:
        asyncio.run(_resumed(settings, _place(settings, scope, thread), said, show))
    else:
        asyncio.run(_asked(settings, _request(question or "", settings.tenant, scope, thread, narrowed), show))


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What a question may be limited to, as typed."""

    at: str | None
    sources: tuple[str, ...]
    documents: tuple[str, ...]
    approve: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a person says to a search that waits; "" for nothing."""

    decision: str = ""
    query: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a question waits."""

    thread: str
    tenant: str
    scope: Scope
    is_kept: bool  # beyond this process

    def command(self, answer_id: str) -> str:
        """Return the command that decides on it; "" when it will be gone."""
        whose = self.scope
        options = {
            "--thread": self.thread,
            "--tenant": self.tenant,
            "--user": whose.user,
            "--agent": whose.agent,
            "--conversation": whose.conversation,
            "--answer": answer_id,
        }
        words = shlex.join(word for option in options.items() if option[1] for word in option)
        return f"kb ask --resume {words} --decide approve|decline|edit" if self.is_kept else ""


def _place(settings: Settings, scope: Scope, thread: str) -> Place:
    return Place(thread, settings.tenant, scope, settings.ask.checkpointer != "none")


def _check(question: str | None, thread: str, narrowed: Narrowed, said: Said, *, is_resumed: bool) -> None:
    """Refuse options that would be passed over in silence.

    Raises:
        InputError: they do not belong together.
    """
    from kb.errors import InputError

    if said.query and said.decision != "edit":
        raise InputError("--query belongs to --decide edit")
    if is_resumed:
        if question is not None or narrowed != Narrowed(at=None, sources=(), documents=(), approve=""):
            raise InputError("--resume goes on with a question as it was asked; give only --thread and whose it is")
        if not thread:
            raise InputError("--resume needs the --thread that waits")
    elif said.decision or said.answer:
        raise InputError("--decide and --answer belong to --resume")
    elif question is None:
        raise InputError("there is no question", hint='kb ask "…", or `kb ask -` to read it from standard input')


def _request(question: str, tenant: str, scope: Scope, thread: str, narrowed: Narrowed) -> AskRequest:
    from crag_runtime.result import AskRequest
    from kb_cli.values import from_stdin, instant

    return AskRequest(
        question=from_stdin().strip() if question == "-" else question,
        tenant=tenant,
        scope=scope,
        thread=thread,
        at=None if narrowed.at is None else instant(narrowed.at, clock().now()),
        sources=narrowed.sources,
        doc_ids=narrowed.documents,
        approve=narrowed.approve,
    )


async def _asked(settings: Settings, request: AskRequest, show: Show) -> None:
    from crag_runtime.wiring import build_runtime

    async with build_runtime(settings, clock=clock()) as runtime:
        result = await _shown(runtime.stream(request), show)
        await _decided(runtime, _place(settings, request.scope, request.thread or result.answer_id), result, show)


async def _resumed(settings: Settings, place: Place, said: Said, show: Show) -> None:
    from crag_runtime.wiring import build_runtime

    async with build_runtime(settings, clock=clock()) as runtime:
        result = await _shown(_going_on(runtime, place, said), show)
        await _decided(runtime, place, result, show)


async def _decided(runtime: CragRuntime, place: Place, result: Answer | Waiting, show: Show) -> None:
    """Let the person at the terminal decide on what waits; show the end, and leave with its exit code."""
    from crag_runtime.result import Answer
    from kb.errors import ExitCode

    while not isinstance(result, Answer):
        if show.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            show.waiting(result, place.command(result.answer_id))
            raise typer.Exit(ExitCode.REFUSED)
        said = replace(_decision(result), answer=result.answer_id)
        result = await _shown(_going_on(runtime, place, said), show)
    show.answer(result)
    if any(reason.endswith(AWAY) for reason in result.reasons):
        raise typer.Exit(ExitCode.DEPENDENCY)


def _going_on(runtime: CragRuntime, place: Place, said: Said) -> AsyncIterator[Event]:
    return runtime.resuming(
        place.thread,
        place.tenant,
        scope=place.scope,
        decision=said.decision,
        query=said.query,
        answer_id=said.answer,
    )


async def _shown(events: AsyncIterator[Event], show: Show) -> Answer | Waiting:
    result: Answer | Waiting | None = None
    async for event in events:
        show.event(event)
        result = event.result or result
    assert result is not None
    return result


def _decision(waiting: Waiting) -> Said:
    """Ask the person at the terminal; the event loop would keep Ctrl-C from them."""
    render.tell(*waiting_lines(waiting))
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        said = typer.prompt("approve, decline, or other words to look for", default="decline", err=True).strip()
    finally:
        signal.signal(signal.SIGINT, kept)
    return Said(decision=said) if said in ("approve", "decline") else Said(decision="edit", query=said)
