"""Whether a daemon lives, for whoever watches it: a file that it touches, and pages on a loopback port."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from kb.clock import iso
from kb.errors import ConfigError
from kb.log import get_logger
from kb.telemetry import prometheus_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kb.model import Instant, Json

STOPPED = "stopped"  # state of a daemon that has ended
EVERY = "every"  # key in a heartbeat's report: milliseconds to the next, which another daemon's settings do not say
LOOPBACK = "127.0.0.1"
MISSED = 3  # heartbeats that may be missed before a daemon counts as dead
REQUEST_SECONDS = 5.0
METRICS = "/metrics"  # every other path shows the daemon's health


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """How a daemon was at its last heartbeat.

    Args:
        id: the daemon's.
        state: what it does.
        is_leader: whether it schedules.
        at: when; 0: its heart has not beaten yet.
        every: milliseconds between two heartbeats.
        problem: why the ledger did not take the heartbeat; "" when it did.
        running: the jobs that run.
    """

    id: str
    state: str
    is_leader: bool = False
    at: Instant = 0
    every: int = 10_000
    problem: str = ""
    running: tuple[str, ...] = field(default=())

    def is_alive(self, now: Instant) -> bool:
        """Return whether the heart beats: recently, in the ledger too. One that was told to end, and did, does not."""
        return self.state != STOPPED and not self.problem and self.at > 0 and is_recent(self.at, now, self.every)

    def as_json(self, now: Instant) -> dict[str, Json]:
        """Return it under the stable keys of docs/reference/json.md."""
        return {
            "ok": self.is_alive(now),
            "id": self.id,
            "state": self.state,
            "is_leader": self.is_leader,
            "running": list(self.running),
            "heartbeat_at": iso(self.at or None),
            "problem": self.problem,
        }


def is_recent(at: Instant, now: Instant, every: int) -> bool:
    """Return whether a heartbeat is no older than a few beats; one of the future is of a clock that was set back."""
    return abs(now - at) <= MISSED * every


def touch(path: str | None, said: Mapping[str, Json]) -> None:
    """Write a file whole or not at all, so that its age and its content tell of the same heartbeat."""
    if path is None:
        return
    whole = Path(path)
    scratch = whole.with_name(f".{whole.name}.{os.getpid()}")
    try:
        whole.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps(said), encoding="utf-8")
        scratch.replace(whole)
    except OSError as error:
        get_logger().warning("health_file_not_written", path=path, problem=str(error))
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


@contextmanager
def health_page(port: int | None, look: Callable[[], tuple[bool, Mapping[str, Json]]]) -> Iterator[int | None]:
    """Serve how the daemon is, on the loopback interface: 200, or 503 when it is not well; and its metrics.

    Gives the port.

    Args:
        port: 0 for any free one; None: no page.
        look: returns whether it is well, and what to show.

    Raises:
        ConfigError: the port is taken.
    """
    if port is None:
        yield None
        return
    handler = type("Health", (_Health,), {"look": staticmethod(look)})
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), handler)
    except OSError as error:
        hint = "set another `jobs.health_port`, or 0 for any free one"
        raise ConfigError(f"jobs.health_port {port} cannot be used: {error.strerror}", hint=hint) from error
    thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="kb-health", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Health(BaseHTTPRequestHandler):
    look: Callable[[], tuple[bool, Mapping[str, Json]]]
    timeout = REQUEST_SECONDS
    server_version = "kb"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def _answer(self, *, has_body: bool) -> None:
        status, body, kind = self._metrics() if self.path == METRICS else self._health()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if has_body:
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

    def _health(self) -> tuple[HTTPStatus, bytes, str]:
        is_well, said = self.look()
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        return status, json.dumps(said).encode(), "application/json"

    def _metrics(self) -> tuple[HTTPStatus, bytes, str]:
        body, kind = prometheus_text()
        return HTTPStatus.OK, body, kind

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: a probe every few seconds is no news."""
