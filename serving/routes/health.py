"""/healthz, /readyz and /metrics: for machines that watch."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from kb.errors import IndexUnavailable, KbError
from kb.log import get_logger
from kb.telemetry import prometheus_text
from serving.description import READY
from serving.failures import Turned
from serving.principal import principal, service_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.memories import Memories
    from serving.service import Service, Traffic

router = APIRouter(tags=["health"])
PATIENCE_S = 2.0  # a probe that waits longer is taken for a failure anyway
FINE = "ok"


@router.get("/healthz", responses={200: {"content": {"application/json": {"example": {"status": "ok"}}}}})
async def healthz() -> JSONResponse:
    """Say that the process lives."""
    return JSONResponse({"status": FINE})


@router.get("/readyz", responses=READY)
async def readyz(request: Request) -> JSONResponse:
    """Say whether requests are worked on, and if not, why: 200 or 503."""
    traffic: Traffic = request.app.state.traffic
    checks = {"runtime": _stage(traffic)}
    if traffic.is_ready:
        service = service_of(request)
        looks = {"ledger": _ledger, "index": _index}
        under_way: dict[str, asyncio.Task[str]] = request.app.state.looks
        found = await asyncio.gather(*(_looked(service, name, look, under_way) for name, look in looks.items()))
        checks.update(zip(looks, found, strict=True))
    is_ready = all(said == FINE for said in checks.values())
    status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse({"ready": is_ready, "checks": checks}, status)


@router.get("/metrics", responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})
async def metrics(request: Request) -> Response:
    """Return all metrics as Prometheus reads them."""
    if request.app.state.settings.serve.metrics_key:
        if request.app.state.service is None:
            raise Turned(HTTPStatus.SERVICE_UNAVAILABLE, "the server is starting", kind="Starting", retry_after=1.0)
        await principal(request)
    text, kind = await asyncio.to_thread(prometheus_text)
    if not text:
        raise Turned(HTTPStatus.NOT_FOUND, "no metrics are collected", kind="NoMetrics")
    return Response(text, media_type=kind)


def _stage(traffic: Traffic) -> str:
    if traffic.is_draining:
        return "ending"
    return FINE if traffic.is_ready else "starting"


async def _looked(
    service: Service, name: str, look: Callable[[Memories], None], under_way: dict[str, asyncio.Task[str]]
) -> str:
    """Return how a part is. A look that takes too long goes on by itself, and no second one is begun beside it."""
    task = under_way.get(name)
    if task is None or task.done():
        task = under_way[name] = asyncio.create_task(_seen(service, name, look))
    await asyncio.wait({task}, timeout=PATIENCE_S)
    return task.result() if task.done() else f"no reply within {PATIENCE_S:g} s"


async def _seen(service: Service, name: str, look: Callable[[Memories], None]) -> str:
    """Return ok, or the kind of what failed: the page is for anybody, the rest is for the log."""
    try:
        await service.threads.call(look, service.memories)
    except KbError as error:
        get_logger().warning("not_ready", part=name, problem=str(error))
        return type(error).__name__
    return FINE


def _ledger(memories: Memories) -> None:
    with memories.ledger.read() as tx:
        tx.keys.is_empty()


def _index(memories: Memories) -> None:
    """Ask the server of the index for the collection that is searched."""
    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    if current is not None and not memories.generations.server.has(current.name):
        raise IndexUnavailable(f"the index has lost {current.name}", hint="`kb reconcile` brings it back")
