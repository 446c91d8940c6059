"""The server over HTTP: who may do what, what every reply has, what is bounded, and what never leaks."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from kb.errors import LedgerUnavailable
from kb.keys import Holder, KeyScope
from tests.durable import until
from tests.fakes.generator import FakeGenerator
from tests.served import NOON, OPENS, open_server, with_bridge
from tests.stores import InProcessServer, open_store
from tests.tracing import logged

SECRET = "the-unforeseen-tells-nobody"  # noqa: S105 - opens nothing
CHAT = {"model": "kb", "messages": [{"role": "user", "content": OPENS}]}
SCOPES = [("no key", None), ("a key that is none", "kb_0123456789abcdef_" + "x" * 43)]
ENDPOINTS = [
    ("POST", "/v1/ask", {"question": OPENS}, {KeyScope.QUERY}),
    ("POST", "/v1/ask/resume", {"thread": "nowhere"}, {KeyScope.QUERY}),
    ("POST", "/v1/search", {"question": OPENS}, {KeyScope.QUERY}),
    ("POST", "/v1/chat/completions", CHAT, {KeyScope.QUERY}),
    ("GET", "/v1/models", None, {KeyScope.QUERY}),
    ("GET", "/v1/models/kb", None, {KeyScope.QUERY}),
]
FORM = "application/x-www-form-urlencoded"  # what curl says unless it is told
DONE = {"/v1/ask/resume": 422}  # nothing is kept in these tests: understood, and told so


def on_server(store, tmp_path, story, **options):
    async def run() -> None:
        async with open_server(store, tmp_path, **options) as served:
            await story(served)

    asyncio.run(run())


def test_every_endpoint_lets_in_exactly_the_keys_that_have_its_scope(store, tmp_path):
    with_bridge(store)

    async def story(served) -> None:
        callers = [(name, key, None) for name, key in SCOPES]
        callers.extend((f"{scope} only", served.key(scope), scope) for scope in KeyScope)
        expired = served.key(expires_at=store.clock.now() + 1)
        store.clock.advance(1)
        callers.append(("expired", expired, None))
        for name, key, scope in callers:
            client = served.client(key)
            for method, path, body, scopes in ENDPOINTS:
                reply = await client.request(method, path, json=body)
                expected = 401 if scope is None else DONE.get(path, 200) if scope in scopes else 403
                assert reply.status_code == expected, (name, path, reply.text)
                if expected == 401:
                    assert reply.headers["WWW-Authenticate"] == "Bearer"
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert (await served.client().get(path)).status_code == 200

    on_server(store, tmp_path, story)


def test_a_key_sees_its_tenant_alone_and_names_no_other(store, tmp_path):
    with_bridge(store, "north")

    async def story(served) -> None:
        north, south = (served.client(served.key(tenant=t)) for t in ("north", "south"))
        assert (await north.post("/v1/search", json={"question": OPENS})).json()["hits"]
        found = (await south.post("/v1/search", json={"question": OPENS})).json()
        assert (found["hits"], found["suppressed"]["count"]) == ([], 0)
        assert (await north.post("/v1/ask", json={"question": OPENS})).json()["outcome"] == "answered"
        assert (await south.post("/v1/ask", json={"question": OPENS})).json()["outcome"] == "refused"
        named = await south.post("/v1/ask", json={"question": OPENS, "tenant": "north"})
        assert (named.status_code, named.json()["errors"][0]["at"]) == (422, "body.tenant")

    on_server(store, tmp_path, story)


def test_an_agents_key_stands_for_its_agent_unless_another_is_named(store, tmp_path):
    from kb.memories import Note
    from kb.model import Scope

    store.add_note(Note(text=NOON, tenant="default", scope=Scope(agent="scout")))

    async def story(served) -> None:
        scout = served.client(served.key(name="scout", holder=Holder.AGENT))
        person = served.client(served.key(name="scout"))
        asked = {"question": OPENS}
        assert len((await scout.post("/v1/search", json=asked)).json()["hits"]) == 1
        assert not (await person.post("/v1/search", json=asked)).json()["hits"]
        assert not (await scout.post("/v1/search", json={**asked, "agent": "other"})).json()["hits"]
        assert len((await person.post("/v1/search", json={**asked, "agent": "scout"})).json()["hits"]) == 1

    on_server(store, tmp_path, story)


def test_a_revoked_key_opens_nothing_from_then_on(store, tmp_path):
    async def story(served) -> None:
        key = served.key()
        client = served.client(key)
        assert (await client.get("/v1/models")).status_code == 200
        with store.ledger.write() as tx:
            assert tx.keys.revoke(key.split("_")[1], "default", store.clock.now())
        assert (await client.get("/v1/models")).status_code == 401

    on_server(store, tmp_path, story)


def test_every_reply_protects_its_reader_and_names_its_request(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key())
        for path in ("/healthz", "/v1/models", "/nowhere"):
            reply = await client.get(path, headers={"X-Request-ID": "mine-1"})
            assert reply.headers["X-Request-ID"] == "mine-1"
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
            assert "server" not in reply.headers
        for strange in ("a b", "x" * 200, "<script>", "é"):
            reply = await client.get("/nowhere", headers={b"X-Request-ID": strange.encode()})
            assert re.fullmatch("[0-9a-f]{32}", reply.headers["X-Request-ID"])
            assert reply.json()["instance"] == f"urn:kb:request:{reply.headers['X-Request-ID']}"

    on_server(store, tmp_path, story)


def test_a_body_that_does_not_say_it_is_json_is_told_so(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key())
        as_curl = await client.post("/v1/ask", content=b'{"question": "q"}', headers={"Content-Type": FORM})
        assert as_curl.status_code == 422
        assert "Content-Type: application/json" in as_curl.json()["hint"]
        assert "hint" not in (await client.post("/v1/ask", json=[])).json()

    on_server(store, tmp_path, story)


def test_every_error_is_a_problem_document(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key())
        text = {"Content-Type": "application/json"}
        replies = [
            (404, await client.get("/nowhere")),
            (405, await client.get("/v1/ask")),
            (422, await client.post("/v1/ask", json={})),
            (422, await client.post("/v1/ask", json={"question": "  "})),
            (422, await client.post("/v1/ask", json={"question": OPENS, "at": "yesterdayish"})),
            (422, await client.post("/v1/ask", content=b'{"question": "\\ud800"}', headers=text)),
            (422, await client.post("/v1/search", json={"question": "x\x00y"})),
            (422, await client.post("/v1/search", content=b'{"question": "x", "gate": NaN}', headers=text)),
            (422, await client.post("/v1/ask", content=b'{"quest', headers=text)),
            (400, await client.post("/v1/ask", content=b'{"question": "\xff"}', headers=text)),
            (400, await client.post("/v1/ask", content=b"[" * 200_000, headers=text)),
            (421, await client.post("/v1/ask", json={"question": OPENS}, headers={"Host": "evil.test"})),
        ]
        for status, reply in replies:
            assert (reply.status_code, reply.headers["Content-Type"]) == (status, "application/problem+json"), (
                reply.text
            )
            said = reply.json()
            assert said["status"] == status
            assert {"type", "title", "detail", "instance"} <= set(said)

    on_server(store, tmp_path, story)


def test_what_openai_clients_call_answers_errors_in_their_shape(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key())
        cases = [
            (401, "invalid_api_key", await served.client().post("/v1/chat/completions", json=CHAT)),
            (404, "model_not_found", await client.post("/v1/chat/completions", json={**CHAT, "model": "x"})),
            (404, "model_not_found", await client.get("/v1/models/x")),
            (400, "unsupported_parameter", await client.post("/v1/chat/completions", json={**CHAT, "n": 3})),
            (422, None, await client.post("/v1/chat/completions", json={"model": "kb"})),
            (413, None, await client.post("/v1/chat/completions", content=b"x" * 2_000_000)),
        ]
        for status, code, reply in cases:
            assert reply.status_code == status
            error = reply.json()["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["code"] == code

    on_server(store, tmp_path, story)


def test_the_unforeseen_is_named_by_its_request_alone(store, tmp_path):
    with_bridge(store)

    async def story(served) -> None:
        served.runtime.stream = broken
        client = served.client(served.key())
        plain = await client.post("/v1/ask", json={"question": OPENS}, headers={"X-Request-ID": "one"})
        assert (plain.status_code, plain.json()["instance"]) == (500, "urn:kb:request:one")
        streamed = await client.post("/v1/ask", json={"question": OPENS, "stream": True})
        assert (streamed.status_code, "event: error" in streamed.text) == (200, True)
        chat = await client.post("/v1/chat/completions", json=CHAT)
        assert (chat.status_code, chat.json()["error"]["type"]) == (500, "server_error")
        for reply in (plain, streamed, chat):
            assert SECRET not in reply.text
            assert "Traceback" not in reply.text

    async def broken(_request):
        if _request is not None:
            raise RuntimeError(SECRET)
        yield

    with logged() as stream:
        on_server(store, tmp_path, story)
    lines = [json.loads(line) for line in stream.getvalue().splitlines() if line.startswith("{")]
    failed = [line for line in lines if line["event"] == "request_failed"]
    assert len(failed) == 3
    assert (failed[0]["request_id"], SECRET in failed[0]["exception"]) == ("one", True)


def test_a_dependency_that_is_away_is_a_503_that_may_be_tried_again(tmp_path):
    index = InProcessServer()
    with open_store(tmp_path / "data", server=index) as store:
        with_bridge(store)

        async def story(served) -> None:
            client = served.client(served.key())
            assert (await client.get("/readyz")).json()["checks"] == {"runtime": "ok", "ledger": "ok", "index": "ok"}
            index.is_away = True
            searched = await client.post("/v1/search", json={"question": OPENS})
            assert (searched.status_code, searched.json()["type"]) == (503, "urn:kb:IndexUnavailable")
            assert int(searched.headers["Retry-After"]) >= 1
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["checks"]["index"]) == (503, "IndexUnavailable")
            asked = await client.post("/v1/ask", json={"question": OPENS})
            assert (asked.status_code, asked.json()["reasons"]) == (200, ["index_unavailable"])

        on_server(store, tmp_path, story)


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_body_is_bounded_whether_or_not_it_says_how_long_it_is(store, tmp_path, is_declared):
    async def story(served) -> None:
        client = served.client(served.key())
        large = json.dumps({"question": "x" * 500}).encode()

        async def parts():
            for at in range(0, len(large), 50):
                yield large[at : at + 50]

        content = large if is_declared else parts()
        reply = await client.post("/v1/ask", content=content, headers={"Content-Type": "application/json"})
        assert (reply.status_code, reply.json()["type"]) == (413, "urn:kb:TooLarge")

    on_server(store, tmp_path, story, serve={"max_body_bytes": 400})


def test_a_key_that_calls_too_often_waits_and_others_do_not(store, tmp_path):
    async def story(served) -> None:
        ada, bob = (served.client(served.key(name=name)) for name in ("ada", "bob"))
        for left in (2, 1, 0):
            reply = await ada.get("/v1/models")
            assert (reply.status_code, reply.headers["RateLimit-Remaining"]) == (200, str(left))
        refused = await ada.get("/v1/models")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(refused.headers["Retry-After"]) <= 61
        assert refused.headers["RateLimit-Limit"] == "3"
        assert (await bob.get("/v1/models")).status_code == 200
        nobody = [(await served.client().get("/v1/models")).status_code for _ in range(4)]
        assert nobody == [401, 401, 401, 429]
        assert (await served.client().get("/healthz")).status_code == 200

    on_server(store, tmp_path, story, serve={"burst": 3, "rate_per_minute": 1})


def test_more_requests_than_hands_are_turned_away_at_once(store, tmp_path):
    with_bridge(store)
    slow = FakeGenerator()

    async def story(served) -> None:
        slow.hold.clear()
        client = served.client(served.key())
        held = [asyncio.create_task(client.post("/v1/ask", json={"question": OPENS})) for _ in range(2)]
        await until(lambda: slow.calls == 2)
        busy = await client.get("/v1/models")
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "1")
        assert (await client.get("/readyz")).status_code == 200  # probes are always answered
        slow.hold.set()
        assert [(await each).status_code for each in held] == [200, 200]
        assert (await client.get("/v1/models")).status_code == 200

    on_server(store, tmp_path, story, serve={"concurrency": 2}, generator=slow)


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_request_that_takes_too_long_is_ended_and_told_so(store, tmp_path, is_streaming):
    with_bridge(store)
    slow = FakeGenerator()

    async def story(served) -> None:
        slow.hold.clear()
        client = served.client(served.key())
        reply = await client.post("/v1/ask", json={"question": OPENS, "stream": is_streaming})
        if is_streaming:
            assert '"type": "urn:kb:TimedOut"' in reply.text.split("event: error")[1]
        else:
            assert (reply.status_code, reply.json()["type"]) == (504, "urn:kb:TimedOut")
        await until(lambda: not served.runtime._runs)

    on_server(store, tmp_path, story, serve={"request_seconds": 0.5}, generator=slow)


def test_until_it_is_ready_only_probes_are_answered(store, tmp_path):
    async def story(served) -> None:
        served.app.state.traffic.is_ready = False
        client = served.client(served.key())
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        early = await client.post("/v1/ask", json={"question": OPENS})
        assert (early.status_code, early.json()["type"], "Retry-After" in early.headers) == (
            503,
            "urn:kb:Starting",
            True,
        )
        served.app.state.traffic.is_ready = served.app.state.traffic.is_draining = True
        late = await client.post("/v1/ask", json={"question": OPENS})
        assert (late.status_code, late.json()["type"]) == (503, "urn:kb:Draining")
        assert (await client.get("/readyz")).json()["checks"]["runtime"] == "ending"

    on_server(store, tmp_path, story)


def test_an_open_server_asks_for_no_key(store, tmp_path):
    async def story(served) -> None:
        assert (await served.client().get("/v1/models")).status_code == 200

    on_server(store, tmp_path, story, is_open=True)


def test_pages_elsewhere_may_call_only_where_they_are_named(store, tmp_path):
    origin = {"Origin": "https://app.test", "Access-Control-Request-Method": "POST"}

    async def closed(served) -> None:
        reply = await served.client().options("/v1/ask", headers=origin)
        assert "access-control-allow-origin" not in reply.headers

    async def named(served) -> None:
        reply = await served.client().options("/v1/ask", headers=origin)
        assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (200, "https://app.test")

    on_server(store, tmp_path, closed)
    on_server(store, tmp_path, named, serve={"cors_origins": ["https://app.test"]})


def test_metrics_ask_for_a_key_where_they_should(store, tmp_path):
    async def story(served) -> None:
        assert (await served.client().get("/metrics")).status_code == 401
        assert (await served.client(served.key()).get("/metrics")).status_code in (200, 404)

    on_server(store, tmp_path, story, serve={"metrics_key": True})


def test_a_ledger_that_is_away_tells_callers_nothing_of_where_it_is(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key())

        def away() -> object:
            raise LedgerUnavailable(f"postgresql://kb:{SECRET}@db/kb is away")

        store.ledger.read = away
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()["checks"]["ledger"]) == (503, "LedgerUnavailable")
        assert SECRET not in reply.text

    original = store.ledger.read
    try:
        on_server(store, tmp_path, story)
    finally:
        store.ledger.read = original
