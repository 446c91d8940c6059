"""How `kb serve` ends: what runs ends or can be resumed, nothing new is begun, a second signal is obeyed at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from kb.ledger import open_ledger
from tests.served import OPENS, events_of
from tests.shell import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS = 60
AT_ONCE = 64  # as many as are worked on at a time


@dataclass
class Slow:
    """The server, and what was asked of it."""

    folder: Path
    process: subprocess.Popen[str]
    url: str
    headers: dict[str, str]
    streamed: list[str] = field(default_factory=list)

    def ask(self) -> threading.Thread:
        """Ask with a stream that is read in a thread; return once the server is at its answer."""
        asking = threading.Thread(target=self._read, daemon=True)
        asking.start()
        self.until(lambda: self.asked() == 1)
        return asking

    def asked(self) -> int:
        """Return how many questions have come as far as their answers."""
        told = self.folder / "asked"
        return int(told.read_text() or 0) if told.exists() else 0

    def _read(self) -> None:
        body = {"question": OPENS, "stream": True, "thread": "t"}
        asked = {"json": body, "headers": self.headers, "timeout": SECONDS}
        with (
            contextlib.suppress(httpx.HTTPError),  # the server may end in the middle
            httpx.stream("POST", f"{self.url}/v1/ask", **asked) as reply,
        ):
            self.streamed.append(reply.read().decode())

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers=self.headers, timeout=SECONDS)

    def until(self, claim: Any) -> None:
        deadline = time.monotonic() + SECONDS
        while not claim():
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)


@contextmanager
def slow_server(folder: Path, drain_seconds: float) -> Iterator[Slow]:
    command = [sys.executable, str(ROOT / "tests/e2e/slow_server.py"), str(folder), str(drain_seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log = folder / "log"
    with (
        log.open("w") as told,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=told, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            ready = json.loads(line)
            yield Slow(folder, process, ready["url"], {"Authorization": f"Bearer {ready['key']}"})
        finally:
            process.kill()


def test_a_stream_that_runs_ends_as_it_would_have_and_nothing_new_begins(tmp_path):
    with slow_server(tmp_path, 30) as server:
        asking = server.ask()
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503)
        refused = server.post("/v1/ask", {"question": OPENS})
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:kb:Draining")
        assert int(refused.headers["Retry-After"]) >= 1
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        (tmp_path / "go").touch()
        asking.join(SECONDS)
        assert [name for name, _ in events_of(server.streamed[0])][-1] == "answer"
        assert server.process.wait(SECONDS) == 0


def test_what_does_not_end_in_time_is_told_how_to_go_on_and_can_be_resumed(tmp_path):
    with slow_server(tmp_path, 1) as server:
        asking = server.ask()
        server.process.send_signal(signal.SIGTERM)
        asking.join(SECONDS)
        name, data = events_of(server.streamed[0])[-1]
        said = json.loads(data)
        assert (name, said["type"], said["status"]) == ("error", "urn:kb:Draining", 503)
        assert "thread t" in said["hint"]
        assert server.process.wait(SECONDS) == 0
    (tmp_path / "go").touch()
    with slow_server(tmp_path, 1) as again:
        resumed = again.post("/v1/ask/resume", {"thread": "t"})
        assert (resumed.status_code, resumed.json()["outcome"]) == (200, "answered"), resumed.text
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(SECONDS) == 0


def test_under_load_every_question_that_was_taken_is_answered_and_kept_and_no_other_is_begun(tmp_path):
    ended: list[httpx.Response | httpx.HTTPError] = []

    def ask_on(server: Slow) -> None:
        client = httpx.Client(base_url=server.url, headers=server.headers, timeout=SECONDS)
        with client:
            try:
                ended.append(client.post("/v1/ask", json={"question": OPENS}))
            except httpx.HTTPError as error:
                ended.append(error)

    def asking(server: Slow, number: int) -> list[threading.Thread]:
        callers = [threading.Thread(target=ask_on, args=(server,), daemon=True) for _ in range(number)]
        for caller in callers:
            caller.start()
        return callers

    with slow_server(tmp_path, 30) as server:
        first = server.ask()
        callers = asking(server, AT_ONCE)  # with the first one more than are worked on: one is turned away
        server.until(lambda: server.asked() == AT_ONCE)
        server.process.send_signal(signal.SIGTERM)
        late = asking(server, 8)
        (tmp_path / "go").touch()
        for caller in (first, *callers, *late):
            caller.join(SECONDS)
        assert server.process.wait(SECONDS) == 0
    answered = [r for r in ended if isinstance(r, httpx.Response) and r.status_code == 200]
    others = [r for r in ended if r not in answered]
    turned_away = [r for r in others if isinstance(r, httpx.ConnectError) or getattr(r, "status_code", 0) == 503]
    assert (len(ended), others) == (AT_ONCE + 8, turned_away)
    assert len(answered) >= AT_ONCE - 1
    with open_ledger(None, data_dir=tmp_path / "data") as ledger, ledger.read() as tx:
        kept = {a.id for a in tx.answers.page("default", limit=1_000)}
    assert {r.json()["answer_id"] for r in answered} <= kept
    assert len(kept) == len(answered) + 1
    assert events_of(server.streamed[0])[-1][0] == "answer"


def test_a_second_signal_ends_at_once(tmp_path):
    with slow_server(tmp_path, 600) as server:
        server.ask()
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(SECONDS) == 128 + signal.SIGINT
