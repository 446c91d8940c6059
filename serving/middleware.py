"""What stands before every endpoint, outermost first: who, whence, whether now, how much, how often. Plain ASGI."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware

from kb import log
from kb.errors import KbError
from kb.telemetry import Attr, Metric, Span, continued, count, observe, span
from serving.failures import REQUEST_ID, BrokenOff, ClientGone, Turned, reply_to
from serving.limits import Running
from serving.metering import Metered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from kb.settings_serving import ServeSettings
    from serving.limits import Buckets
    from serving.service import Traffic

PROBES = frozenset({"/healthz", "/readyz", "/metrics"})  # asked by machines by address, at any time
UPLOADS = "/v1/ingest"
MCP = "/mcp"
EVENTS = b"text/event-stream"
STREAM_GRACE = 5.0  # seconds after its limit in which a stream says by itself that it has ended
STRANGERS = 8  # the part of all hands that callers without a key may hold, is one by this
DRAIN_RETRY = 5.0  # seconds: another process takes the place of one that drains
_ID = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}")
_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


def layered(app: FastAPI, serve: ServeSettings, traffic: Traffic, *, buckets: Buckets, is_open: bool) -> Running:
    """Put every layer before an app's endpoints; return what counts the requests that are worked on."""
    running = Running(serve.concurrency)
    strangers = Running(max(1, serve.concurrency // STRANGERS))
    app.add_middleware(Metered, buckets=buckets, is_open=is_open, strangers=strangers)
    app.add_middleware(Bounded, serve=serve)
    app.add_middleware(Admitted, traffic=traffic, running=running)
    if serve.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=serve.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
        )
    app.add_middleware(Hosted, allowed=serve.allowed_hosts)
    app.add_middleware(Known)
    return running


class Known:
    """Gives every request an id, a span, a line in the log, and the headers that protect whoever reads the reply.

    The one place where the unforeseen ends: the caller learns the request's id, the log what happened.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] == MCP:  # some clients lose what they sent when they are redirected to /mcp/
            scope = {**scope, "path": f"{MCP}/", "raw_path": f"{MCP}/".encode()}
        id_ = _request_id(Headers(scope=scope).get("x-request-id", ""))
        scope.setdefault("state", {})[REQUEST_ID] = id_
        sending = _Sending(send, id_, scope)
        with log.request(id_), continued(_trace_of(scope)), span(Span.HTTP, _asked(scope, id_)) as recording:
            began = time.perf_counter()
            try:
                await self._app(scope, receive, sending)
            except asyncio.CancelledError:
                sending.cut_off = "Draining"
                raise
            except Exception as error:  # noqa: BLE001 - see the class
                await _answered(error, scope, receive, sending)
            finally:
                took = time.perf_counter() - began
                route = _route_of(scope)
                recording.set({Attr.HTTP_STATUS: sending.status, Attr.HTTP_ROUTE: route})
                _told(scope, route, sending, took)


class Hosted:
    """Answers only requests for a host that is this server: a page elsewhere cannot have its name point here."""

    def __init__(self, app: ASGIApp, *, allowed: list[str]) -> None:
        self._app = app
        self._allowed = frozenset(host.lower() for host in allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"] not in PROBES and "*" not in self._allowed:
            host = re.sub(r":\d*$", "", Headers(scope=scope).get("host", "").lower())
            if host not in self._allowed:
                why = "this server does not answer to that host"
                hint = "whoever runs the server can add it to allowed_hosts"
                raise Turned(HTTPStatus.MISDIRECTED_REQUEST, why, kind="WrongHost", hint=hint)
        await self._app(scope, receive, send)


class Admitted:
    """Lets requests in while the server is ready, does not end, and has hands free. Probes always."""

    def __init__(self, app: ASGIApp, *, traffic: Traffic, running: Running) -> None:
        self._app = app
        self._traffic = traffic
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        away = HTTPStatus.SERVICE_UNAVAILABLE
        if self._traffic.is_draining:
            raise Turned(away, "the server is ending", kind="Draining", retry_after=DRAIN_RETRY)
        if not self._traffic.is_ready:
            raise Turned(away, "the server is starting", kind="Starting", retry_after=DRAIN_RETRY)
        if not self._running.enter():
            raise Turned(away, "too many requests are worked on", kind="Busy", retry_after=1.0)
        try:
            await self._app(scope, receive, send)
        finally:
            self._running.leave()


class Bounded:
    """Bounds what a request may send and how long it may take."""

    def __init__(self, app: ASGIApp, *, serve: ServeSettings) -> None:
        self._app = app
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["path"].startswith(UPLOADS)
        most = self._serve.max_upload_bytes if is_upload else self._serve.max_body_bytes
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > most:
            raise _too_large(most)
        seconds = self._serve.request_seconds
        until = asyncio.get_running_loop().time() + seconds
        scope["state"]["deadline"] = until
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._app(scope, _counted(receive, most), _prolonged(send, limit, until + STREAM_GRACE))
        except TimeoutError:
            if not limit.expired():
                raise
            why = f"the request took more than {seconds:g} s"
            raise Turned(HTTPStatus.GATEWAY_TIMEOUT, why, kind="TimedOut") from None


class _Sending:
    """Sends a response with the headers of every response, and remembers what was sent."""

    def __init__(self, send: Send, id_: str, scope: Scope) -> None:
        self._send = send
        self._id = id_
        self._scope = scope
        self.status = 0
        self.cut_off = ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self._id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            for name, value in self._scope["state"].get("rate_headers", {}).items():
                headers.setdefault(name, value)
        await self._send(message)


async def _answered(error: Exception, scope: Scope, receive: Receive, sending: _Sending) -> None:
    """Say how a request failed; where its response has begun that cannot be said, and the connection is broken off."""
    if isinstance(error, ClientGone):
        return
    if sending.status:
        sending.cut_off = getattr(error, "kind", type(error).__name__)
        if not isinstance(error, (KbError, Turned, OSError)):
            log.get_logger().error("response_broken_off", path=scope["path"], exc_info=error)
        raise BrokenOff("the response was broken off") from None
    await reply_to(scope, error)(scope, receive, sending)


def _counted(receive: Receive, most: int) -> Receive:
    """Refuse a body that grows beyond its bound, whatever its headers said."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large(most)
        return message

    return bounded


def _prolonged(send: Send, limit: asyncio.Timeout, until: float) -> Send:
    """Let a stream of events end by itself at its limit, since only it can still tell its reader why."""

    async def watched(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_stream(message):
            limit.reschedule(until)
        await send(message)

    return watched


def _is_stream(message: Message) -> bool:
    return any(k.lower() == b"content-type" and v.startswith(EVENTS) for k, v in message.get("headers", ()))


def _too_large(most: int) -> Turned:
    return Turned(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most:,} bytes", kind="TooLarge")


def _request_id(given: str) -> str:
    """Return the caller's id where it can stand in a log line, else a new one."""
    return given if _ID.fullmatch(given) else uuid.uuid4().hex


def _trace_of(scope: Scope) -> dict[str, str]:
    headers = Headers(scope=scope)
    return {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}


def _asked(scope: Scope, id_: str) -> dict[Attr, Any]:
    return {Attr.HTTP_METHOD: _method_of(scope), Attr.REQUEST_ID: id_}


def _method_of(scope: Scope) -> str:
    known = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
    return scope["method"] if scope["method"] in known else "_OTHER"  # so the conventions, for anybody may invent some


def _route_of(scope: Scope) -> str:
    """Return the template that a path matched, never the path: it is a label, of which there must be few."""
    return str(getattr(scope.get("route"), "path", "")) or "unmatched"


def _told(scope: Scope, route: str, sending: _Sending, seconds: float) -> None:
    method = _method_of(scope)
    count(Metric.HTTP_REQUESTS, method=method, route=route, status=str(sending.status))
    observe(Metric.HTTP_SECONDS, seconds, method=method, route=route)
    if scope["path"] in PROBES:
        return
    caller = scope["state"].get("principal")
    log.get_logger().info(
        "request_served",
        method=method,
        path=scope["path"],
        status=sending.status,
        ms=round(seconds * 1000, 1),
        key=getattr(caller, "key_id", None) or None,
        tenant=getattr(caller, "tenant", None),
        **({"cut_off": sending.cut_off} if sending.cut_off else {}),
    )
