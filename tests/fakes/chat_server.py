"""A real HTTP server on loopback that speaks the OpenAI chat protocol, answers as told, and remembers every request."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from kb.settings import ChatSettings

_numbers = count(1)


@dataclass(frozen=True, kw_only=True)
class Say:
    """What a request gets.

    `text` is a reply, streamed where the request asks for a stream. `value` is a reply in the form asked for: JSON
    text, or a tool call. Another `status` is an error. `body` is sent as it is. `hangs` gives nothing until the
    server ends. `cut_after` breaks the connection after so many pieces of a stream (0: before any, and without a
    stream: within the body); `ends_early` ends the stream in good order, but without an end.
    """

    text: str = ""
    value: dict[str, Any] | None = None
    status: int = 200
    message: str = "told to"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    finish: str = "stop"
    refusal: str | None = None
    has_usage: bool = True
    body: bytes | None = None
    hangs: bool = False
    cut_after: int | None = None
    ends_early: bool = False


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    body: dict[str, Any]
    authorization: str

    @property
    def prompt(self) -> str:
        """All text of all messages."""
        return "\n".join(str(message.get("content") or "") for message in self.body["messages"])

    def by_role(self, role: str) -> str:
        """All text of one role's messages."""
        return "\n".join(str(m.get("content") or "") for m in self.body["messages"] if m["role"] == role)

    @property
    def form(self) -> str:
        """How structure is asked for: schema, tool, words (in the prompt), or "" for none."""
        if "response_format" in self.body:
            return "schema"
        if "tools" in self.body:
            return "tool"
        return "words" if "valid under this JSON schema" in self.prompt else ""

    @property
    def asks_for(self) -> str:
        """Name of the schema asked for; "" where none, or where it stands in the prompt only."""
        if self.form == "schema":
            return str(self.body["response_format"]["json_schema"]["name"])
        return str(self.body["tools"][0]["function"]["name"]) if self.form == "tool" else ""


class ChatServer:
    """Serves until the context ends.

    `script` holds what the next requests get; then `respond` decides, by the request: a str is a text, a dict a value.
    `refuses` maps a form to the status it gets; forms in `ignores` are answered with prose. `key`, when set, is asked
    for. `requests` and `most_at_once` tell what happened.
    """

    def __init__(self, respond: Callable[[Request], Say | str | dict[str, Any]] | None = None) -> None:
        self.respond = respond
        self.script: deque[Say | str | dict[str, Any]] = deque()
        self.requests: list[Request] = []
        self.refuses: dict[str, int] = {}
        self.ignores: set[str] = set()
        self.key = ""
        self.model = f"scripted-{next(_numbers)}"  # what a process learns of one server is not another's
        self.most_at_once = 0
        self.ended = threading.Event()
        self._now = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def settings(self, **changes: Any) -> ChatSettings:
        """Settings of a chat model at this server."""
        from kb.settings import ChatSettings

        return ChatSettings(**{"model": self.model, "base_url": self.url, **changes})

    @property
    def prompts(self) -> list[str]:
        return [request.prompt for request in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, request: Request) -> Say:
        """Decide what a request gets."""
        if self.key and request.authorization != f"Bearer {self.key}":
            return Say(status=401, message=f"Incorrect API key provided: {request.authorization}")
        if request.form in self.refuses:
            return Say(status=self.refuses[request.form], message="this form of structure is not supported")
        if request.form in self.ignores:
            return Say(text="Well, that depends.")
        with self._lock:
            said = self.script.popleft() if self.script else None
        if said is None:
            said = self.respond(request) if self.respond else "It is so."
        if isinstance(said, str):
            return Say(text=said)
        return Say(value=said) if isinstance(said, dict) else said

    def enter(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = Request(body, self.headers.get("Authorization", ""))
        self.owner.enter(request)
        try:
            said = self.owner.answer(request)
        finally:
            self.owner.leave()
        try:
            self._say(request, said)
        except ConnectionError:
            self.close_connection = True  # the client gave up waiting

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": self.owner.model, "object": "model"}]}
        self._send(200, {}, json.dumps(models).encode())

    def _say(self, request: Request, say: Say) -> None:
        if say.hangs:
            self.owner.ended.wait()
            self._break()
        elif say.status != HTTPStatus.OK:
            error = {"message": say.message, "type": "invalid_request_error", "code": say.code, "param": say.param}
            self._send(say.status, say.headers, json.dumps({"error": error}).encode())
        elif say.body is not None:
            self._send(say.status, say.headers, say.body)
        elif request.body.get("stream"):
            self._stream(request, say)
        else:
            self._send(200, say.headers, json.dumps(_completion(request, say)).encode(), cut=say.cut_after is not None)

    def _send(self, status: int, headers: dict[str, str], body: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._break()

    def _stream(self, request: Request, say: Say) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(pieces(say.text or _as_json(say.value))):
            if number == say.cut_after:
                break
            self._event(_chunk(request, {"role": "assistant", "content": piece}, None))
        if say.cut_after is not None:
            self._break()
            return
        if not say.ends_early:
            self._event(_chunk(request, {}, say.finish))
            if say.has_usage and request.body.get("stream_options", {}).get("include_usage"):
                self._event({**_chunk(request, {}, None), "choices": [], "usage": _usage(request, say)})
            self._raw(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, data: dict[str, Any]) -> None:
        self._raw(f"data: {json.dumps(data)}\n\n".encode())

    def _raw(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _break(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass


def pieces(text: str) -> list[str]:
    """Return a text cut as a stream would bring it: three characters at a time."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def _completion(request: Request, say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text, "refusal": say.refusal}
    finish = say.finish
    if say.value is not None and request.form == "tool":
        call = {"name": request.asks_for, "arguments": json.dumps(say.value)}
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
        finish = "tool_calls"
    elif say.value is not None:
        message["content"] = _as_json(say.value)
    made = {"id": "c", "object": "chat.completion", "created": 1, "model": request.body["model"]}
    choices = [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}]
    return {**made, "choices": choices, **({"usage": _usage(request, say)} if say.has_usage else {})}


def _chunk(request: Request, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": request.body["model"]}
    return {**made, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _usage(request: Request, say: Say) -> dict[str, int]:
    """One token a word."""
    tokens_in, tokens_out = len(request.prompt.split()), len((say.text or _as_json(say.value)).split())
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _as_json(value: dict[str, Any] | None) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
