"""Streams of events: a question's as server-sent events, kept alive, ended with whoever reads it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse

from serving.failures import ClientGone

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from starlette.types import Receive, Scope, Send

    from kb.model import Json

T = TypeVar("T")

KEEP_ALIVE_S = 15.0  # a proxy that hears nothing for longer may hang up
KEEP_ALIVE = b": keep-alive\n\n"


class EventStream(StreamingResponse):
    """A response whose events reach the reader as they are made; who reads slowly slows down nobody but themselves."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, or their reader hangs up.

        The framework's own way cancels over and over, so that nothing that is closed then can wait for anything.

        Raises:
            ClientGone: the reader hung up.
        """
        await unless_gone(Request(scope, receive), self.stream_response(send))


def event_bytes(name: str, data: Mapping[str, Json]) -> bytes:
    """Return a named event; empty for a plain one."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n".encode()


async def timed(
    events: AsyncGenerator[T], deadline: float, *, silence: float = KEEP_ALIVE_S
) -> AsyncGenerator[T | None]:
    """Yield events, and None whenever none came for `silence` seconds; close them with whoever reads this.

    Args:
        events: closed in the end.
        deadline: when to end, by the loop's clock.
        silence: seconds.

    Raises:
        TimeoutError: the deadline has passed.
    """
    loop = asyncio.get_running_loop()
    async with contextlib.aclosing(events):
        coming: asyncio.Task[T] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events))
                left = deadline - loop.time()
                if left <= 0:
                    raise TimeoutError
                await asyncio.wait({coming}, timeout=min(silence, left))
                if not coming.done():
                    if loop.time() < deadline:
                        yield None
                    continue
                ended, coming = coming, None
                try:
                    event = ended.result()
                except StopAsyncIteration:
                    return
                yield event
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
                if not coming.cancelled():
                    coming.exception()  # seen: nobody reads on


async def told_to_the_end(parts: AsyncGenerator[bytes], failed: Callable[[Exception], bytes]) -> AsyncGenerator[bytes]:
    """Yield a stream's parts; what goes wrong on the way is the last of them, for its status has been sent.

    Args:
        parts: closed in the end.
        failed: tells an error.
    """
    try:
        async with contextlib.aclosing(parts):
            async for part in parts:
                yield part
    except Exception as error:  # noqa: BLE001 - this is where the unforeseen ends
        yield failed(error)


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Return what work comes to; cancel it when the client hangs up, for nobody would read it.

    Raises:
        ClientGone: the client hung up.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.wait({task, gone})
        for each in (task, gone):
            if not each.cancelled():
                each.exception()  # seen


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
