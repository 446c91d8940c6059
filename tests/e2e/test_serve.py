"""`kb serve` as its users meet it: the sample, real models, OpenAI's SDK, LangChain and curl; keys come and go."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from langchain_openai import ChatOpenAI

from tests.shell import ROOT, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSIDE = "How long are access logs kept?"
FOLLOWING = "And invoices?"
SECONDS = 120


@dataclass
class Serving:
    """A running `kb serve`, the shell beside it, and a key that may query."""

    url: str
    kb: Shell
    key: str
    process: subprocess.Popen[str]
    log: Path

    def http(self, key: str = "") -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key or self.key}"}, timeout=SECONDS)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("serving")
    shutil.copytree(ROOT / "sample", home / "sample")
    settings = {"KB_SERVE__MCP": "false", "KB_SERVE__CONSOLE": "false"}
    with Shell(home, model_cache, settings) as shell:
        assert shell.run("ingest", "sample").code == 0
        yield shell


@pytest.fixture(scope="module")
def serving(kb: Shell) -> Iterator[Serving]:
    key = kb.json("key", "create", "ada")["key"]
    log = kb.home / "log"
    with (
        log.open("w") as told,
        kb.started("serve", "--port", "0", "--json", "--with-daemon") as process,
        subprocess.Popen(["cat"], stdin=process.stderr, stdout=told) as copying,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line, log.read_text()
            ready = json.loads(line)
            assert (ready["event"], ready["pid"]) == ("ready", process.pid)
            yield Serving(ready["url"], kb, key, process, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            copying.wait(SECONDS)


def test_openai_sdk_asks_streams_and_is_told_of_errors(serving):
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key=serving.key, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["kb"]
        asked: Any = {"model": "kb", "messages": [{"role": "user", "content": INSIDE}]}
        whole = client.chat.completions.create(**asked, temperature=0, extra_body={"kb_thread": "sdk"})
        assert "90 days" in (whole.choices[0].message.content or "")
        assert whole.model_extra is not None
        own = whole.model_extra["kb"]
        assert (own["outcome"], own["verdict"], own["ignored"]) == ("answered", "correct", ["temperature"])
        assert own["citations"][0]["source"].endswith("data-retention.md")
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert text == whole.choices[0].message.content
        assert chunks[-1].usage is not None
        assert (chunks[-1].model_extra or {})["kb"]["outcome"] == "answered"
        following = {**asked, "messages": [{"role": "user", "content": FOLLOWING}]}
        turn = client.chat.completions.create(**following, extra_body={"kb_thread": "sdk"})
        assert (turn.model_extra or {})["kb"]["plan"]["carried"]
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(**asked, n=2)
        assert refused.value.param == "n"
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(**{**asked, "model": "gpt-5"})
    with (
        openai.OpenAI(base_url=f"{serving.url}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_langchain_invokes_and_streams(serving):
    chat = ChatOpenAI(model="kb", base_url=f"{serving.url}/v1", api_key=serving.key, max_retries=0)  # type: ignore[arg-type]
    said = chat.invoke([("system", "Access logs are kept for one day."), ("user", INSIDE)])
    assert "90 days" in said.content
    streamed = "".join(str(chunk.content) for chunk in chat.stream(INSIDE))
    assert streamed == said.content


def test_curl_gets_an_answer_a_stream_and_a_search(serving):
    def curl(path: str, body: dict[str, Any], *more: str) -> str:
        head = ["-H", f"Authorization: Bearer {serving.key}", "-H", "Content-Type: application/json"]
        command = ["curl", "-sS", "-N", *head, *more, "-d", json.dumps(body), f"{serving.url}{path}"]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout

    answer = json.loads(curl("/v1/ask", {"question": INSIDE}))
    assert answer["outcome"] == "answered"
    assert set(answer) == set(serving.kb.json("ask", INSIDE))
    streamed = curl("/v1/ask", {"question": INSIDE}, "-H", "Accept: text/event-stream")
    assert streamed.startswith("event: step\n")
    assert "event: answer" in streamed
    found = json.loads(curl("/v1/search", {"question": INSIDE, "k": 3}))
    beside = serving.kb.json("search", INSIDE, "-k", "3")
    assert [hit["id"] for hit in found["hits"]] == [hit["id"] for hit in beside["hits"]]


def test_a_key_lives_from_its_making_to_its_revocation(serving):
    made = serving.kb.json(
        "key", "create", "scout", "--agent", "--scope", "query", "--scope", "write", "--expires", "90d"
    )
    assert (made["holder"], made["scopes"], made["state"]) == ("agent", ["query", "write"], "valid")
    with serving.http(made["key"]) as client:
        assert client.get("/v1/models").status_code == 200
        listed = serving.kb.run("key", "list", "--json")
        (shown,) = [key for key in listed.lines[0]["keys"] if key["id"] == made["id"]]
        assert shown["used_at"] is not None, (shown, serving.log.read_text()[-3000:], serving.kb.run("key", "list").out)
        assert made["key"].split("_", 2)[2] not in listed.out + listed.err
        assert "secret" not in listed.out
        revoked = serving.kb.json("key", "revoke", made["id"])
        assert (revoked["state"], revoked["was_valid"]) == ("revoked", True)
        assert client.get("/v1/models").status_code == 401
    assert serving.kb.json("key", "revoke", made["id"])["was_valid"] is False
    assert serving.kb.run("key", "revoke", "0" * 16).code == 2
    assert serving.kb.run("key", "create", "spy", "--agent", "--scope", "govern").code == 2


def test_the_daemon_beside_it_lives_and_metrics_are_shown(serving):
    deadline = time.monotonic() + SECONDS
    while not serving.kb.json("daemon", "status")["daemons"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert httpx.get(f"{serving.url}/readyz").status_code == 200
    text = httpx.get(f"{serving.url}/metrics").text
    assert 'kb_http_requests_total{method="GET",route="/readyz",status="200"}' in text


def test_no_key_stands_in_the_log(serving):
    with serving.http() as client:
        client.get("/v1/models", params={"key": serving.key})
        client.get(f"/{serving.key}")
    assert serving.key.split("_", 2)[2] not in serving.log.read_text()


FIRST_QUESTION = f"""
import asyncio, sys
from crag_runtime.result import AskRequest
from kb_cli.session import clock, loaded
from serving.app import open_parts

async def main():
    async with open_parts(loaded(serve=None), clock()) as (_, runtime):
        before = {{name.partition(".")[0] for name in sys.modules}}
        async for event in runtime.stream(AskRequest(question={INSIDE!r}, tenant="default")):
            last = event
        print(last.result.outcome, sorted({{name.partition(".")[0] for name in sys.modules}} - before))

asyncio.run(main())
"""


def test_once_it_is_ready_the_first_question_has_no_library_or_dictionary_to_wait_for(kb):
    command = [sys.executable, "-c", FIRST_QUESTION]
    done = subprocess.run(
        command, cwd=kb.home, env=kb.environment, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert done.stdout.split() == ["answered", "[]"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 5, "kb key create"),
        (("--open", "--host", "::"), 2, "would let everybody in"),
        (("--host", "192.0.2.1", "--open"), 2, "would let everybody in"),
    ],
)
def test_it_does_not_begin_where_nobody_or_everybody_could_call(kb, tmp_path, arguments, code, says):
    done = kb.run("serve", *arguments, KB_DATA_DIR=str(tmp_path))
    assert (done.code, says in done.err) == (code, True), done.err
