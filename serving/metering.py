"""Who calls, found once for every request that carries a key, and whether they have called too often."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from kb.telemetry import Metric, count
from serving.failures import Turned
from serving.principal import known

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kb.keys import Principal
    from serving.limits import Buckets
    from serving.service import Service

CONSOLE = "/console"  # pages that browsers load by the dozen, for whoever has logged in
LOGIN = f"{CONSOLE}/login"
UNMETERED = frozenset({"/healthz", "/readyz", "/metrics"})


class Metered:
    """Finds whom a key stands for, and keeps each key, and each address that shows none, to its rate.

    Known keys have buckets of their own, so that nobody who merely names a key can use up its calls.
    """

    def __init__(self, app: ASGIApp, *, buckets: Buckets, is_open: bool) -> None:
        self._app = app
        self._buckets = buckets
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and not self._is_open and scope["path"] not in UNMETERED:
            caller = await _caller(scope)
            scope["state"]["principal"] = caller
            if caller is not None:
                await self._take(scope, f"key:{caller.key_id}")
            elif not scope["path"].startswith(CONSOLE) or (scope["path"] == LOGIN and scope["method"] == "POST"):
                await self._take(scope, f"address:{_address(scope)}")
        await self._app(scope, receive, send)

    async def _take(self, scope: Scope, name: str) -> None:
        allowance = await self._buckets.take(name)
        scope["state"]["rate_headers"] = allowance.headers()
        if not allowance.is_given:
            count(Metric.RATE_LIMITED)
            raise Turned(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many requests",
                kind="TooManyRequests",
                hint="wait, or raise rate_per_minute under [serve] in kb.toml",
                retry_after=allowance.wait,
            )


async def _caller(scope: Scope) -> Principal | None:
    scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given.strip():
        return None
    service: Service = scope["app"].state.service
    return await service.threads.call(known, service.memories, given.strip())


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
