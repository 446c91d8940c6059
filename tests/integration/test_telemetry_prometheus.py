"""A real Prometheus scrapes the process after a load of every kind, and every query of every dashboard finds data.

Milvus Lite has no page of metrics, and no Milvus server runs here: its panels are asked of a page in the form that the
server's own source gives it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from crag_runtime.result import AskRequest
from crag_runtime.wiring import build_runtime
from jobs.agenda import rules_of
from jobs.context import JobContext
from jobs.names import JobName
from jobs.registry import run
from jobs.slots import Slots
from kb import telemetry
from kb.ledger.slots import DaemonBeat
from kb.memories import Note, open_memories
from kb.settings import Settings
from kb.trust import DAY_MS
from kb.vitals import watching
from tests.chatting import Teller
from tests.dashboards import DASHBOARDS, MILVUS, RULES, program, queries
from tests.shell import Shell
from tests.stores import FakeClock, sync, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from tests.fakes.chat_server import ChatServer

QUESTION = "How many tons does the Anping bridge carry?"
PATIENCE_S = 60.0


class _Pages(BaseHTTPRequestHandler):
    """What is scraped: the process itself, and a page in Milvus's form."""

    def do_GET(self) -> None:
        body, kind = telemetry.prometheus_text() if self.path == "/metrics" else (_milvus(), "text/plain")
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


def _milvus() -> bytes:
    at = int(time.time())
    lines = []
    for name, labels in MILVUS.items():
        given = ",".join(f'{label}="{"+Inf" if label == "le" else label}"' for label in labels)
        lines.append(f"{name}{{{given}}} {at}")
        if "le" in labels:
            lines.append(f"{name}{{{given.replace('+Inf', '8')}}} {at}")
    return ("\n".join(lines) + "\n").encode()


@contextmanager
def pages() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def of_pages(target: str) -> dict[str, Any]:
    """Return what to scrape of `pages`."""
    jobs = [
        {"job_name": name, "metrics_path": path, "static_configs": [{"targets": [target]}]}
        for name, path in (("kb-serve", "/metrics"), ("milvus", "/milvus"))
    ]
    return {"rule_files": [str(RULES)], "scrape_configs": jobs}


def deployed(target: str) -> dict[str, Any]:
    """Return the configuration of deploy/, with the server that runs here in the place of its service."""
    config: dict[str, Any] = yaml.safe_load(
        RULES.with_name("prometheus.yml").read_text().replace("kb-serve:8080", target)
    )
    assert config["rule_files"] == [RULES.name]
    return {**config, "rule_files": [str(RULES)]}


