"""Memories, documents and governance over HTTP: whole stories, and who may do what, exactly."""

from __future__ import annotations

import asyncio
import re

import pytest

from kb.keys import Holder, KeyScope
from kb.model import SourceClass
from tests.disputing import FORTY, keep, said
from tests.served import NOON, OPENS, open_server, with_bridge

QUERY, WRITE, GOVERN = KeyScope.QUERY, KeyScope.WRITE, KeyScope.GOVERN
ALL = (QUERY, WRITE, GOVERN)
WAITS = said("waits", FORTY, by=SourceClass.AGENT)
OTHERS = said("theirs", FORTY, tenant="theirs")


def on_server(store, tmp_path, story, **options):
    async def run() -> None:
        async with open_server(store, tmp_path, **options) as served:
            await story(served)

    asyncio.run(run())


def ok(reply, status=200):
    assert reply.status_code == status, reply.text
    return reply.json()


NOTE = {"text": "The harbour closes at ten."}
ENDPOINTS = [  # method, path, what is sent, the scopes that do, and what comes of it for who may
    ("GET", "/v1/memories", None, {QUERY}, 200),
    ("POST", "/v1/memories", NOTE, {WRITE}, 201),
    ("GET", f"/v1/memories/{WAITS.id}", None, {QUERY}, 200),
    ("GET", f"/v1/memories/{WAITS.id}/trace", None, {QUERY}, 200),
    ("GET", f"/v1/memories/{WAITS.id}/explain", None, {QUERY}, 200),
    ("POST", f"/v1/memories/{WAITS.id}/annotate", {"reason": "seen"}, {WRITE}, 200),
    ("GET", "/v1/answers/nowhere", None, {QUERY}, 404),
    ("POST", "/v1/answers/nowhere/feedback", {"good": True}, {WRITE}, 404),
    ("DELETE", "/v1/ingest/uploads/none.md", None, {WRITE}, 422),
    ("POST", "/v1/governance/plan", {"job": "prune"}, {GOVERN}, 200),
    ("POST", "/v1/governance/apply", {"plan": {}}, {GOVERN}, 422),
    ("POST", "/v1/governance/undo", {"sweep_id": "none"}, {GOVERN}, 404),
    ("POST", "/v1/governance/rollback", {"memories": [WAITS.id]}, {GOVERN}, 200),
    ("GET", "/v1/governance/history", None, {GOVERN}, 200),
    ("GET", "/v1/governance/sweeps/none", None, {GOVERN}, 404),
    ("GET", "/v1/governance/forecast?days=3", None, {GOVERN}, 200),
    ("GET", "/v1/governance/policy", None, {GOVERN}, 200),
    ("GET", "/v1/governance/review", None, {GOVERN}, 200),
]
DECISIONS = [("POST", f"/v1/memories/{WAITS.id}/{d}", {"reason": "known"}) for d in ("verify", "reject", "pin")]


def test_every_endpoint_lets_in_exactly_the_keys_that_have_its_scope(store, tmp_path):
    keep(store, WAITS)

    async def story(served) -> None:
        for scope in (None, *KeyScope):
            client = served.client(None if scope is None else served.key(scope))
            for method, path, body, scopes, done in ENDPOINTS:
                reply = await client.request(method, path, json=body)
                expected = 401 if scope is None else done if scope in scopes else 403
                assert reply.status_code == expected, (scope, method, path, reply.text)
                if expected >= 400:
                    assert reply.headers["content-type"].startswith("application/problem+json")

    on_server(store, tmp_path, story)


def test_to_decide_takes_both_writing_and_governing(store, tmp_path):
    keep(store, WAITS)

    async def story(served) -> None:
        for scopes, expected in (((QUERY,), 403), ((WRITE,), 403), ((GOVERN,), 403), ((WRITE, GOVERN), 200)):
            client = served.client(served.key(*scopes))
            for method, path, body in DECISIONS:
                reply = await client.request(method, path, json=body)
                assert reply.status_code == expected, (scopes, path, reply.text)

    on_server(store, tmp_path, story)


