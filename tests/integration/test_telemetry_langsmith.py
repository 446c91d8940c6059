"""LangSmith sees the graph where its own variables ask for it, and nothing is sent where they do not."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys
from pathlib import Path

def loopback_only(event, args):
    if event == "socket.connect" and isinstance(args[1], tuple) and not str(args[1][0]).startswith(("127.", "::1")):
        raise AssertionError(f"a connection to {args[1]}")

sys.addaudithook(loopback_only)
from kb.memories import Note
from tests.asking import ask, open_runtime
from tests.stores import open_store

async def story(memories, home):
    async with open_runtime(memories, home) as runtime:
        print((await ask(runtime, "How many tons does the bridge carry?")).outcome.value)

home = Path(sys.argv[1])
with open_store(home / "data") as memories:
    memories.add_note(Note(text="The bridge carries 40 tons.", tenant="default"))
    asyncio.run(story(memories, home))
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
"""


INFO = {
    "version": "0.10.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": False,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 16,
        "scale_down_nempty_trigger": 4,
        "size_limit": 100,
        "size_limit_bytes": 20_971_520,
    },
}


class LangSmith:
    """Takes in runs at loopback, as the service would."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def names(self) -> set[str]:
        """Return the names of the runs that came."""
        return {run["name"] for body in self.bodies for run in json.loads(body).get("post", []) if "name" in run}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: LangSmith

    def log_message(self, *_: object) -> None:
        """Nothing to say."""

    def do_GET(self) -> None:
        self.owner.paths.append(self.path)
        self._answer(json.dumps(INFO).encode())

    def do_POST(self) -> None:
        self.owner.paths.append(self.path)
        self.owner.bodies.append(self._plain(self.rfile.read(int(self.headers["content-length"]))))
        self._answer(b"{}")

    def _plain(self, body: bytes) -> bytes:
        kind = self.headers.get("content-encoding")
        if kind == "zstd":
            import zstandard

            return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(body))
        return gzip.decompress(body) if kind == "gzip" else body

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def smith() -> Iterator[LangSmith]:
    with LangSmith() as server:
        yield server


def asked(home: Path, **variables: Any) -> str:
    """Ask one question in a process with these variables of LangSmith's; return the outcome."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LANGSMITH", "LANGCHAIN", "KB_", "OTEL"))}
    command = [sys.executable, "-c", PROGRAM, str(home)]
    environment = {**kept, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_its_own_variables_show_it_every_step_of_the_graph(smith: LangSmith, tmp_path: Path) -> None:
    outcome = asked(
        tmp_path,
        LANGSMITH_TRACING="true",
        LANGSMITH_ENDPOINT=smith.url,
        LANGSMITH_API_KEY="lsv2_pt_never_a_real_key",
        LANGSMITH_PROJECT="kb-tests",
    )
    assert outcome == "answered"
    steps = {"plan", "retrieve", "grade", "judge", "refine", "generate", "check", "write_back"}
    assert {"crag", *steps} <= smith.names, smith.paths
    assert b"kb-tests" in b"".join(smith.bodies)


def test_without_them_nothing_is_sent(smith: LangSmith, tmp_path: Path) -> None:
    given = {"LANGSMITH_ENDPOINT": smith.url, "LANGSMITH_API_KEY": "lsv2_pt_never_a_real_key"}
    assert asked(tmp_path, **given) == "answered"
    assert smith.paths == []
