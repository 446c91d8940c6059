"""What the description of the interface (OpenAPI) says beyond the types: examples, errors, and how to show a key."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from serving.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from fastapi import FastAPI

ABOUT = """Trustworthy memory for RAG and agents: governed search and answers with citations.

Every request but the probes carries a key: `Authorization: Bearer kb_…` (`kb key create` makes one). A key belongs to
one tenant and may `query`, `write` or `govern`. Errors are problem documents (RFC 9457); OpenAI's paths answer errors
in OpenAI's shape."""
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
OBJECT = {"type": "object"}

_ANSWER = {
    "answer_id": "6f1c7a…",
    "outcome": "answered",
    "answer": "Card payments are settled within two working days. [1]",
    "verdict": "correct",
    "citations": [
        {
            "number": 1,
            "memory_id": "m_3f…",
            "source": "file://handbook/payments.md",
            "url": None,
            "title": "Payments",
            "quote": "Card payments are settled within two working days.",
            "supports": True,
            "verified": True,
            "effective_confidence": 0.93,
        }
    ],
    "path": [{"node": "plan", "why": "one question"}],
    "suppressed": [],
    "usage": {"llm_calls": 0, "searches": 0, "embeddings": 1, "tokens": 0, "tokens_in": 0, "tokens_out": 0},
    "degraded": [],
    "reasons": [],
    "missing": [],
    "conflicts": [],
    "plan": {},
}
_WAITING = {
    "outcome": "waiting",
    "kind": "search",
    "answer_id": "6f1c7a…",
    "thread": "case-17",
    "provider": "tavily",
    "queries": ["card payment duration 2026"],
    "max_searches": 2,
    "found": [],
    "resumable": True,
}
_EVENTS = """event: step
data: {"event": "step", "node": "retrieve", "why": "3 passages"}

event: token
data: {"event": "token", "token": "Card payments"}

event: answer
data: {"event": "answer", "answer_id": "6f1c7a…", "outcome": "answered"}

"""
_HITS = {
    "hits": [{"id": "m_3f…", "text": "Card payments are…", "source": "file://handbook/payments.md", "score": 0.91}],
    "suppressed": {"count": 0, "reasons": {}, "memories": []},
    "mode": "hybrid",
}

Said = dict[int | str, dict[str, Any]]


def said(status: int, about: str, example: object, **more: object) -> Said:
    """Return what the description says of one status: in words, and by an example in JSON."""
    return {
        status: {"description": about, "content": {"application/json": {"schema": OBJECT, "example": example}, **more}}
    }


ANSWERS: Said = {
    **said(
        200,
        "the answer; with `stream`, events: step, token, void (take back what was streamed), answer, waiting, error",
        _ANSWER,
        **{"text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS}},
    ),
    **said(202, "it waits for a person", _WAITING),
}
HITS: Said = said(200, "hits, best first, and what the gate stopped", _HITS)
READY: Said = {
    **said(200, "requests are worked on", {"ready": True, "checks": {"runtime": "ok", "ledger": "ok", "index": "ok"}}),
    **said(503, "they are not; each check says why", {"ready": False, "checks": {"runtime": "starting"}}),
}


def _problem(status: HTTPStatus, about: str) -> dict[str, Any]:
    example = {"type": "urn:kb:…", "title": status.phrase, "status": int(status), "detail": "…", "instance": "urn:kb:…"}
    return {
        "description": about,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}},
    }


PROBLEMS: Said = {
    int(status): _problem(status, about)
    for status, about in (
        (HTTPStatus.BAD_REQUEST, "the body is no JSON"),
        (HTTPStatus.UNAUTHORIZED, "there is no key, or it opens nothing"),
        (HTTPStatus.FORBIDDEN, "the key may not"),
        (HTTPStatus.NOT_FOUND, "there is no such thing in the key's tenant"),
        (HTTPStatus.CONFLICT, "a guard refused it, or another run holds the lock"),
        (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large"),
        (HTTPStatus.UNPROCESSABLE_ENTITY, "a value is not valid"),
        (HTTPStatus.TOO_MANY_REQUESTS, "the key has called too often; Retry-After says when again"),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "something unexpected"),
        (HTTPStatus.SERVICE_UNAVAILABLE, "the server starts, ends or is full, or what it needs is away"),
        (HTTPStatus.GATEWAY_TIMEOUT, "it took too long"),
    )
}
_CHAT = {
    "id": "chatcmpl-6f1c7a…",
    "object": "chat.completion",
    "created": 1790000000,
    "model": "kb",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": _ANSWER["answer"], "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "kb": {**_ANSWER, "ignored": ["temperature"]},
}
_MODEL = {"id": "kb", "object": "model", "created": 1790000000, "owned_by": "kb"}
_OPENAI_ERROR = {"error": {"message": "…", "type": "invalid_request_error", "param": None, "code": None}}
_OPENAI_ERRORS: Said = {
    status: {**about, "content": {"application/json": {"schema": OBJECT, "example": _OPENAI_ERROR}}}
    for status, about in PROBLEMS.items()
}
CHATS: Said = {
    **said(
        200,
        "the completion; with `stream`, chunks, of which the last has `kb`",
        _CHAT,
        **{"text/event-stream": {"schema": {"type": "string"}, "example": "data: [DONE]\n\n"}},
    ),
    **_OPENAI_ERRORS,
}
MODELS: Said = {**said(200, "what may be named as the model", {"object": "list", "data": [_MODEL]}), **_OPENAI_ERRORS}
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "instance": {"type": "string", "description": "names the request, as the log does"},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {"at": {"type": "string"}, "why": {"type": "string"}}},
        },
    },
}


def described(app: FastAPI) -> dict[str, Any]:
    """Return the description of an app's interface, made once."""
    if app.openapi_schema is None:
        from importlib.metadata import version  # noqa: PLC0415 - beside its only use

        whole = get_openapi(title="kb", version=version("kbwarden"), description=ABOUT, routes=app.routes)
        parts = whole.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "kb_<id>_<secret>"}}
        whole["security"] = [{"key": []}]
        for path in OPEN_PATHS & whole["paths"].keys():
            for operation in whole["paths"][path].values():
                operation["security"] = []
        app.openapi_schema = whole
    return app.openapi_schema