def test_a_key_sees_and_touches_nothing_of_another_tenant(store, tmp_path):
    keep(store, WAITS, OTHERS)

    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        theirs = served.client(served.key(*ALL, tenant="theirs"))
        for path in (
            f"/v1/memories/{OTHERS.id}",
            f"/v1/memories/{OTHERS.id}/trace",
            f"/v1/memories/{OTHERS.id}/explain",
        ):
            assert (await client.get(path)).status_code == 404
            assert (await theirs.get(path)).status_code == 200
        for decision in ("verify", "reject", "pin", "restore", "annotate"):
            reply = await client.post(f"/v1/memories/{OTHERS.id}/{decision}", json={"reason": "mine now"})
            assert reply.status_code == 404, reply.text
        listed = ok(await client.get("/v1/memories"))["memories"]
        assert [m["id"] for m in listed] == [WAITS.id]
        assert (await client.post("/v1/governance/rollback", json={"memories": [OTHERS.id]})).status_code == 404
        made = ok(await theirs.post("/v1/governance/plan", json={"job": "decay"}))
        refused = await client.post("/v1/governance/apply", json={"plan": made})
        assert refused.status_code == 422
        done = ok(await theirs.post(f"/v1/memories/{OTHERS.id}/pin"))
        undo = await client.post("/v1/governance/undo", json={"sweep_id": done["sweep_id"]})
        assert undo.status_code == 404
        assert (await client.get(f"/v1/governance/sweeps/{done['sweep_id']}")).status_code == 404

    on_server(store, tmp_path, story)


def test_what_an_agent_writes_waits_and_it_can_neither_vouch_nor_upload(store, tmp_path):
    keep(store, WAITS)

    async def story(served) -> None:
        agent = served.client(served.key(QUERY, WRITE, name="bot", holder=Holder.AGENT))
        made = ok(await agent.post("/v1/memories", json=NOTE), 201)
        assert (made["standing"], made["source_class"], made["verified"]) == ("quarantined", "agent", False)
        assert (await agent.post("/v1/memories", json={**NOTE, "confidence": 1.0})).status_code == 403
        for decision in ("verify", "restore", "pin"):
            assert (await agent.post(f"/v1/memories/{made['id']}/{decision}")).status_code == 403
        files = {"files": ("fact.md", b"# Bridge\n\nIt carries nine hundred tons.\n")}
        assert (await agent.post("/v1/ingest", files=files)).status_code == 403
        remark = ok(await agent.post(f"/v1/memories/{WAITS.id}/annotate", json={"reason": "looked at it"}))
        assert remark["sweep_id"]
        person = served.client(served.key(QUERY, WRITE))
        noted = ok(await person.post("/v1/memories", json={"text": "The harbour opens at six."}), 201)
        assert (noted["standing"], noted["source_class"]) == ("active", "person")

    on_server(store, tmp_path, story)


def test_a_decision_is_journaled_under_the_keys_name_and_taken_back(store, tmp_path):
    keep(store, WAITS, said("second", NOON, by=SourceClass.AGENT))

    async def story(served) -> None:
        client = served.client(served.key(*ALL, name="ann of the harbour"))
        body = {"decision": "verify", "ids": [WAITS.id, "m-second"], "reason": "measured it"}
        done = ok(await client.post("/v1/memories/decisions", json=body))
        assert [m["verified"] for m in done["memories"]] == [True, True]
        sweep = ok(await client.get(f"/v1/governance/sweeps/{done['sweep_id']}"))
        assert (sweep["actor"], sweep["reason"], len(sweep["actions"])) == ("ann of the harbour", "measured it", 2)
        explained = ok(await client.get(f"/v1/memories/{WAITS.id}/explain"))
        assert explained["passes_gate"]
        undone = ok(await client.post("/v1/governance/undo", json={"sweep_id": done["sweep_id"]}))
        assert undone["undoes"] == done["sweep_id"]
        assert ok(await client.get(f"/v1/memories/{WAITS.id}"))["standing"] == "quarantined"
        again = await client.post("/v1/governance/undo", json={"sweep_id": done["sweep_id"]})
        assert again.status_code == 409
        assert len(ok(await client.get("/v1/governance/history"))["sweeps"]) == 2

    on_server(store, tmp_path, story)


