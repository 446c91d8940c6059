"""How every error leaves: as a problem document, or in OpenAI's shape where its clients call. Never a stack trace."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from kb.log import get_logger
from serving import browsers
from serving.problems import MEDIA_TYPE, problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI, Request
    from fastapi.responses import Response
    from starlette.types import Scope

    from kb.errors import KbError
    from kb.model import Json

OPENAI_PATHS = ("/v1/chat/", "/v1/models")
UNFORESEEN = "something unexpected went wrong; the log names it by this request's id"
RETRY_SECONDS = 1  # what a client is told to wait where nothing better is known
REQUEST_ID = "request_id"  # key of a request's state

_OPENAI_CODES: Mapping[int, tuple[str, str | None]] = {
    HTTPStatus.UNAUTHORIZED: ("authentication_error", "invalid_api_key"),
    HTTPStatus.FORBIDDEN: ("permission_error", "insufficient_permissions"),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limit_error", "rate_limit_exceeded"),
}


class Turned(HTTPException):
    """A request that is turned away for how it came, not for what it asks: too large, too many, too late.

    Args:
        status: of the response.
        why: in words that may be shown to anybody.
        kind: a stable name, in the problem's type.
        hint: what to do.
        retry_after: seconds after which it may be tried again; None: never by itself.
    """

    def __init__(
        self, status: HTTPStatus, why: str, *, kind: str, hint: str = "", retry_after: float | None = None
    ) -> None:
        headers = None if retry_after is None else {"Retry-After": str(max(1, round(retry_after + 0.499)))}
        super().__init__(int(status), why, headers)
        self.kind = kind
        self.hint = hint


class RefusedParameter(Exception):  # noqa: N818 - reads as the condition it states
    """A parameter of OpenAI's that this product cannot honour.

    Args:
        parameter: its name.
        why: in words.
        code: OpenAI's own.
        status: of the response.
    """

    def __init__(
        self,
        parameter: str,
        why: str,
        *,
        code: str = "unsupported_parameter",
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(why)
        self.parameter = parameter
        self.code = code
        self.status = status


class ClientGone(ConnectionError):  # noqa: N818 - likewise
    """The client hung up before its answer was there."""


class BrokenOff(ConnectionAbortedError):  # noqa: N818 - likewise
    """A response that had begun cannot be ended as it should: its connection is closed, lest it pass for whole."""


def reply_to(scope: Scope, error: Exception) -> Response:
    """Return the response to an error that ended a request."""
    from kb.errors import KbError  # noqa: PLC0415 - beside its type above

    if isinstance(error, Turned):
        return reply(scope, _turned(error), headers=error.headers)
    if isinstance(error, HTTPException):
        return reply(scope, _plain(error.status_code, str(error.detail)), headers=error.headers)
    if isinstance(error, RequestValidationError):
        problem = {**_plain(HTTPStatus.UNPROCESSABLE_ENTITY, _summed(error)), "errors": _places(error)}
        return reply(scope, {**problem, **_advice(scope, error)})
    if isinstance(error, RefusedParameter):
        return _openai(scope, int(error.status), str(error), code=error.code, parameter=error.parameter)
    if isinstance(error, KbError):
        return _typed(scope, error)
    get_logger().error("request_failed", path=scope.get("path"), exc_info=error)
    return reply(scope, _plain(HTTPStatus.INTERNAL_SERVER_ERROR, UNFORESEEN))


def reply(scope: Scope, problem: Mapping[str, Json], *, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as the response that this path's clients understand."""
    status = int(str(problem["status"]))
    if str(scope.get("path", "")).startswith(OPENAI_PATHS):
        said = str(problem["detail"]) + (f" ({problem['hint']})" if problem.get("hint") else "")
        return _openai(scope, status, said, headers=headers)
    whole = {**problem, "instance": f"urn:kb:request:{_id_of(scope)}"}
    if browsers.is_asked_for(scope):
        return browsers.page_of(scope, whole, headers)
    return JSONResponse(whole, status, headers=_with_challenge(status, headers), media_type=MEDIA_TYPE)


