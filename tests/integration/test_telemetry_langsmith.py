"""LangSmith sees the graph where its own variables ask for it, and nothing is sent where they do not."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from tests.agents import PAINT, QUESTION, remember
from tests.asking import ask, open_runtime
from tests.stores import open_store

async def story(memories, home):
    async with open_runtime(memories, home) as runtime:
        print((await ask(runtime, QUESTION)).outcome.value)

home = Path(sys.argv[1])
with open_store(home / "data") as memories:
    remember(memories, PAINT)
    asyncio.run(story(memories, home))
from langchain_core.tracers.langchain import wait_for_all_tracers
wait_for_all_tracers()
"""


class LangSmith:
    """Takes in runs at loopback, as the service would."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        smith = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing to say."""

            def do_GET(self) -> None:
                smith.paths.append(self.path)
                self._answer(b'{"version":"0.10.0","batch_ingest_config":{"use_multipart_endpoint":true}}')

            def do_POST(self) -> None:
                body = self._body()
                smith.paths.append(self.path)
                smith.bodies.append(body)
                self._answer(b"{}")

            do_PATCH = do_POST

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    body = self.rfile.read(int(self.headers.get("content-length") or 0))
                else:
                    parts = []
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    body = b"".join(parts)
                return self._plain(body)

            def _plain(self, body: bytes) -> bytes:
                kind = self.headers.get("content-encoding")
                if kind == "gzip":
                    return gzip.decompress(body)
                if kind == "zstd":
                    import zstandard

                    return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(body))
                return body

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> LangSmith:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


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
    sent = b"\n".join(smith.bodies)
    for name in (b"crag", b"plan", b"retrieve", b"grade", b"judge", b"generate", b"check", b"write_back"):
        assert b'"name":"' + name + b'"' in sent, (name, smith.paths)
    assert b"kb-tests" in sent


@pytest.mark.parametrize("switch", [{}, {"LANGSMITH_TRACING": "false"}])
def test_without_them_nothing_is_sent(smith: LangSmith, tmp_path: Path, switch: dict[str, str]) -> None:
    given = {"LANGSMITH_ENDPOINT": smith.url, "LANGSMITH_API_KEY": "lsv2_pt_never_a_real_key", **switch}
    assert asked(tmp_path, **given) == "answered"
    assert smith.paths == []
