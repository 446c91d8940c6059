"""`kb serve`: listens, opens what is behind the application, and ends without losing a question."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from kb.errors import ConfigError, InputError, Refused
from kb.ledger import open_configured
from kb.log import get_logger
from serving.app import create_app
from serving.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from fastapi import FastAPI

    from kb.ports import Clock
    from kb.settings import Settings
    from serving.app import Opening
    from serving.daemon import DaemonBeside

PATIENT = 0.75  # share of drain_seconds in which requests end by themselves; in the rest they are cut off, resumable
KEEP_ALIVE_S = 65  # longer than proxies keep an idle connection, so that it is they who close it
LAST_S = 1  # seconds in which a reply that was cut off gets through
ENDING = (signal.SIGTERM, signal.SIGINT)


def _ignore(_url: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to serve.

    Args:
        is_open: ask for no key; only on loopback.
        has_daemon: run the jobs, too.
        has_docs: let the interface's description be browsed at /docs.
        listening: told the URL once probes are answered.
        ready: told the URL once requests are.
        opening: opens the store and the runtime; None: as the settings say.
    """

    is_open: bool = False
    has_daemon: bool = False
    has_docs: bool = False
    listening: Callable[[str], None] = _ignore
    ready: Callable[[str], None] = _ignore
    opening: Opening | None = None


def serve(settings: Settings, clock: Clock, manner: Manner) -> None:
    """Serve until SIGTERM or SIGINT, let running requests end, close everything. A second signal ends at once.

    Raises:
        InputError: no key is to be asked for on an address that others reach.
        Refused: there is no key, so that nobody could call.
        ConfigError: the address cannot be listened on.
        KbError: something that is needed cannot be opened.
    """
    where = settings.serve
    if manner.is_open and not is_loopback(where.host):
        raise InputError(f"--open on {where.host} would let everybody in", hint="listen on 127.0.0.1, or use keys")
    if not manner.is_open:
        _check_keys(settings)
    with listening(where.host, where.port) as place:
        app = create_app(
            settings, clock=clock, is_open=manner.is_open, has_docs=manner.has_docs, opening=manner.opening
        )
        asyncio.run(_served(app, place, settings, clock, manner))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Give a socket bound to an address, closed after.

    Raises:
        ConfigError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, else the loop does not see that small writes must not wait for one another.
    place = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    with contextlib.closing(place):
        try:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind((host, port))
        except OSError as error:
            hint = "another --port, or 0 for any free one"
            raise ConfigError(f"{host}:{port} cannot be listened on: {error.strerror or error}", hint=hint) from error
        place.set_inheritable(False)
        yield place


def url_of(place: socket.socket) -> str:
    """Return where a socket is reached."""
    host, port = place.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _check_keys(settings: Settings) -> None:
    with open_configured(settings) as ledger, ledger.read() as tx:
        if tx.keys.is_empty():
            hint = "`kb key create NAME` makes one; on loopback, --open asks for none"
            raise Refused("there is no API key: nobody could call", hint=hint)


class Server(uvicorn.Server):
    """Leaves signals to us, and says when it listens."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=LAST_S,
            )
        )
        self.listens = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listens.set()


async def _served(app: FastAPI, place: socket.socket, settings: Settings, clock: Clock, manner: Manner) -> None:
    told = _heeding_signals()
    async with AsyncExitStack() as stack:
        beside: DaemonBeside | None = None
        if manner.has_daemon:
            from serving.daemon import DaemonBeside as Beside  # noqa: PLC0415 - import what is used

            beside = await stack.enter_async_context(Beside(settings, clock))
        server = Server(app)
        serving = asyncio.create_task(server.serve(sockets=[place]))
        await _first(server.listens.wait(), serving)
        manner.listening(url_of(place))
        ends = [told.wait(), serving, app.state.owner, *([beside.ended.wait()] if beside else [])]
        await _first(app.state.ready.wait(), *ends)
        if app.state.traffic.is_ready:
            get_logger().info("serving", url=url_of(place), pid=os.getpid())
            manner.ready(url_of(place))
            ends = [told.wait(), serving, app.state.owner, *([beside.ended.wait()] if beside else [])]
            await _first(*ends)
        if beside is not None:
            beside.stop()
        await _drained(app, settings.serve.drain_seconds)
        server.should_exit = True
        await serving
    await app.state.owner  # raises what could not be opened
    if beside is not None and beside.problem is not None:
        raise beside.problem


async def _first(*awaited: Awaitable[object]) -> None:
    """Wait until one of them is done; what was no task before is given up."""
    tasks = {asyncio.ensure_future(each): each for each in awaited}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, each in tasks.items():
        if task is not each:
            task.cancel()


def _heeding_signals() -> asyncio.Event:
    """Return what the first signal to end sets; the second ends the process at once."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    def heed(number: int) -> None:
        if told.is_set():
            os._exit(128 + number)
        told.set()

    for number in ENDING:
        loop.add_signal_handler(number, heed, number)
    return told


async def _drained(app: FastAPI, seconds: float) -> None:
    """Take no new request; let those that run end by themselves, then cut off their questions, which can be resumed."""
    app.state.traffic.is_draining = True
    running = app.state.running
    get_logger().info("draining", requests=len(running), seconds=seconds)
    if await running.idle(PATIENT * seconds):
        return
    service = app.state.service
    left = (1 - PATIENT) * seconds
    if service is not None:
        get_logger().warning("questions_cut_off", requests=len(running))
        await service.runtime.aclose(left)
    await running.idle(LAST_S)
