"""/v1/chat/completions and /v1/models: for clients that speak OpenAI's protocol; sources stand under `kb`."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from crag_runtime.result import AskRequest
from kb.clock import instant
from serving.bodies import checked
from serving.completions import (
    ChatBody,
    Options,
    checked_parameters,
    chunks,
    completion,
    models,
    opening_chunk,
    question_in,
)
from serving.description import CHATS, MODELS
from serving.failures import RefusedParameter
from serving.principal import Asker, refuse_spending, service_of
from serving.routes.ask import ended, is_kept, stream_problem
from serving.streams import KEEP_ALIVE, EventStream, event_bytes, timed, told_to_the_end, unless_gone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from crag_runtime.events import Event
    from crag_runtime.result import Answer, Waiting
    from kb.keys import Principal
    from kb.model import Json
    from serving.service import Service

router = APIRouter(prefix="/v1", tags=["openai"])
DONE = b"data: [DONE]\n\n"


@router.post("/chat/completions", responses=CHATS, response_class=JSONResponse)
async def chat_completions(body: ChatBody, request: Request, caller: Asker) -> Response:
    """Answer the last user message from governed memories; `kb` holds sources, verdict and path.

    A stream begins when the answer has passed its check: what was streamed to such a client could not be taken back.
    """
    service = service_of(request)
    ignored = checked_parameters(body)
    asked = _question(body, caller, service)
    events = service.runtime.stream(asked)
    created = service.clock.now() // 1000
    if body.stream:
        parts = _told(request, events, body, ignored, created)
        return EventStream(told_to_the_end(parts, partial(_failed, request)))
    result = await unless_gone(request, ended(events))
    return JSONResponse(completion(result.answer_id, created, result, _extra(result, service, ignored)))


@router.get("/models", responses=MODELS, response_class=JSONResponse)
async def list_models(request: Request, caller: Asker) -> Response:
    """List the one model."""
    del caller
    return JSONResponse({"object": "list", "data": list(models(service_of(request).clock.now() // 1000))})


@router.get("/models/{model}", responses=MODELS, response_class=JSONResponse)
async def get_model(model: str, request: Request, caller: Asker) -> Response:
    """Describe a model."""
    del caller
    found = next((m for m in models(service_of(request).clock.now() // 1000) if m["id"] == model), None)
    if found is None:
        why = f"the model {model[:64]!r} does not exist"
        raise RefusedParameter("model", why, code="model_not_found", status=HTTPStatus.NOT_FOUND)
    return JSONResponse(found)


def _question(body: ChatBody, caller: Principal, service: Service) -> AskRequest:
    """Return what the runtime is asked. Nobody is there to approve a paid search, unless the caller says so."""
    options = body.kb or Options()
    thread = body.kb_thread or options.thread or (f"chat:{caller.key_id}:{body.user}" if body.user else "")
    question = question_in(body.messages)
    if options.approve == "always":
        refuse_spending(caller)
    checked(question, thread, *options.sources, *options.documents)
    asked = AskRequest(
        question=question,
        tenant=caller.tenant,
        scope=options.scope(caller),
        thread=thread,
        at=None if options.at is None else instant(options.at, service.clock.now()),
        sources=tuple(options.sources),
        doc_ids=tuple(options.documents),
        approve=options.approve,
    )
    return asked if options.approve else replace(asked, approve=service.runtime.unattended(asked))


async def _told(
    request: Request, events: AsyncGenerator[Event], body: ChatBody, ignored: list[str], created: int
) -> AsyncGenerator[bytes]:
    async with aclosing(timed(events, request.state.deadline)) as heard:
        async for event in heard:
            if event is None:
                yield KEEP_ALIVE
            elif event.result is not None:
                for part in _written(request, event.result, body, ignored, created):
                    yield part


def _written(
    request: Request, result: Answer | Waiting, body: ChatBody, ignored: list[str], created: int
) -> Iterator[bytes]:
    extra = _extra(result, service_of(request), ignored)
    yield event_bytes("", opening_chunk(result.answer_id, created))
    for chunk in chunks(result.answer_id, created, result, extra, has_usage=body.has_usage):
        yield event_bytes("", chunk)
    yield DONE


def _extra(result: Answer | Waiting, service: Service, ignored: list[str]) -> dict[str, Json]:
    from crag_runtime.objects import result_json  # noqa: PLC0415 - likewise

    return {**result_json(result, is_kept=is_kept(service)), "ignored": list(ignored)}


def _failed(request: Request, error: Exception) -> bytes:
    said = stream_problem(request, error)
    kind = "server_error" if int(str(said["status"])) >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return event_bytes("", {"error": {"message": said["detail"], "type": kind, "param": None, "code": None}})
