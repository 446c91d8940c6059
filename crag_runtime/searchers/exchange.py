"""One request to a search service and its reply as JSON, or a typed fault; never repeated."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from crag_runtime.searchers.plain import plain_text
from kb.errors import Fault, SearchUnavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from crag_runtime.threads import Threads

REPLY_BYTES = 4_000_000
_FAULTS = {
    HTTPStatus.UNAUTHORIZED: Fault.UNAUTHORISED,
    HTTPStatus.FORBIDDEN: Fault.UNAUTHORISED,
    HTTPStatus.REQUEST_TIMEOUT: Fault.TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS: Fault.RATE_LIMITED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to ask a service: method, URL, and whichever of headers, query and JSON body it takes."""

    method: str
    url: str
    headers: Mapping[str, str]
    query: Mapping[str, str] | None = None
    body: Mapping[str, object] | None = None


class Exchange:
    """Asks one service, `who`. Every call ends within `seconds`.

    Connections live for one call: calls may come from any event loop, and searches are rare.
    """

    def __init__(self, who: str, *, seconds: float, threads: Threads) -> None:
        self.who = who
        self._seconds = seconds
        self._threads = threads
        self._tls: ssl.SSLContext | None = None

    async def reply(self, call: Call) -> object:
        """Return the JSON that the service answers with status 200.

        Raises:
            SearchUnavailable: with the fault.
        """
        if self._tls is None:  # reading the machine's certificates takes longer than a loop may stand still
            self._tls = await self._threads.call(httpx.create_ssl_context)
        try:
            async with asyncio.timeout(self._seconds):
                data = await self._exchanged(call, self._tls)
        except TimeoutError:
            raise self._error(Fault.TIMEOUT, f"did not answer within {self._seconds:g} s") from None
        return await self._threads.call(self._decoded, data)

    async def _exchanged(self, call: Call, tls: ssl.SSLContext) -> bytes:
        response: httpx.Response | None = None
        try:
            async with (
                httpx.AsyncClient(verify=tls, timeout=self._seconds) as client,
                client.stream(
                    call.method, call.url, headers=dict(call.headers), params=call.query, json=call.body
                ) as response,
            ):
                data = await self._read(response)
        except httpx.TimeoutException:
            raise self._error(Fault.TIMEOUT, f"did not answer within {self._seconds:g} s") from None
        except httpx.DecodingError as error:
            raise self._error(Fault.MALFORMED, "sent a reply that does not decode") from error
        except httpx.HTTPError as error:
            if response is None:
                raise self._error(Fault.UNREACHABLE, f"cannot be reached ({type(error).__name__})") from error
            raise self._error(Fault.CUT_OFF, "broke off in the middle of its reply") from error
        if response.status_code != HTTPStatus.OK:
            raise self._refusal(response, data)
        return data

    async def _read(self, response: httpx.Response) -> bytes:
        data = bytearray()
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > REPLY_BYTES:
                raise self._error(Fault.MALFORMED, f"sent more than {REPLY_BYTES:,} bytes")
        return bytes(data)

    def _decoded(self, data: bytes) -> object:
        try:
            decoded: object = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._error(Fault.MALFORMED, "sent a reply that is not JSON") from error
        return decoded

    def _refusal(self, response: httpx.Response, data: bytes) -> SearchUnavailable:
        status = response.status_code
        fault = fault_of(status)
        said = "" if fault is Fault.UNAUTHORISED else told(data)  # who refuses a key may quote it
        return SearchUnavailable(
            f"{self.who} answered with status {status}" + (f": {said}" if said else ""),
            fault=fault,
            retry_after=retry_after(response.headers),
        )

    def _error(self, fault: Fault, what: str) -> SearchUnavailable:
        return SearchUnavailable(f"{self.who} {what}", fault=fault)


def fault_of(status: int) -> Fault:
    """Return what a status other than 200 means."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Fault.SERVER
    return _FAULTS.get(HTTPStatus(status), Fault.REJECTED) if status in set(HTTPStatus) else Fault.REJECTED


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the service asks to wait; None when it does not say. A date counts from its own clock."""
    value = headers.get("Retry-After", "")
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))
        return max(0.0, wait.total_seconds())
    return None


def told(data: bytes) -> str:
    """Return the words in which a service explains an error, shortened; "" when it gives none as JSON."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    for name in ("detail", "error", "message"):
        if isinstance(said, dict) and name in said:
            said = said[name]
    return " ".join(plain_text(said).split())[:120] if isinstance(said, str) else ""
