"""The application: its pages, logins, and what every answer carries."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles

from governance.console.pages import answers, doors, memories, overview, queue, rollback, sources, sweeps
from governance.console.sessions import signer_of
from governance.console.showing import HERE, page
from governance.console.visitor import LoginNeeded, NotAllowed, seen
from kb.errors import KbError
from kb.log import get_logger
from kb.statuses import status_of, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from governance.console.parts import Getter, Known

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)
FRESH = (b"cache-control", b"no-store")
ASKED_AGAIN = (b"cache-control", b"no-cache")  # of files: kept, and asked for again by their tag
STATIC = "/static"
UNFORESEEN = "Something unexpected went wrong; the log names it by this request's id."
MALFORMED = "What was sent is not what the page asks for."
RETRY_SECONDS = 1  # to be waited where nothing better is known
ABSENT = "There is no such page."
_OWN = ((NotAllowed, HTTPStatus.FORBIDDEN),)


def console_app(service: Getter, *, known: Known) -> FastAPI:
    """Return the console, to be mounted.

    Args:
        service: returns the server's parts; called with each request.
        known: returns whom a key's text stands for, None when it opens nothing.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.parts = service
    app.state.known = known
    app.state.signer = None
    app.add_middleware(_Sealed)
    app.mount(STATIC, StaticFiles(directory=HERE / "static"), name="static")
    for module in (doors, overview, queue, memories, sweeps, rollback, sources, answers):
        app.include_router(module.router)
    app.add_exception_handler(LoginNeeded, _to_login)
    app.add_exception_handler(KbError, _told)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _absent)
    return app


class _Sealed:
    """Gives every answer its headers, and the console who signs its sessions, once the settings can be read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["app"].state
        if state.signer is None:
            serve = state.parts().settings.serve
            secret = serve.session_secret
            state.signer = signer_of(None if secret is None else secret.get_secret_value(), serve.session_hours)

        path = scope["path"].removeprefix(scope.get("root_path", ""))
        headers = (*HEADERS, ASKED_AGAIN if path.startswith(f"{STATIC}/") else FRESH)
        own = {name for name, _ in headers}

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message["headers"] if pair[0].lower() not in own]
                message = {**message, "headers": [*kept, *headers]}
            await send(message)

        await self._app(scope, receive, sealed)


async def _to_login(request: Request, _: Exception) -> Response:
    home = request.scope.get("root_path", "")
    return RedirectResponse(f"{home}/login", HTTPStatus.SEE_OTHER)


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, KbError)
    status = status_of(error, _OWN)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:  # a defect or a wrong setting: the operator's to read
        get_logger().error("request_failed", path=request.url.path, exc_info=error)
        return await _said(request, status, own=UNFORESEEN)
    told = await _said(request, status, said=words_of(error), hint=error.hint, moved=getattr(error, "moved", ()))
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        get_logger().warning("part_away", path=request.url.path, kind=type(error).__name__, problem=str(error))
        told.headers["Retry-After"] = str(max(1, round(getattr(error, "retry_after", None) or RETRY_SECONDS)))
    return told


async def _malformed(request: Request, _: Exception) -> Response:
    return await _said(request, HTTPStatus.UNPROCESSABLE_ENTITY, own=MALFORMED)


async def _absent(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_absent = error.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
    return await _said(request, error.status_code, own=ABSENT if is_absent else "", said=str(error.detail))


async def _said(
    request: Request, status: int, *, own: str = "", said: str = "", hint: str = "", moved: Sequence[str] = ()
) -> Response:
    """Return a page that says what went wrong, in the visitor's language and with their way on.

    Args:
        request: that failed.
        status: of the page.
        own: in words of the console, which are translated.
        said: else in words of what failed.
        hint: what to do.
        moved: ids of the memories that stand in the way.
    """
    given = {"own": own, "said": said, "hint": hint, "moved": list(moved), "code": int(status)}
    answer = page(request, "error.html", await seen(request), status=status, **given)
    answer.headers["HX-Push-Url"] = "false"  # the page that was left stays the one that is loaded again
    return answer
