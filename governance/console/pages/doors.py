"""In and out: login by key, logout, and the choice of language."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from governance.console.showing import page
from governance.console.visitor import COOKIE, LANGUAGE, LANGUAGES, Looks, NotAllowed, parts_of, signer_in
from kb.keys import KeyScope

if TYPE_CHECKING:
    from kb.keys import Principal

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
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("the form was sent from another site")
    parts = parts_of(request)
    found: Principal | None = await parts.threads.call(request.app.state.known, parts.memories, key.strip())
    if found is None:
        return page(request, "login.html", None, is_wrong=True, status=HTTPStatus.UNAUTHORIZED)
    if not (found.may(KeyScope.QUERY) or found.may(KeyScope.GOVERN)):
        raise NotAllowed(f"the key {found.name!r} may neither query nor govern")
    _, cookie = signer_in(request).begun(found.key_id, parts.clock.now())
    answer = _home(request)
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=round(parts.settings.serve.session_hours * 3_600),
        path=request.scope.get("root_path", "") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/logout")
async def logout(request: Request, who: Looks) -> Response:
    """Forget who is here."""
    del who
    answer = RedirectResponse(f"{request.scope.get('root_path', '')}/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(COOKIE, path=request.scope.get("root_path", "") or "/")
    return answer


@router.get("/language/{language}")
async def language(request: Request, language: str, back: str = "/") -> Response:
    """Choose a language and go back to a page of this console."""
    home = request.scope.get("root_path", "")
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\"))
    answer = RedirectResponse(f"{home}{back if is_ours else '/'}", HTTPStatus.SEE_OTHER)
    if language in LANGUAGES:
        answer.set_cookie(LANGUAGE, language, max_age=YEAR_S, path=home or "/", httponly=True, samesite="lax")
    return answer


def _home(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/", HTTPStatus.SEE_OTHER)
