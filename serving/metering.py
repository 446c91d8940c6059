"""Who calls, found once for every request that carries a key, and whether they have called too often."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from kb.telemetry import Metric, count
from serving.failures import Turned
from serving.principal import authorization_in, caller_of
from serving.problems import Unauthorised

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kb.keys import Principal
    from serving.limits import Buckets, Running
    from serving.service import Service

CONSOLE = "/console"  # pages that browsers load by the dozen, for whoever has logged in
LOGIN = f"{CONSOLE}/login"
KEYED = "/v1/"  # below it nothing answers without a key
READING = frozenset({"GET", "HEAD", "OPTIONS"})
UNMETERED = frozenset({"/healthz", "/readyz", "/metrics"})


class Metered:
    """Finds whom a key stands for, and keeps each key, and each address that shows none, to its rate.

    Known keys have buckets of their own, so that nobody who merely names a key can use up its calls. Where all need a
    key, who shows none is refused before a byte of their body is waited for: slow bodies would hold every hand.
    """

    def __init__(self, app: ASGIApp, *, buckets: Buckets, is_open: bool, strangers: Running) -> None:
        self._app = app
        self._buckets = buckets
        self._is_open = is_open
        self._strangers = strangers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and not self._is_open and scope["path"] not in UNMETERED:
            await self._admit(scope)
            if scope["state"].get("principal") is None and scope["method"] not in READING:
                await self._serve_stranger(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _serve_stranger(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve who sends a body and shows no key, a login among them: few at a time, lest they hold every hand."""
        if not self._strangers.enter():
            away = HTTPStatus.SERVICE_UNAVAILABLE
            raise Turned(away, "too many requests without a key are worked on", kind="Busy", retry_after=1.0)
        try:
            await self._app(scope, receive, send)
        finally:
            self._strangers.leave()

    async def _admit(self, scope: Scope) -> None:
        path: str = scope["path"]
        try:
            scope["state"]["principal"] = caller = await _caller(scope)
        except Unauthorised:
            if not path.startswith(CONSOLE) or (path == LOGIN and scope["method"] == "POST"):
                await self._take(scope, f"address:{_address(scope)}")
            if path.startswith(KEYED):
                raise
        else:
            await self._take(scope, f"key:{caller.key_id}")

    async def _take(self, scope: Scope, name: str) -> None:
        allowance = await self._buckets.take(name)
        scope["state"]["rate_headers"] = allowance.headers()
        if not allowance.is_given:
            count(Metric.RATE_LIMITED)
            raise Turned(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests",
                kind="TooManyRequests",
                hint="wait for as many seconds as Retry-After says",
                retry_after=allowance.wait,
            )


async def _caller(scope: Scope) -> Principal:
    service: Service = scope["app"].state.service
    return await caller_of(service, authorization_in(scope))


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