def problem_in_stream(scope: Scope, error: Exception) -> dict[str, Json]:
    """Return the problem that ends a stream whose status has been sent."""
    from kb.errors import KbError  # noqa: PLC0415 - beside its type above

    if isinstance(error, KbError) and not _is_unforeseen(error):
        said = problem_of(error)
        tell_of_what_is_away(scope["path"], error)
    elif isinstance(error, Turned):
        said = _turned(error)
    else:
        get_logger().error("request_failed", path=scope.get("path"), exc_info=error)
        said = _plain(HTTPStatus.INTERNAL_SERVER_ERROR, UNFORESEEN)
    return {**said, "instance": f"urn:kb:request:{_id_of(scope)}"}


def install(app: FastAPI) -> None:
    """Answer every error of an app's endpoints here."""

    async def handle(request: Request, error: Exception) -> Response:
        return reply_to(request.scope, error)

    from kb.errors import KbError  # noqa: PLC0415 - beside its type above

    for kind in (HTTPException, RequestValidationError, RefusedParameter, KbError):
        app.add_exception_handler(kind, handle)


def _typed(scope: Scope, error: KbError) -> Response:
    if _is_unforeseen(error):
        get_logger().error("request_failed", path=scope.get("path"), exc_info=error)
        return reply(scope, {**problem_of(error), "detail": UNFORESEEN, "hint": ""})
    problem = problem_of(error)
    headers = None
    if problem["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
        tell_of_what_is_away(scope["path"], error)
        wait = getattr(error, "retry_after", None) or RETRY_SECONDS
        headers = {"Retry-After": str(max(1, round(wait)))}
    return reply(scope, problem, headers=headers)


def tell_of_what_is_away(path: str, error: KbError) -> None:
    """Leave in the log what the caller is not told: which part of the server it is, and where."""
    if problem_of(error)["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
        get_logger().warning("part_away", path=path, kind=type(error).__name__, problem=str(error))


def _is_unforeseen(error: KbError) -> bool:
    """Return whether it is the operator's to read, not the caller's: a defect, or a wrong setting."""
    return problem_of(error)["status"] == HTTPStatus.INTERNAL_SERVER_ERROR


def _turned(error: Turned) -> dict[str, Json]:
    said: dict[str, Json] = {**_plain(error.status_code, str(error.detail)), "type": f"urn:kb:{error.kind}"}
    return {**said, "hint": error.hint} if error.hint else said


def _plain(status: int, detail: str) -> dict[str, Json]:
    return {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": int(status), "detail": detail}


def _places(error: RequestValidationError) -> list[Json]:
    """Return where a body is not valid and why; what was sent is not sent back."""
    return [{"at": _readable(e["loc"]), "why": _clean(str(e["msg"]))} for e in error.errors()]


def _advice(scope: Scope, error: RequestValidationError) -> dict[str, Json]:
    """Return what helps where a whole body was not understood for how it was labelled."""
    labelled = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    is_unread = labelled != "application/json" and any(tuple(e["loc"]) == ("body",) for e in error.errors())
    return {"hint": "send the body as JSON, with `Content-Type: application/json`"} if is_unread else {}


def _summed(error: RequestValidationError) -> str:
    return "; ".join(f"{_readable(e['loc'])}: {_clean(str(e['msg']))}" for e in error.errors()[:5])


def _readable(place: Sequence[object]) -> str:
    return _clean(".".join(str(part) for part in place))[:200]


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _openai(
    scope: Scope,
    status: int,
    said: str,
    *,
    code: str | None = None,
    parameter: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    server = HTTPStatus.INTERNAL_SERVER_ERROR
    kind, usual = _OPENAI_CODES.get(status, ("server_error" if status >= server else "invalid_request_error", None))
    whole = {"error": {"message": said, "type": kind, "param": parameter, "code": code or usual}}
    del scope
    return JSONResponse(whole, status, headers=_with_challenge(status, headers))


def _with_challenge(status: int, headers: Mapping[str, str] | None) -> dict[str, str]:
    challenge = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return {**challenge, **(headers or {})}


def _id_of(scope: Scope) -> str:
    return str(scope.get("state", {}).get(REQUEST_ID, ""))
