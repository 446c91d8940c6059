"""A client's connection: HTTP/1.1 as uvicorn speaks it, but nobody is waited for without end, nor is that an error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from serving.failures import BrokenOff

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HEAD_S = 20.0  # in which the head of a request must be there, from its first byte or from when the client came
READ_S = 75.0  # in which the end of a reply must have been taken; longer than an idle connection is kept


class Connection(H11Protocol):
    """Gives up clients that send no request, or do not take their reply: each would hold memory and a file for ever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - of uvicorn's own
        super().__init__(*arguments, **options)
        self.app: ASGIApp = self._until_broken_off(self.app)
        self._patience: asyncio.TimerHandle | None = None
        self._is_hearing = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for the head of the first request."""
        super().connection_made(transport)
        self._wait(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        super().connection_lost(exc)
        self._calm()

    def data_received(self, data: bytes) -> None:
        """Take what came; what is no whole head yet must soon be one."""
        super().data_received(data)
        if self._is_at_work():
            self._is_hearing = False
            self._calm()
        elif not self._is_hearing and not self.transport.is_closing():
            self._is_hearing = True
            self._wait(HEAD_S)

    def on_response_complete(self) -> None:
        """Give the client time to take what was written."""
        super().on_response_complete()
        if not self._is_at_work():  # else its next request was there already
            self._is_hearing = False
            self._wait(READ_S)

    def _is_at_work(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete  # there is none before the first request

    def _wait(self, seconds: float) -> None:
        self._calm()
        self._patience = self.loop.call_later(seconds, self._give_up)

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        if not self._is_at_work():
            self.transport.abort()

    def _until_broken_off(self, app: ASGIApp) -> ASGIApp:
        """Return the application; where it breaks a reply off, or is stopped in it, the connection ends with it.

        It does so at once: what a client does not take would else be kept for it.
        """

        async def ended(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await app(scope, receive, send)
            except (BrokenOff, asyncio.CancelledError):  # stopped: the server ends, and has waited for long enough
                self.cycle.disconnected = True
                self.transport.abort()

        return ended

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: whoever asks for another protocol is answered in this one, as the standard has it."""
