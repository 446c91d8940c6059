"""Who calls, and for whom: one key a request on every face, nothing waited for that is merely noted, names that fit."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from kb.errors import LedgerUnavailable
from kb.keys import Holder, KeyScope
from kb.ledger.schema_serving import api_keys
from tests.served import OPENS, open_server, with_bridge
from tests.stores import InProcessServer, open_store
from tests.tracing import logged

PATIENCE_S = 25  # less than a writer is waited for
ASKED = {"question": OPENS}
REMEMBER = {"name": "kb_remember", "arguments": {"text": "The quay is blue."}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": REMEMBER}
BOTH = {"Accept": "application/json, text/event-stream"}
PLENTY = {"burst": 100, "rate_per_minute": 0.001}


def on_server(store, tmp_path, story, **options):
    async def run() -> None:
        async with open_server(store, tmp_path, **options) as served:
            await story(served)

    asyncio.run(run())


def key_row(store, key):
    with store.ledger.read() as tx:
        return tx.keys.get(key.split("_")[1])


def test_a_good_key_is_answered_while_another_writer_holds_the_ledger(ledger_url, tmp_path):
    async def story(served) -> None:
        store = served.memories
        key = served.key()
        client = served.client(key)
        with store.ledger.engines.writes.begin() as held:
            held.execute(sa.select(api_keys).with_for_update()).all()
            async with asyncio.timeout(PATIENCE_S):
                sent = [client.get("/v1/models"), client.post("/v1/search", json=ASKED), client.get("/v1/models")]
                replies = await asyncio.gather(*sent)
            assert [reply.status_code for reply in replies] == [200, 200, 200]
            assert key_row(store, key).used_at is None  # what could not be noted is missing, nothing else
        assert (await client.get("/v1/models")).status_code == 200
        assert key_row(store, key).used_at == store.clock.now()

    with open_store(tmp_path / "data", ledger_url=ledger_url) as store:
        on_server(with_bridge(store), tmp_path, story)


def test_a_request_that_shows_two_keys_is_nobodys_on_every_face(store, tmp_path):
    async def story(served) -> None:
        names = {"ann": Holder.PERSON, "bot": Holder.AGENT}
        keys = [served.key(KeyScope.QUERY, KeyScope.WRITE, name=name, holder=who) for name, who in names.items()]
        stranger = served.client()
        for first, second in (keys, keys[::-1], [keys[0], "none"], ["none", keys[0]], [keys[0], keys[0]]):
            shown = [("Authorization", f"Bearer {first}"), ("authorization", f"Bearer {second}"), *BOTH.items()]
            sent = [("/mcp", CALL), ("/v1/search", ASKED), ("/v1/memories", {"text": "The quay is blue."})]
            for path, body in sent:
                reply = await stranger.post(path, json=body, headers=shown)
                assert reply.status_code == 401, (path, reply.text)
        assert store.page("default") == []
        for key in keys:  # and nobody's calls were used up
            reply = await served.client(key).get("/v1/models")
            assert (reply.status_code, reply.headers["RateLimit-Remaining"]) == (200, "99")

    on_server(store, tmp_path, story, serve={**PLENTY, "mcp": True})


@pytest.mark.parametrize("name", ["agent", "user", "conversation", "thread"])
def test_a_name_that_no_answer_can_be_kept_under_is_refused_before_the_question_is_worked_on(store, tmp_path, name):
    fits, longer = "\u6865" * 85, "\u6865" * 86  # of three bytes each; the ledger holds 256

    async def story(served) -> None:
        client = served.client(served.key())
        kept = await client.post("/v1/ask", json={**ASKED, name: fits})
        assert (await client.get(f"/v1/answers/{kept.json()['answer_id']}")).status_code == 200
        chat = {"model": "kb", "messages": [{"role": "user", "content": OPENS}], "kb": {name: longer}}
        arguments = {**ASKED, name: longer}
        for path, body in (("/v1/ask", arguments), ("/v1/chat/completions", chat)):
            reply = await client.post(path, json=body)
            assert (reply.status_code, f"{name} is 258 bytes long" in reply.text) == (422, True), reply.text
        if name in ("user", "thread"):  # all that an agent may name
            call = {**CALL, "params": {"name": "kb_query", "arguments": arguments}}
            told = (await client.post("/mcp", json=call, headers=BOTH)).json()["result"]
            assert (told["isError"], f"{name} is 258 bytes long" in told["content"][0]["text"]) == (True, True)

    on_server(with_bridge(store), tmp_path, story, serve={"mcp": True})


def test_nobody_is_told_where_a_ledger_is_that_is_away_and_the_log_says_it(store, tmp_path):
    place = "postgresql://kb@ledger.inside/kb"

    async def story(served) -> None:
        served_key = served.key()
        good, unknown = served.client(served_key), served.client("kb_0123456789abcdef_" + "x" * 43)
        read = store.ledger.read

        def away() -> object:
            raise LedgerUnavailable(f"the ledger ({place}) cannot be reached: no route to ledger.inside")

        chat = {"model": "kb", "messages": [{"role": "user", "content": OPENS}]}
        store.ledger.read = away
        try:
            sent = [("/v1/search", ASKED), ("/v1/chat/completions", chat), ("/mcp", CALL)]
            replies = [await who.post(path, json=body) for who in (good, unknown) for path, body in sent]
            replies.append(await served.client().post("/console/login", data={"key": served_key}))
        finally:
            store.ledger.read = read
        for reply in replies:
            assert (reply.status_code, "ledger.inside" in reply.text) == (503, False), reply.text
            assert "Retry-After" in reply.headers

    with logged() as stream:
        on_server(store, tmp_path, story, serve={"mcp": True, "console": True})
    said = [line for line in stream.getvalue().splitlines() if '"part_away"' in line]
    assert (len(said), all(place in line for line in said)) == (7, True)


def test_an_agent_is_not_told_either_where_an_index_is_that_is_away(tmp_path):
    index = InProcessServer()
    search = {**CALL, "params": {"name": "kb_search", "arguments": ASKED}}

    async def story(served) -> None:
        client = served.client(served.key())
        index.is_away = True
        told = (await client.post("/mcp", json=search, headers=BOTH)).json()["result"]
        assert told["isError"]
        assert told["content"][0]["text"].endswith(": the index is away")

    with logged() as stream, open_store(tmp_path / "data", server=index) as store:
        on_server(with_bridge(store), tmp_path, story, serve={"mcp": True})
    (said,) = [line for line in stream.getvalue().splitlines() if '"part_away"' in line]
    assert '"kind": "IndexUnavailable"' in said
