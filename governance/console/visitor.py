"""Who looks at the console, and what they may do; asked of every page."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Form, Request

from governance.actor import Actor, Role
from governance.console.sessions import Session
from kb.errors import DependencyError, Refused
from kb.keys import Holder, KeyScope, Principal, is_live, principal_of

if TYPE_CHECKING:
    from governance.console.parts import Parts
    from governance.console.sessions import Signer
    from kb.memories import Memories

COOKIE = "kb_session"
LANGUAGE = "kb_language"
LANGUAGES = ("en", "zh")
LOCAL = "local"
NOBODY = Session(key_id="", since=0, logouts=0, nonce="open")  # the one session of a console without logins


class LoginNeeded(Exception):  # noqa: N818 - no error: the way to the login page
    """Nobody is logged in."""


class NotAllowed(Refused):
    """The key may not do this, or the form was not this session's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who looks.

    Args:
        principal: whom the key stands for.
        token: that this session's forms carry.
        language: en or zh.
    """

    principal: Principal
    token: str
    language: str

    @property
    def tenant(self) -> str:
        """Whose memories are shown."""
        return self.principal.tenant

    @property
    def may_decide(self) -> bool:
        """Whether they may change anything: a person whose key may govern."""
        return self.principal.may(KeyScope.GOVERN) and self.principal.holder is Holder.PERSON

    @property
    def actor(self) -> Actor:
        """Who stands in the journal."""
        role = Role.AGENT if self.principal.holder is Holder.AGENT else Role.PERSON
        return Actor(name=self.principal.name, role=role)


def parts_of(request: Request) -> Parts:
    """Return the parts of the server."""
    found: Parts = request.app.state.parts()
    return found


def language_of(request: Request) -> str:
    """Return the language asked for: by choice, else by the browser's; English where it has neither."""
    chosen = request.cookies.get(LANGUAGE, "")
    if chosen in LANGUAGES:
        return chosen
    first = request.headers.get("accept-language", "").split(",")[0].strip().lower()
    return "zh" if first.startswith("zh") else "en"


async def visitor(request: Request) -> Visitor:
    """Return who looks.

    Raises:
        LoginNeeded: nobody is logged in.
        NotAllowed: the key may not even read.
    """
    parts, signer = parts_of(request), signer_in(request)
    if parts.is_open:
        principal = Principal(
            key_id="", name=LOCAL, tenant=parts.settings.tenant, scopes=frozenset(KeyScope), holder=Holder.PERSON
        )
        return Visitor(principal=principal, token=signer.token(NOBODY), language=language_of(request))
    session = signer.session(request.cookies.get(COOKIE, ""), parts.clock.now())
    if session is None:
        raise LoginNeeded
    found = await parts.threads.call(_principal, parts.memories, session)
    if found is None:
        raise LoginNeeded
    return Visitor(principal=welcome(found), token=signer.token(session), language=language_of(request))


def welcome(principal: Principal) -> Principal:
    """Return whom a key stands for, who must be somebody that may read here.

    Raises:
        NotAllowed: the key may neither query nor govern.
    """
    if not principal.may(KeyScope.QUERY) and not principal.may(KeyScope.GOVERN):
        raise NotAllowed(f"the key {principal.name!r} may neither query nor govern")
    return principal


async def seen(request: Request) -> Visitor | None:
    """Return who looks, None for nobody: for pages that are shown to anybody, as those that say what went wrong."""
    try:
        return await visitor(request)
    except (LoginNeeded, NotAllowed, DependencyError):
        return None


def from_here(request: Request) -> None:
    """Let only forms of this site pass.

    Raises:
        NotAllowed: the browser says that another site sent it.
    """
    is_foreign = request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
    origin = request.headers.get("origin")
    if is_foreign or (origin is not None and _host_of(origin) != request.headers.get("host", "")):
        raise NotAllowed("the form was sent from another site")


def _host_of(origin: str) -> str:
    """Return host and port of an origin; its scheme is left out, since a proxy may end TLS."""
    return origin.partition("://")[2]


def signer_in(request: Request) -> Signer:
    """Return who signs this console's sessions."""
    found: Signer = request.app.state.signer
    return found


async def sender(
    request: Request, who: Annotated[Visitor, Depends(visitor)], csrf: Annotated[str, Form(max_length=128)] = ""
) -> Visitor:
    """Return who sent a form: it is this session's, and came from this site.

    Raises:
        NotAllowed: one of these does not hold.
    """
    from_here(request)
    if not hmac.compare_digest(csrf.encode("utf-8", "replace"), who.token.encode()):
        raise NotAllowed("the form is not of this session", hint="load the page again and repeat it")
    return who


async def decider(who: Annotated[Visitor, Depends(sender)]) -> Visitor:
    """Return who decides: a person whose key may govern.

    Raises:
        NotAllowed: it may not.
    """
    if not who.may_decide:
        raise NotAllowed(f"the key {who.principal.name!r} may look, not decide: it lacks the scope govern")
    return who


def _principal(memories: Memories, session: Session) -> Principal | None:
    with memories.ledger.read() as tx:
        key = tx.keys.get(session.key_id)
    if key is None or key.logouts != session.logouts or not is_live(key, memories.clock.now()):
        return None
    return principal_of(key)


Looks = Annotated[Visitor, Depends(visitor)]
Sends = Annotated[Visitor, Depends(sender)]
Decides = Annotated[Visitor, Depends(decider)]
