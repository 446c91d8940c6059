"""No exception of a vendor leaves the chat adapter untranslated."""

from __future__ import annotations

import inspect
from typing import Any

import httpx
import langchain_core.exceptions
import openai
import pytest
from langchain_openai.chat_models import base as langchain_openai_base
from langchain_openai.chat_models._client_utils import StreamChunkTimeoutError
from openai.types.chat import ChatCompletion

from kb.chat.faults import VENDOR_ERRORS, diagnosed, without
from kb.errors import Fault

NOW = 1_900_000_000.0
REQUEST = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
COMPLETION = ChatCompletion.model_validate(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }
)
BY_STATUS = {
    400: Fault.REJECTED,
    401: Fault.UNAUTHORISED,
    403: Fault.UNAUTHORISED,
    404: Fault.REJECTED,
    408: Fault.TIMEOUT,
    409: Fault.REJECTED,
    413: Fault.REJECTED,
    422: Fault.REJECTED,
    429: Fault.RATE_LIMITED,
    500: Fault.SERVER,
    501: Fault.SERVER,
    502: Fault.SERVER,
    503: Fault.SERVER,
    529: Fault.SERVER,
}
STATUS_OF = {
    "AuthenticationError": 401,
    "OAuthError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "ConflictError": 409,
    "UnprocessableEntityError": 422,
    "RateLimitError": 429,
    "InternalServerError": 500,
}


def exceptions_of(module: Any) -> list[type[Exception]]:
    found = {c for c in list(vars(module).values()) if inspect.isclass(c) and issubclass(c, Exception)}
    return sorted(
        (c for c in found if c.__module__.startswith(module.__name__.split(".")[0])), key=lambda c: c.__name__
    )


def made(kind: type[Exception], status: int | None = None, headers: dict[str, str] | None = None) -> Exception:
    """Make an error without its constructor's ceremony, with what its class promises to have."""
    error = kind.__new__(kind)
    Exception.__init__(error, "told to")
    if isinstance(error, openai.APIError):
        error.message, error.request, error.body = "told to", REQUEST, None
        error.code, error.param, error.type = None, None, None
    if isinstance(error, openai.APIStatusError):
        names = [c.__name__ for c in kind.__mro__]
        error.status_code = status or next((STATUS_OF[n] for n in names if n in STATUS_OF), 400)
        error.response = httpx.Response(error.status_code, headers=headers, request=REQUEST)
    if isinstance(error, openai.LengthFinishReasonError):
        error.completion = COMPLETION
    return error


ALL = [
    *exceptions_of(openai),
    *exceptions_of(httpx),
    *exceptions_of(langchain_core.exceptions),
    *(c for c in exceptions_of(langchain_openai_base) if c.__module__ == langchain_openai_base.__name__),
    StreamChunkTimeoutError,
]
NEVER_RAISED_BY_A_CALL = {"CookieConflict"}  # only when cookies are read by name


def test_the_vendors_have_exceptions_to_enumerate() -> None:
    assert len(ALL) > 40


@pytest.mark.parametrize("kind", [k for k in ALL if k.__name__ not in NEVER_RAISED_BY_A_CALL], ids=lambda k: k.__name__)
def test_every_exception_of_the_vendors_is_caught_and_has_a_fault(kind: type[Exception]) -> None:
    assert issubclass(kind, VENDOR_ERRORS)
    diagnosis = diagnosed(made(kind), now=NOW)
    assert isinstance(diagnosis.fault, Fault)
    assert diagnosis.reason


@pytest.mark.parametrize(("status", "fault"), BY_STATUS.items())
def test_a_status_says_the_fault(status: int, fault: Fault) -> None:
    assert diagnosed(made(openai.APIStatusError, status), now=NOW).fault is fault


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (openai.APITimeoutError, Fault.TIMEOUT),
        (httpx.ReadTimeout, Fault.TIMEOUT),
        (httpx.ConnectTimeout, Fault.TIMEOUT),
        (TimeoutError, Fault.TIMEOUT),
        (StreamChunkTimeoutError, Fault.TIMEOUT),
        (openai.APIConnectionError, Fault.UNREACHABLE),
        (httpx.ConnectError, Fault.UNREACHABLE),
        (httpx.RemoteProtocolError, Fault.UNREACHABLE),
        (ConnectionResetError, Fault.UNREACHABLE),
        (httpx.UnsupportedProtocol, Fault.REJECTED),
        (openai.LengthFinishReasonError, Fault.MALFORMED),
        (openai.ContentFilterFinishReasonError, Fault.MALFORMED),
        (openai.APIResponseValidationError, Fault.MALFORMED),
        (langchain_core.exceptions.OutputParserException, Fault.MALFORMED),
        (ValueError, Fault.MALFORMED),
        (KeyError, Fault.MALFORMED),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_an_exception_says_the_fault(kind: type[Exception], fault: Fault) -> None:
    assert diagnosed(made(kind), now=NOW).fault is fault


@pytest.mark.parametrize("kind", [httpx.RemoteProtocolError, httpx.ReadError, openai.APIConnectionError])
def test_a_connection_that_breaks_within_a_reply_cuts_it_off(kind: type[Exception]) -> None:
    diagnosis = diagnosed(made(kind), now=NOW, has_begun=True)
    assert diagnosis.fault is Fault.CUT_OFF
    assert not diagnosis.is_passing


def test_retry_after_is_read_in_seconds_and_as_a_date() -> None:
    for value in ("7", "Sun, 17 Mar 2030 17:46:47 GMT"):
        asked = diagnosed(made(openai.RateLimitError, headers={"Retry-After": value}), now=NOW).retry_after
        assert asked == pytest.approx(7)


def test_an_empty_purse_is_not_passing() -> None:
    error = made(openai.RateLimitError)
    assert diagnosed(error, now=NOW).is_passing
    error.code = "insufficient_quota"  # type: ignore[attr-defined] # the SDK's attribute
    assert not diagnosed(error, now=NOW).is_passing


def test_a_reply_over_its_limit_still_tells_what_it_cost() -> None:
    diagnosis = diagnosed(made(openai.LengthFinishReasonError), now=NOW)
    assert (diagnosis.tokens_in, diagnosis.tokens_out) == (7, 5)


def test_a_refused_key_is_never_quoted() -> None:
    error = made(openai.AuthenticationError)
    error.message = "Incorrect API key provided: sk-secret"  # type: ignore[attr-defined] # the SDK's attribute
    assert "sk-secret" not in diagnosed(error, now=NOW).reason
    rejected = made(openai.BadRequestError)
    rejected.message = "no such key: sk-secret"  # type: ignore[attr-defined] # likewise
    assert "sk-secret" not in without("sk-secret", diagnosed(rejected, now=NOW)).reason
