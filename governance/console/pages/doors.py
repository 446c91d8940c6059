"""In and out: login by key, logout, and the choice of language."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from governance.console.pages.done import inside
from governance.console.showing import page
from governance.console.visitor import (
    COOKIE,
    LANGUAGE,
    LANGUAGES,
    Sends,
    from_here,
    parts_of,
    signer_in,
    welcome,
)

if TYPE_CHECKING:
    from kb.keys import Principal
    from kb.memories import Memories

router = APIRouter()
YEAR_S = 365 * 86_400


@router.get("/login")
async def asked(request: Request) -> Response:
    """Ask for a key."""
    if parts_of(request).is_open:
        return _home(request)
    return page(request, "login.html", None, is_wrong=False)


@router.post("/login")
async def login(request: Request, key: Annotated[str, Form(max_length=256)] = "") -> Response:
    """Let a key in."""
    from_here(request)
    parts = parts_of(request)
    found: Principal | None = await parts.threads.call(request.app.state.known, parts.memories, key.strip())
    if found is None:
        return page(request, "login.html", None, is_wrong=True, status=HTTPStatus.UNAUTHORIZED)
    logouts = await parts.threads.call(_logouts, parts.memories, welcome(found).key_id)
    _, cookie = signer_in(request).begun(found.key_id, parts.clock.now(), logouts=logouts)
    answer = _home(request)
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=round(parts.settings.serve.session_hours * 3_600),
        path=request.scope.get("root_path", "") or "/",
        secure=_is_secure(request),
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/logout")
async def logout(request: Request, who: Sends) -> Response:
    """Forget who is here, and end whatever else was logged in with the key: a copied cookie opens nothing any more."""
    parts = parts_of(request)
    if who.principal.key_id:
        await parts.threads.call(_log_out, parts.memories, who.principal.key_id)
    answer = RedirectResponse(f"{request.scope.get('root_path', '')}/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, path=request.scope.get("root_path", "") or "/")
    return answer


@router.get("/language/{language}")
async def language(request: Request, language: str, back: Annotated[str, Query(max_length=4_096)] = "/") -> Response:
    """Choose a language and go back to a page of this console."""
    home = request.scope.get("root_path", "")
    answer = RedirectResponse(f"{home}{inside(back)}", HTTPStatus.SEE_OTHER)
    if language in LANGUAGES:
        answer.set_cookie(
            LANGUAGE,
            language,
            max_age=YEAR_S,
            path=home or "/",
            secure=_is_secure(request),
            httponly=True,
            samesite="strict",
        )
    return answer


def _logouts(memories: Memories, key_id: str) -> int:
    with memories.ledger.read() as tx:
        key = tx.keys.get(key_id)
    return 0 if key is None else key.logouts


def _log_out(memories: Memories, key_id: str) -> None:
    with memories.ledger.write() as tx:
        tx.keys.log_out(key_id)


def _is_secure(request: Request) -> bool:
    """Return whether the browser came by TLS, here or at a proxy; who lies about it only locks themself out."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").lower())


def _home(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/", HTTPStatus.SEE_OTHER)
