"""/v1/ask: a question in, an answer out with citations, path and costs; at once, or as a stream of events."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from crag_runtime.result import Answer, AskRequest
from kb.clock import instant
from kb.errors import InputError
from serving.advice import hint_over_http
from serving.bodies import AskBody, ResumeBody, checked
from serving.description import ANSWERS, PROBLEMS
from serving.failures import Turned, problem_in_stream
from serving.principal import Asker, refuse_spending, service_of
from serving.streams import KEEP_ALIVE, EventStream, event_bytes, timed, told_to_the_end, unless_gone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from crag_runtime.events import Event
    from crag_runtime.result import Waiting
    from kb.keys import Principal
    from kb.model import Json
    from serving.service import Service

router = APIRouter(prefix="/v1", tags=["ask"])


@router.post("/ask", responses={**ANSWERS, **PROBLEMS}, response_class=JSONResponse)
async def ask(body: AskBody, request: Request, caller: Asker) -> Response:
    """Answer a question from trusted, relevant memories, with citations; or say honestly why not.

    As `kb ask --json`. 202 when a search, or evidence, waits for a person: go on with /v1/ask/resume.
    """
    service = service_of(request)
    events = service.runtime.stream(question_of(body, caller, service))
    return await _answered(request, events, service, is_streaming=body.stream)


@router.post("/ask/resume", responses={**ANSWERS, **PROBLEMS}, response_class=JSONResponse)
async def resume(body: ResumeBody, request: Request, caller: Asker) -> Response:
    """Go on with a question that waits for a decision, or that was cut off."""
    service = service_of(request)
    checked(body.thread, body.query, body.answer_id)
    if body.query and body.decision != "edit":
        raise InputError("query belongs to the decision edit")
    if body.decision in ("approve", "edit"):
        refuse_spending(caller)
    events = service.runtime.resuming(
        body.thread,
        caller.tenant,
        scope=body.scope(caller),
        decision=body.decision,
        query=body.query,
        answer_id=body.answer_id,
    )
    return await _answered(request, events, service, is_streaming=body.stream)


def question_of(body: AskBody, caller: Principal, service: Service) -> AskRequest:
    """Return what the runtime is asked: always of the key's tenant.

    Raises:
        InputError: a value is none.
        Forbidden: an agent would approve a search.
    """
    checked(body.question, body.thread, *body.sources, *body.documents)
    if body.approve == "always":
        refuse_spending(caller)
    return AskRequest(
        question=body.question,
        tenant=caller.tenant,
        scope=body.scope(caller),
        thread=body.thread,
        at=None if body.at is None else instant(body.at, service.clock.now()),
        sources=tuple(body.sources),
        doc_ids=tuple(body.documents),
        approve=body.approve,
    )


def is_kept(service: Service) -> bool:
    """Return whether a question that waits outlives this process."""
    return service.settings.ask.checkpointer != "none"


async def ended(events: AsyncGenerator[Event]) -> Answer | Waiting:
    """Return how a stream of events ends.

    Raises:
        Turned: the runtime was closed meanwhile.
    """
    from crag_runtime.runs import Closed  # noqa: PLC0415 - of a library that the server loads while it starts

    result: Answer | Waiting | None = None
    try:
        async with aclosing(events):
            async for event in events:
                result = event.result or result
    except Closed as error:
        raise closed(error) from error
    assert result is not None
    return result


def closed(error: Exception) -> Turned:
    """Return what a caller is told whose question was cut off since the server ends."""
    hint = hint_over_http(str(getattr(error, "hint", "")))
    return Turned(HTTPStatus.SERVICE_UNAVAILABLE, str(error), kind="Draining", hint=hint, retry_after=5.0)


async def _answered(
    request: Request, events: AsyncGenerator[Event], service: Service, *, is_streaming: bool
) -> Response:
    from crag_runtime.objects import result_json  # noqa: PLC0415 - likewise

    if is_streaming or "text/event-stream" in request.headers.get("accept", ""):
        parts = _told(request, events, is_kept=is_kept(service))
        return EventStream(told_to_the_end(parts, partial(_failed, request)))
    result = await unless_gone(request, ended(events))
    status = HTTPStatus.OK if isinstance(result, Answer) else HTTPStatus.ACCEPTED
    return JSONResponse(result_json(result, is_kept=is_kept(service)), status)


async def _told(request: Request, events: AsyncGenerator[Event], *, is_kept: bool) -> AsyncGenerator[bytes]:
    from crag_runtime.objects import event_json  # noqa: PLC0415 - likewise

    async with aclosing(timed(events, request.state.deadline)) as heard:
        async for event in heard:
            yield KEEP_ALIVE if event is None else event_bytes(event.kind, event_json(event, is_kept=is_kept))


def stream_problem(request: Request, error: Exception) -> dict[str, Json]:
    """Return the problem that ends a question's stream."""
    from crag_runtime.runs import Closed  # noqa: PLC0415 - likewise

    if isinstance(error, TimeoutError):
        error = Turned(HTTPStatus.GATEWAY_TIMEOUT, "the request took too long", kind="TimedOut")
    elif isinstance(error, Closed):
        error = closed(error)
    return problem_in_stream(request.scope, error)


def _failed(request: Request, error: Exception) -> bytes:
    return event_bytes("error", {"event": "error", **stream_problem(request, error)})
