"""A real HTTP server on loopback that speaks the OpenAI embeddings protocol, and misbehaves as told."""

from __future__ import annotations

import base64
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fakes.embedder import HashingEmbedder

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Reply:
    """An answer to give in place of embeddings. Status 200 with a body gives that body."""

    status: int
    message: str = "told to"
    headers: dict[str, str] = field(default_factory=dict)
    code: str | None = None
    body: bytes | None = None


@dataclass(frozen=True)
class Request:
    """What a client asked."""

    input: list[str]
    model: str
    dimensions: int | None
    authorization: str


class OpenAIServer:
    """Serves until the context ends.

    `script` holds replies for the next requests. Then: status `marker_status` to a request with a text that contains
    `marker`, 413 to more than `max_items` texts, 400 to a blank text; else embeddings of `dim` numbers. `hold` keeps
    answers back until it is set.
    """

    def __init__(self) -> None:
        self.script: deque[Reply] = deque()
        self.requests: list[Request] = []
        self.marker, self.marker_status = "", 400
        self.max_items = 10_000
        self.dim = 64
        self.missing = 0  # vectors left out of an answer
        self.value: float | None = None  # every number of every vector
        self.key = ""  # when set, other keys get 401
        self.hold = threading.Event()
        self.hold.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts asked for, in order."""
        return [text for request in self.requests for text in request.input]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, request: Request) -> Reply:
        """Decide what a request gets."""
        if self.key and request.authorization != f"Bearer {self.key}":
            return Reply(401, f"Incorrect API key provided: {request.authorization}")
        if self.script:
            return self.script.popleft()
        if len(request.input) > self.max_items:
            return Reply(413, f"at most {self.max_items} inputs")
        if any(not text.strip() for text in request.input):
            return Reply(400, "input cannot be an empty string")
        if self.marker and any(self.marker in text for text in request.input):
            return Reply(self.marker_status, "input is not acceptable")
        return Reply(200)

    def vectors(self, request: Request) -> list[list[float]]:
        vectors = 3.0 * HashingEmbedder(dim=request.dimensions or self.dim).passages(request.input)
        if self.value is not None:
            vectors[:] = self.value
        found: list[list[float]] = vectors.tolist()
        return found[: len(found) - self.missing]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: OpenAIServer

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        given = body["input"]
        request = Request(
            input=[given] if isinstance(given, str) else given,
            model=body["model"],
            dimensions=body.get("dimensions"),
            authorization=self.headers.get("Authorization", ""),
        )
        self.owner.requests.append(request)
        self.owner.hold.wait()
        reply = self.owner.answer(request)
        if reply.status != HTTPStatus.OK:
            error = {"message": reply.message, "type": "invalid_request_error", "code": reply.code}
            self._send(reply, json.dumps({"error": error}).encode())
        elif reply.body is not None:
            self._send(reply, reply.body)
        else:
            as_base64 = body.get("encoding_format") == "base64"
            self._send(reply, json.dumps(self._embeddings(request, as_base64=as_base64)).encode())

    def _embeddings(self, request: Request, *, as_base64: bool) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": n, "embedding": _encoded(vector, as_base64=as_base64)}
            for n, vector in enumerate(self.owner.vectors(request))
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": data, "model": request.model, "usage": usage}

    def _send(self, reply: Reply, body: bytes) -> None:
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # the client gave up waiting

    def log_message(self, *_: object) -> None:
        pass


def _encoded(vector: list[float], *, as_base64: bool) -> list[float] | str:
    return base64.b64encode(np.array(vector, "<f4").tobytes()).decode() if as_base64 else vector