def test_an_answer_is_asked_for_looked_into_and_judged(store, tmp_path):
    with_bridge(store)

    async def story(served) -> None:
        client = served.client(served.key(QUERY, WRITE))
        answer = ok(await client.post("/v1/ask", json={"question": OPENS}))
        cited = answer["citations"][0]["memory_id"]
        before = ok(await client.get(f"/v1/memories/{cited}"))["effective_confidence"]
        assert ok(await client.get(f"/v1/answers/{answer['answer_id']}"))["question"] == OPENS
        path = f"/v1/answers/{answer['answer_id']}/feedback"
        moved = ok(await client.post(path, json={"good": False}))
        assert [e["memory_id"] for e in moved["events"]] == [cited]
        assert ok(await client.get(f"/v1/memories/{cited}"))["effective_confidence"] < before
        assert ok(await client.post(path, json={"good": False}))["events"] == []
        trace = ok(await client.get(f"/v1/memories/{cited}/trace?up=false"))
        assert answer["answer_id"] in {step["id"] for step in trace["down"]}

    on_server(store, tmp_path, story)


def test_a_poisoned_source_is_surveyed_rolled_back_and_brought_back(store, tmp_path):
    keep(store, said("good", FORTY), said("bad", NOON))

    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        reach = ok(await client.post("/v1/governance/rollback", json={"source": "file://bad/"}))
        assert reach["plan"]
        assert ok(await client.get("/v1/memories/m-bad"))["standing"] == "active"
        done = ok(await client.post("/v1/governance/rollback", json={"source": "file://bad/", "apply": True}))
        standings = {i: ok(await client.get(f"/v1/memories/m-{i}"))["standing"] for i in ("good", "bad")}
        assert standings == {"good": "active", "bad": "quarantined"}
        ok(await client.post("/v1/governance/undo", json={"sweep_id": done["sweep_id"]}))
        assert ok(await client.get("/v1/memories/m-bad"))["standing"] == "active"

    on_server(store, tmp_path, story)


def test_a_plan_is_applied_exactly_or_refused(store, tmp_path):
    keep(store, said("faded", FORTY), said("fresh", NOON))

    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        store.clock.advance(120 * 86_400_000)
        plan = ok(await client.post("/v1/governance/plan", json={"job": "decay"}))
        assert plan["actions"]
        tampered = {**plan, "actions": [{**a, "action": "verify"} for a in plan["actions"]]}
        assert (await client.post("/v1/governance/apply", json={"plan": tampered})).status_code == 422
        done = ok(await client.post("/v1/governance/apply", json={"plan": plan}))
        assert done["status"] == "done"
        stale = await client.post("/v1/governance/apply", json={"plan": plan})
        assert (stale.status_code, bool(stale.json()["moved"])) == (409, True)

    on_server(store, tmp_path, story)


