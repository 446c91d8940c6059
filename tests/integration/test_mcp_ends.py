"""MCP, when somebody leaves: a question ends with whoever asked it, a local server with its agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT
from tests.durable import until
from tests.fakes.generator import FakeGenerator
from tests.integration.test_mcp import client_of, on_server
from tests.served import OPENS, with_bridge

JSON_OR_EVENTS = {"Accept": "application/json, text/event-stream"}


def a_call(tool, arguments, id_=1):
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


@pytest.mark.parametrize("wire", ["newest", "older"])
def test_a_question_ends_with_the_agent_that_asked_it(store, tmp_path, wire):
    with_bridge(store)
    slow = FakeGenerator()

    async def newest(served) -> None:
        async with client_of(served, served.key()) as client:
            await client.call_tool("kb_query", {"question": OPENS})

    async def older(served) -> None:
        headers = {**JSON_OR_EVENTS, "MCP-Protocol-Version": "2025-06-18"}
        body = a_call("kb_query", {"question": OPENS})
        await served.client(served.key()).post("/mcp", json=body, headers=headers)

    async def story(served) -> None:
        slow.hold.clear()
        asking = asyncio.create_task((newest if wire == "newest" else older)(served))
        await until(lambda: slow.calls == 1)
        assert len(served.runtime._runs) == 1
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: len(served.runtime._runs) == 0)
        await until(lambda: len(served.app.state.running) == 0)

    on_server(store, tmp_path, story, generator=slow)


LEAVING = """
import atexit, gc, sys
from kb_cli.main import main
atexit.register(lambda: sys.stderr.write(f"frozen {gc.get_freeze_count() > 0}"))
main()
"""


def test_a_local_server_says_nothing_but_the_protocol_and_ends_with_its_agent(tmp_path):
    environment = {"KB_DATA_DIR": str(tmp_path / "data"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = [sys.executable, "-c", LEAVING, "--log-level", "debug", "mcp", "--name", "scribe"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        a_call("kb_get", {"memory_id": "none"}, id_=2),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(f"{json.dumps(line)}\n" for line in said))
        server.stdin.flush()
        heard = [json.loads(server.stdout.readline()) for _ in range(2)]
        rest, log = server.communicate(timeout=60)
    assert [line["id"] for line in heard] == [1, 2]
    assert (rest, server.returncode) == ("", 0)
    assert "Traceback" not in log
    assert log.endswith("frozen True"), "what is left is not looked through for circles, which takes seconds"
