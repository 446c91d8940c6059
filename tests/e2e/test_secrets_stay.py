"""A day of real work with a secret in every setting that can hold one: none of it is in anything that comes out.

The command line, a real `kb serve` with its daemon, PostgreSQL, Redis, a chat model and a web search that want keys, an
OTLP receiver, errors of every kind; logs at their most talkative, and content let out with spans.
"""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from kb.telemetry import Span
from tests.chatting import Teller
from tests.fakes.collector import Collector
from tests.fakes.search_server import Reply, SearchServer
from tests.secrets import leaks, secrets
from tests.shell import KB, Shell
from tests.stores import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fakes.chat_server import ChatServer
    from tests.fixtures_redis import RedisServer

QUESTION = "How many tons does the Anping bridge carry?"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
HELD = {secret.variable: secret.sentinel for secret in secrets()}
DEAD = "127.0.0.1:9"
SECONDS = 60


class Receiver(Collector):
    """Keeps all bytes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def keep(self, path: str, body: bytes) -> None:
        self.bodies.append(body)
        super().keep(path, body)


@dataclass
class Story:
    """What is told, and all that came out.

    Args:
        kb: a shell in which every secret is set.
        held: secrets by name, keys that were made among them.
        shown: what came out, by where.
        receiver: of traces and metrics.
        web: the search engine.
        chat: the model's endpoint.
    """

    kb: Shell
    receiver: Receiver
    web: SearchServer
    chat: ChatServer
    held: dict[str, str] = field(default_factory=lambda: dict(HELD))
    shown: dict[str, bytes] = field(default_factory=dict)

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        done = self.kb.run("--log-level", "debug", *arguments, **environment)
        assert done.code == code, (arguments, done.err or done.out)
        self.shown[" ".join([*arguments, *environment])] = (done.out + done.err).encode()
        return done.out


def placed(address: str, user: str, variable: str) -> str:
    """Return an address with a user and the setting's secret in it."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{user}:{HELD[variable]}@{rest.rpartition('@')[2]}"


@pytest.fixture
def story(
    tmp_path: Path, model_cache: Path, postgres_url: str, redis_server: RedisServer, chat_server: ChatServer
) -> Iterator[Story]:
    with Receiver() as receiver, SearchServer() as web:
        teller = Teller(grades={"tons": 0.9})
        chat_server.respond = lambda asking: {"query": "hours"} if "opening hours" in asking.prompt else teller(asking)
        web.results = [{"url": "https://bridges.example/anping", "title": "Anping", "content": BRIDGE}]
        addresses = {
            "KB_LEDGER_URL": (postgres_url, "postgres"),
            "KB_ASK__CHECKPOINT_URL": (postgres_url, "postgres"),
            "KB_ASK__GRADE_CACHE": (redis_server.url, "default"),
            "KB_SERVE__LIMITS_URL": (redis_server.url, "default"),
            "KB_CHAT__BASE_URL": (chat_server.url, "kb"),
            "KB_OPENAI_BASE_URL": (chat_server.url, "kb"),
            "KB_SEARCH__URL": (web.base, "kb"),
            "KB_TELEMETRY_ENDPOINT": (receiver.endpoint, "kb"),
        }
        settings = {**HELD, **{name: placed(*where, name) for name, where in addresses.items()}}
        del settings["KB_INDEX_URI"]  # Milvus Lite
        settings |= {
            "KB_SEARCH__PROVIDER": "tavily",
            "KB_SEARCH__API_KEY": f"tvly-{HELD['KB_SEARCH__API_KEY']}",
            "KB_SEARCH__APPROVE": "always",
            "KB_CHAT__MODEL": chat_server.model,
            "KB_CHAT__RETRIES": "0",
            "KB_ASK__CHECKPOINTER": "postgres",
            "KB_ASK__EVALUATOR": "llm",
            "KB_INDEX_TIMEOUT": "2",
            "KB_TELEMETRY__CAPTURE_CONTENT": "true",
        }
        write((tmp_path / "docs"), a_md="# A\n\nThe Anping bridge is painted green every spring.\n")
        with Shell(tmp_path, model_cache, settings, is_warm=True) as kb:
            yield Story(kb, receiver, web, chat_server)


def test_no_secret_comes_out_of_a_day_of_work(story: Story) -> None:
    assert set(HELD) == {*story.kb.settings} & {*HELD} | {"KB_INDEX_URI"}  # none is forgotten
    commands(story)
    errors(story)
    served(story)
    archive(story)
    story.shown["otlp"] = b"\n".join(story.receiver.bodies)
    assert BRIDGE.encode() in story.shown["otlp"], "content was let out, and came"
    for path in story.kb.home.rglob("*"):
        if path.is_file() and not path.name.endswith((".tar", ".jsonl.gz")):
            story.shown[str(path)] = path.read_bytes()
    assert leaks(story.shown, story.held) == []


def commands(story: Story) -> None:
    story.run("ingest", "docs")
    answer = json.loads(story.run("ask", QUESTION, "--thread", "t1", "--json"))
    assert story.web.asked, "the web was searched"
    for line in (
        ("search", QUESTION), ("status", "--json"), ("store", "status", "--json"), ("trace", answer["answer_id"]),
        ("doctor", "--json"), ("key", "list", "--json"), ("store", "migrate", "--to", "lite", "--plan"),
    ):  # fmt: skip
        story.run(*line, code=2 if line[-1] == "--plan" else 0)
    story.kb.run("key", "create", "ada", "--scope", "query")


