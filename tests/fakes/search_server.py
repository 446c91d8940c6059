"""A real HTTP server on loopback that speaks the JSON of Tavily and of SearXNG, and misbehaves as told."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Reply:
    """An answer to give in place of results. `cut` bytes of the body are announced and never sent."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


@dataclass(frozen=True)
class Asked:
    """What a client asked, whichever API it spoke."""

    api: str  # tavily or searxng
    query: str
    parameters: dict[str, Any]
    authorization: str


class SearchServer:
    """Serves until the context ends.

    `script` holds replies for the next requests; then `results` (Tavily's field names) are served in either dialect.
    While `hold` is cleared, answers are kept back. `base` is the URL to configure.
    """

    def __init__(self) -> None:
        self.script: deque[Reply] = deque()
        self.results: list[Any] = []
        self.silent_engines: list[list[str]] = []
        self.asked: list[Asked] = []
        self.is_asked = threading.Event()  # set with the first request
        self.hold = threading.Event()
        self.hold.set()
        self._http = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def queries(self) -> list[str]:
        return [asked.query for asked in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        self.is_asked.set()
        self.hold.wait()
        if self.script:
            return self.script.popleft()
        served = self._tavily(asked) if asked.api == "tavily" else self._searxng(asked)
        return Reply(body=json.dumps(served).encode())

    def _tavily(self, asked: Asked) -> dict[str, Any]:
        found = self.results[: asked.parameters.get("max_results", 5)]
        return {"query": asked.query, "answer": None, "images": [], "results": found, "response_time": 0.01}

    def _searxng(self, asked: Asked) -> dict[str, Any]:
        found = [_searxng_entry(entry) for entry in self.results]
        return {"query": asked.query, "results": found, "unresponsive_engines": self.silent_engines}


def _searxng_entry(entry: object) -> object:
    if not isinstance(entry, dict):
        return entry
    served = {name: value for name, value in entry.items() if name != "published_date"}
    return {**served, "engine": "fake", "publishedDate": entry.get("published_date")}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        pass  # clients that go away in the middle are part of the tests


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: SearchServer

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._serve("tavily", body.get("query", ""), body)

    def do_GET(self) -> None:
        given = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self._serve("searxng", given.get("q", ""), given)

    def _serve(self, api: str, query: str, parameters: dict[str, Any]) -> None:
        asked = Asked(api=api, query=query, parameters=parameters, authorization=self.headers.get("Authorization", ""))
        reply = self.owner.answer(asked)
        try:
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) + reply.cut))
            self.end_headers()
            self.wfile.write(reply.body)
        except ConnectionError:
            self.close_connection = True  # the client gave up waiting
        if reply.cut:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
