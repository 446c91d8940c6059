"""Who a request comes from: its API key, looked up in the ledger; and what an endpoint asks of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from starlette.datastructures import Headers

from governance.actor import Actor, Role
from kb.errors import LedgerUnavailable
from kb.keys import Holder, KeyScope, Principal, opens, parts_of, principal_of
from serving.problems import Forbidden, Unauthorised

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Scope

    from kb.memories import Memories
    from serving.service import Service

EVERYTHING = frozenset(KeyScope)
LOCAL = "local"  # whoever calls a server that asks for no key


def service_of(request: Request) -> Service:
    """Return the parts of the server that a request came to."""
    found: Service = request.app.state.service
    return found


def known(memories: Memories, text: str) -> Principal | None:
    """Return whom a key's text stands for; None when it opens nothing. Reads the ledger, so revoking works at once."""
    parts = parts_of(text)
    if parts is None:
        return None
    key_id, secret = parts
    now = memories.clock.now()
    with memories.ledger.read() as tx:
        key = tx.keys.get(key_id)
    if key is None or not opens(key, secret, now):
        return None
    if key.used_at is None or now - key.used_at >= 60_000:  # noqa: PLR2004 - a minute
        # Who calls is not kept waiting for a writer, nor refused, so that it may be told when they called.
        with suppress(LedgerUnavailable), memories.ledger.write(is_waiting=False) as tx:
            tx.keys.used(key_id, now)
    return principal_of(key)


def authorization_in(scope: Scope) -> str:
    """Return what the one Authorization header says; where there are several, nobody can tell whose request it is.

    Raises:
        Unauthorised: there are several: what stands before could have believed another than what is behind it.
    """
    found = Headers(scope=scope).getlist("authorization")
    if len(found) > 1:
        raise Unauthorised("this needs one key, not several", hint="send one Authorization header")
    return found[0] if found else ""


async def principal(request: Request) -> Principal:
    """Return who calls.

    Raises:
        Unauthorised: there is no key, or it opens nothing.
    """
    kept: Principal | None = getattr(request.state, "principal", None)
    if kept is None:  # else found before, where its rate was looked at
        kept = await caller_of(service_of(request), authorization_in(request.scope))
        request.state.principal = kept
    return kept


async def caller_of(service: Service, authorization: str) -> Principal:
    """Return whom an Authorization header stands for.

    Raises:
        Unauthorised: it holds no key, or one that opens nothing.
    """
    if service.is_open:
        return Principal(key_id="", name=LOCAL, tenant=service.settings.tenant, scopes=EVERYTHING, holder=Holder.PERSON)
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        raise Unauthorised("this needs a key", hint="Authorization: Bearer kb_…; whoever runs the server makes keys")
    found = await service.threads.call(known, service.memories, given.strip())
    if found is None:
        raise Unauthorised("the key is unknown, revoked or expired")
    return found


def needs(scope: KeyScope) -> Callable[[Principal], Awaitable[Principal]]:
    """Return a dependency that lets only keys of a scope in."""

    async def allowed(caller: Annotated[Principal, Depends(principal)]) -> Principal:
        if not caller.may(scope):
            raise Forbidden(f"the key {caller.name!r} lacks the scope {scope.value}")
        return caller

    return allowed


Asker = Annotated[Principal, Depends(needs(KeyScope.QUERY))]
Writer = Annotated[Principal, Depends(needs(KeyScope.WRITE))]
Governor = Annotated[Principal, Depends(needs(KeyScope.GOVERN))]


def refuse_spending(caller: Principal) -> None:
    """Refuse an agent the word that lets a paid search go out: it is a person's.

    Raises:
        Forbidden: an agent's key would give it.
    """
    if caller.holder is Holder.AGENT:
        why = "an agent's key may not approve a search for a person"
        raise Forbidden(why, hint='leave `approve` out, or say "ask" and let a person\'s key decide')


def actor_of(caller: Principal) -> Actor:
    """Return who stands in the journal: an agent's key acts as an agent, and vouches for nothing."""
    return Actor(name=caller.name, role=Role.AGENT if caller.holder is Holder.AGENT else Role.PERSON)