def errors(story: Story) -> None:
    """Provoke errors of everything that has an address or a key."""
    for variable in ("KB_LEDGER_URL", "KB_INDEX_URI"):
        scheme = "postgresql" if variable == "KB_LEDGER_URL" else "http"
        for address in (f"{scheme}://kb:{HELD[variable]}@{DEAD}/kb", f"kb:{HELD[variable]}@{DEAD}"):
            given = {variable: address}
            for command in (("search", QUESTION, "--json"), ("doctor",), ("store", "status"), ("store", "stop")):
                done = story.kb.run("--log-level", "debug", *command, **given)
                assert done.code or command[0] == "store"
                story.shown[f"{command} {address}"] = (done.out + done.err).encode()
    story.chat.key = "another"  # it answers 401, and quotes the key
    story.web.script.append(Reply(status=401, body=json.dumps({"error": HELD["KB_SEARCH__API_KEY"]}).encode()))
    done = story.kb.run("--log-level", "debug", "ask", "Who painted the harbour?", "--json")
    story.shown["ask, refused"] = (done.out + done.err).encode()
    done = story.kb.run("--log-level", "debug", "search", QUESTION, KB_EMBEDDER="openai", KB_EMBEDDING_DIM="384")
    story.shown["embedder, refused"] = (done.out + done.err).encode()
    story.shown["not valid"] = story.run("status", code=2, KB_CHAT__NOPE=HELD["KB_CHAT__API_KEY"]).encode()
    story.chat.key = ""


def served(story: Story) -> None:
    key = story.kb.json("key", "create", "eve", *(w for s in ("query", "write", "govern") for w in ("--scope", s)))[
        "key"
    ]
    story.held["an API key"] = key.rsplit("_", 1)[-1]
    story.held["no key at all"] = wrong = "Zq" + "0" * 40
    log = story.kb.home.parent / f"{story.kb.home.name}.log"
    command = [*KB, "--log-level", "debug", "serve", "--port", "0", "--json", "--with-daemon"]
    with (
        log.open("wb") as told,
        subprocess.Popen(
            command, cwd=story.kb.home, env=story.kb.environment, stdout=subprocess.PIPE, stderr=told, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()[-2000:]
            visited(story, json.loads(line)["url"], key, wrong)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0, log.read_text()[-2000:]
        finally:
            process.kill()
    story.shown["log of the server"] = log.read_bytes()
    assert b"painted the harbour" not in story.shown["log of the server"]


def visited(story: Story, url: str, key: str, wrong: str) -> None:
    held = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, timeout=SECONDS) as client:

        def asked(method: str, path: str, **options: Any) -> httpx.Response:
            answer = client.request(method, path, **options)
            assert answer.status_code != 500, answer.text
            story.shown[f"{method} {path} {len(story.shown)}"] = (
                answer.content + repr(answer.headers.multi_items()).encode()
            )
            return answer

        assert asked("POST", "/v1/ask", headers=held, json={"question": QUESTION}).status_code == 200
        story.chat.key = "another"
        story.web.script.append(Reply(status=401, body=json.dumps({"error": HELD["KB_SEARCH__API_KEY"]}).encode()))
        asked("POST", "/v1/ask", headers=held, json={"question": "Who painted the harbour?"})
        asked("POST", "/v1/chat/completions", headers=held, json={"model": "kb", "messages": [], "api_key": wrong})
        story.chat.key = ""
        for scheme in ("Bearer", "Basic"):
            assert asked("GET", "/v1/memories", headers={"Authorization": f"{scheme} {wrong}"}).status_code == 401
        asked("GET", f"/v1/models?api_key={wrong}", headers=held)
        asked("POST", "/v1/search", headers=held, content=f'{{"question": 1, "token": "{wrong}"')
        for path in ("/metrics", "/healthz", "/readyz", "/openapi.json", "/console/login"):
            asked("GET", path)
        asked("POST", "/console/login", data={"key": wrong})
        assert asked("POST", "/console/login", data={"key": key}).status_code == 303
        for path in ("/", "/sources", "/sweeps", "/answers", "/queue"):
            assert asked("GET", f"/console{path}").status_code == 200


def archive(story: Story) -> None:
    before = len(story.receiver.spans)
    story.run("export", "backup.tar", "--with-embeddings", "--with-keys")
    spans = story.receiver.spans[before:]
    assert {s.name for s in spans} >= {Span.COMMAND, Span.EXPORT, Span.LEDGER_READ}  # type: ignore[attr-defined] # as the protocol brought them
    assert len({s.trace_id for s in spans}) == 1  # type: ignore[attr-defined] # likewise
    with tarfile.open(story.kb.home / "backup.tar") as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            data = content.read()
            story.shown[member.name] = gzip.decompress(data) if member.name.endswith(".gz") else data
    story.run("import", "backup.tar", "--plan", KB_DATA_DIR=str(story.kb.home / "new"), KB_LEDGER_URL="")