def test_an_upload_is_ingested_replaced_renewed_by_the_sync_and_taken_away(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        one = {"files": ("bridge.md", f"# Bridge\n\n{FORTY}\n".encode())}
        report = ok(await client.post("/v1/ingest", files=one))
        assert (report["documents"]["added"], report["exit_code"], report["files"]) == (1, 0, ["bridge.md"])
        two = {"files": ("bridge.md", f"# Bridge\n\n{NOON}\n".encode())}
        assert ok(await client.post("/v1/ingest", files=two))["documents"]["changed"] == 1
        active = ok(await client.get("/v1/memories?standing=active"))["memories"]
        assert [NOON in m["text"] for m in active] == [True]
        with store.ledger.read() as tx:
            assert [root.name for root in tx.sources.list("default")] == ["uploads"]
        vouched = await client.post("/v1/ingest", files=one, data={"trust": "curated", "source": "known"})
        assert ok(vouched)["documents"]["added"] == 1
        assert ok(await client.delete("/v1/ingest/uploads/bridge.md"))["documents"]["removed"] == 1
        texts = [m["text"] for m in ok(await client.get("/v1/memories?standing=active"))["memories"]]
        assert not any(NOON in text for text in texts)

    on_server(store, tmp_path, story)


@pytest.mark.parametrize("name", ["../../etc/passwd.md", "..", ".hidden.md", "a\x00b.md", "x" * 250 + ".md"])
def test_no_name_of_a_file_leads_out_of_its_folder(store, tmp_path, name):
    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        reply = await client.post("/v1/ingest", files={"files": (name, b"# Words\n\nSome words of a file.\n")})
        assert reply.status_code in (200, 400, 422)
        kept = [p for p in (tmp_path / "uploads").rglob("*") if p.is_file()]
        assert {p.parent.name for p in kept} <= {"uploads"}
        assert not [p for p in kept if p.name.startswith(".")]
        assert not list(tmp_path.parent.glob("passwd.md"))

    on_server(store, tmp_path, story)


def test_what_is_too_large_or_said_twice_is_refused_and_leaves_nothing(store, tmp_path):
    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        large = {"files": ("large.md", b"a" * 60_000)}
        assert (await client.post("/v1/ingest", files=large)).status_code == 413
        twice = [("files", ("same.md", b"# One\n\nwords")), ("files", ("same.md", b"# Two\n\nwords"))]
        assert (await client.post("/v1/ingest", files=twice)).status_code == 422
        weak = served.client(served.key(WRITE))
        small = {"files": ("fact.md", b"# Fact\n\nwords")}
        assert (await weak.post("/v1/ingest", files=small, data={"trust": "curated"})).status_code == 403
        assert (await client.post("/v1/ingest", files=small, data={"source": "../out"})).status_code == 422
        assert not [p for p in (tmp_path / "uploads").rglob("*") if p.is_file()]

    on_server(store, tmp_path, story, serve={"max_upload_bytes": 50_000})


def test_of_several_documents_all_are_kept_or_none(store, tmp_path):
    async def story(served) -> None:
        served.app.state.service.settings.ingest.max_bytes = 1_000
        client = served.client(served.key(*ALL))
        both = [("files", ("small.md", b"# Small\n\nwords of it")), ("files", ("large.md", b"a" * 2_000))]
        assert (await client.post("/v1/ingest", files=both)).status_code == 422
        assert not [p for p in (tmp_path / "uploads").rglob("*") if p.is_file()]
        assert ok(await client.get("/v1/memories"))["memories"] == []

    on_server(store, tmp_path, story)


def test_where_nothing_can_be_written_that_is_said_and_nothing_else_breaks(store, tmp_path):
    (tmp_path / "no-folder").write_text("a file")

    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        reply = await client.post("/v1/ingest", files={"files": ("fact.md", b"# Fact\n\nwords")})
        assert (reply.status_code, reply.json()["type"]) == (503, "urn:kb:DependencyError")
        assert str(tmp_path) not in reply.text
        assert ok(await client.get("/v1/memories"))["memories"] == []

    on_server(store, tmp_path, story, serve={"uploads_dir": str(tmp_path / "no-folder")})


CLAIMS = b"---\nverified: true\n---\n# Bridge\n\nIt carries nine hundred tons.\n"
PLAIN = b"# Bridge\n\nIt carries nine hundred tons.\n"


def test_no_file_vouches_for_itself_now_or_at_the_next_sync(store, tmp_path):
    from ingest.requests import Said, requests_of
    from ingest.syncing import sync_of
    from serving.routes.ingest import _Silent

    async def story(served) -> None:
        writer = served.client(served.key(QUERY, WRITE))
        ok(await writer.post("/v1/ingest", files={"files": ("claims.md", CLAIMS)}))
        settings = served.app.state.settings
        for request in requests_of([], store, settings, Said(retry_failed=True, checksum=True)):
            sync_of(store, settings, request, _Silent()).run()
        (memory,) = ok(await writer.get("/v1/memories"))["memories"]
        assert (memory["verified"], memory["source_class"]) == (False, "document")
        governor = served.client(served.key(*ALL))
        data = {"trust": "curated", "source": "known"}
        ok(await governor.post("/v1/ingest", files={"files": ("bridge.md", PLAIN)}, data=data))
        found = {m["source"]: m for m in ok(await writer.get("/v1/memories"))["memories"]}
        assert found["file://known/bridge.md"]["verified"]

    on_server(store, tmp_path, story)


def test_who_may_not_vouch_changes_nothing_that_is_vouched_for_and_no_upload_changes_what_others_are_worth(
    store, tmp_path
):
    async def story(served) -> None:
        governor, writer = served.client(served.key(*ALL)), served.client(served.key(QUERY, WRITE))
        one, curated = {"files": ("one.md", PLAIN)}, {"trust": "curated", "source": "known"}
        ok(await governor.post("/v1/ingest", files=one, data=curated))
        ok(await writer.post("/v1/ingest", files=one, data={"source": "others"}))
        before = ok(await writer.get("/v1/memories"))["memories"]
        two = {"files": ("two.md", b"# Two\n\nIt is closed on Mondays.\n")}
        statuses = [
            (await writer.post("/v1/ingest", files=two, data={"source": "known"})).status_code,
            (await writer.delete("/v1/ingest/known/one.md")).status_code,
            (await governor.post("/v1/ingest", files=two, data={"source": "known"})).status_code,
            (await governor.post("/v1/ingest", files=two, data={"trust": "curated", "source": "others"})).status_code,
        ]
        assert statuses == [403, 403, 409, 409]
        assert ok(await writer.get("/v1/memories"))["memories"] == before
        kept = {p.name for p in (tmp_path / "uploads").rglob("*") if p.is_file()}
        assert kept == {"one.md"}
        ok(await governor.post("/v1/ingest", files=two, data=curated))
        ok(await governor.delete("/v1/ingest/known/one.md"))

    on_server(store, tmp_path, story)


def test_an_upload_takes_the_name_of_no_folder_that_is_the_operators(store, tmp_path):
    from kb.model import SourceRoot

    root = SourceRoot(name="wiki", tenant="default", location=str(tmp_path / "wiki"), source_class=SourceClass.DOCUMENT)
    with store.ledger.write() as tx:
        tx.sources.put(root)

    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        reply = await client.post("/v1/ingest", files={"files": ("bridge.md", PLAIN)}, data={"source": "wiki"})
        assert (reply.status_code, str(tmp_path) in reply.text) == (409, False)
        assert not (tmp_path / "uploads").exists()

    on_server(store, tmp_path, story)


COMMAND_LINE = re.compile(r"`kb |--[a-z]|kb\.toml|\bkb (memory|govern)")
MISTAKES = [
    ("GET", "/v1/memories/none", None),
    ("POST", "/v1/memories", {**NOTE, "derived_from": ["none"]}),
    ("POST", f"/v1/memories/{WAITS.id}/annotate", {}),
    ("POST", "/v1/memories", {"text": "桥" * 8_000}),
    ("GET", "/v1/answers/none", None),
    ("POST", "/v1/governance/apply", {"plan": {}}),
    ("POST", "/v1/governance/undo", {"sweep_id": "none"}),
    ("POST", "/v1/governance/rollback", {}),
    ("POST", "/v1/governance/rollback", {"source": "file://none/"}),
    ("POST", "/v1/governance/rollback", {"batch": "none"}),
    ("POST", "/v1/governance/rollback", {"batch": "none", "since": 1}),
    ("POST", "/v1/ask/resume", {"thread": "none"}),
    ("GET", "/v1/models/none", None),
    ("POST", "/v1/search", {"question": OPENS, "at": "never"}),
]


def test_what_is_said_of_a_mistake_can_be_followed_over_http(store, tmp_path):
    keep(store, WAITS)

    async def story(served) -> None:
        client = served.client(served.key(*ALL))
        for method, path, body in MISTAKES:
            reply = await client.request(method, path, json=body)
            assert 400 <= reply.status_code < 500, (path, reply.text)
            assert not COMMAND_LINE.search(reply.text), reply.text
        nobody = await served.client().get("/v1/memories")
        assert not COMMAND_LINE.search(nobody.text)

    on_server(store, tmp_path, story)