@contextmanager
def prometheus(config: dict[str, Any], home: Path) -> Iterator[str]:
    """Run a real one on a port of its own, every second; give its address once it is ready."""
    found = program("prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (home / "prometheus.yml").write_text(json.dumps({**config, "global": often}))
    command = [
        found,
        f"--config.file={home / 'prometheus.yml'}",
        f"--storage.tsdb.path={home / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        base = f"http://127.0.0.1:{port}"
        _await_ready(base, process)
        yield base
    finally:
        process.terminate()
        process.wait(30)


def _await_ready(base: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it says that it answers: while it starts, it refuses connections, then says 503 in plain text."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "Prometheus ended while it started"
        try:
            if httpx.get(f"{base}/-/ready").status_code == HTTPStatus.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)  # it tells nobody when it is ready
    pytest.fail(f"Prometheus was not ready within {PATIENCE_S:.0f} s")


def answer_of(base: str, query: str) -> list[Any]:
    """Return what Prometheus finds now."""
    asked = {"query": query.replace("$__rate_interval", "1m")}
    answered = httpx.get(f"{base}/api/v1/query", params=asked).raise_for_status()
    found: list[Any] = answered.json()["data"]["result"]
    return found


def unanswered(base: str, wanted: set[str]) -> set[str]:
    """Return the queries that still find nothing, waiting for the scrapes that a rate needs."""
    deadline, left = time.monotonic() + PATIENCE_S, set(wanted)
    while left and time.monotonic() < deadline:
        left = {query for query in left if not answer_of(base, query)}
        if left:
            time.sleep(0.5)  # until the next scrape: nothing can be awaited there
    return left


def health_of(base: str) -> dict[str, str]:
    """Return how each rule is: "ok" once it was evaluated without an error."""
    groups = httpx.get(f"{base}/api/v1/rules").json()["data"]["groups"]
    return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}


def load(memories: Memories, settings: Settings, folder: Path) -> None:
    """Do a little of everything: ingest, ask with a model, sweep on schedule, beat."""
    clock = memories.clock
    assert isinstance(clock, FakeClock)
    for n in range(3):
        memories.add_note(Note(text=f"Note {n} of many, soon faded.", tenant="default"))
    clock.advance(100 * DAY_MS)
    write(folder, a_md="# A\n\nThe Anping bridge carries 40 tons on a dry day.\n")
    sync(memories, folder)

    async def story() -> None:
        async with build_runtime(settings, memories) as runtime:
            for _ in range(2):
                await runtime.ask(AskRequest(question=QUESTION, tenant="default", approve="never"))

    asyncio.run(story())

    @contextmanager
    def opened() -> Iterator[Memories]:
        yield memories

    def work(job: JobName, _stop: object) -> Any:
        return run(job, JobContext(settings=settings, open_memories=opened, clock=clock, allow_mass=True))

    ledger = memories.ledger
    slots = Slots(ledger, clock, rules=rules_of(settings.jobs), holder="test", work=work, is_stopped=lambda: False)
    assert slots.run_slot(JobName.PRUNE, clock.now()) is not None
    with ledger.write() as tx:
        now = clock.now()
        tx.slots.beat(
            DaemonBeat(
                id="d1", host="h", pid=os.getpid(), version="0", is_leader=True, state="leading",
                started_at=now, heartbeat_at=now,
            )
        )  # fmt: skip


@pytest.fixture
def memories(tmp_path: Path, model_cache: Path) -> Iterator[Memories]:
    settings = Settings(data_dir=tmp_path / "data", cache_dir=model_cache, index_idle_seconds=5)
    with open_memories(settings, FakeClock()) as store:
        yield store


def test_every_query_of_every_dashboard_finds_data(
    memories: Memories, chat_server: ChatServer, folder: Path, tmp_path: Path
) -> None:
    program("prometheus")
    chat_server.respond = Teller(grades={"tons": 0.9})
    settings = Settings(
        data_dir=tmp_path / "data",
        chat={"model": chat_server.model, "base_url": chat_server.url, "api_key": "sk-never-to-be-seen"},
        ask={"evaluator": "llm"},
    )
    telemetry.configure(None, prometheus=True)
    try:
        with watching(memories.ledger, settings, memories.clock), pages() as target:
            load(memories, settings, folder)
            with prometheus(of_pages(target), tmp_path) as base:
                wanted = {query for path in DASHBOARDS for query in queries(path)}
                assert unanswered(base, wanted) == set()
                assert set(health_of(base).values()) == {"ok"}
                (up,) = answer_of(base, "kb_ledger_up")
                (requests,) = answer_of(base, "crag_requests_total")
                assert (up["value"][1], requests["value"][1]) == ("1", "2")
    finally:
        telemetry.shutdown()


@contextmanager
def serving(home: Path, cache: Path) -> Iterator[str]:
    """Run `kb serve` of an empty store, for whoever comes; give its address."""
    shell = Shell(home, cache, {"KB_SERVE__MCP": "false", "KB_SERVE__CONSOLE": "false"})
    with shell.started("serve", "--port", "0", "--json", "--open") as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield str(json.loads(line)["url"])
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        finally:
            process.kill()


def test_a_running_server_is_scraped_by_what_is_deployed_and_every_rule_is_sound(
    tmp_path: Path, model_cache: Path
) -> None:
    program("prometheus")
    with serving(tmp_path, model_cache) as url, prometheus(deployed(url.removeprefix("http://")), tmp_path) as base:
        assert httpx.get(f"{url}/v1/models").status_code == HTTPStatus.OK
        assert httpx.get(f"{url}/v1/nothing").status_code == HTTPStatus.NOT_FOUND
        told = {
            'kb_http_requests_total{job="kb-serve",route="/v1/models",status="200"} >= 1',
            'kb_ledger_up{job="kb-serve"} == 1',
            'kb_outbox_pending{job="kb-serve"} == 0',
            'process_resident_memory_bytes{job="kb-serve"} > 0',
        }
        assert unanswered(base, told) == set()
        targets = httpx.get(f"{base}/api/v1/targets").json()["data"]["activeTargets"]
        assert {t["labels"]["job"]: t["health"] == "up" for t in targets} == {
            "kb-serve": True, "kb-pushed": False, "milvus": False,  # of these nothing runs here
        }  # fmt: skip
        (server,) = [t for t in targets if t["labels"]["job"] == "kb-serve"]
        assert (server["lastError"], server["scrapeUrl"]) == ("", f"{url}/metrics")
        assert set(health_of(base).values()) == {"ok"}
