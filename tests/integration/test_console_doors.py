"""Who gets into the console and who decides there: every page for every kind of visitor, and every way to forge one."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

import pytest

from governance.console import pages
from kb.keys import Holder, KeyScope
from kb.model import SourceClass, Standing
from tests.consoling import Visit, furnished, now_of, of_tenant, open_console, standing_of, waiting
from tests.disputing import keep

QUERY, WRITE, GOVERN = KeyScope.QUERY, KeyScope.WRITE, KeyScope.GOVERN
HOUR_MS = 3_600_000
READ = {  # path as the application knows it: as it is asked for
    "/": "/",
    "/queue": "/queue",
    "/memories": "/memories",
    "/memories/{memory_id}": "/memories/{one}",
    "/memories/{memory_id}/lineage": "/memories/{one}/lineage",
    "/sweeps": "/sweeps",
    "/sweeps/preview": "/sweeps/preview?job=decay",
    "/sweeps/{sweep_id}": "/sweeps/{sweep}",
    "/rollback": "/rollback?memory={one}",
    "/sources": "/sources",
    "/answers": "/answers",
    "/answers/{answer_id}": "/answers/{answer}",
}
SENT = {
    "/decide": ("/decide", {"decision": "verify", "ids": "{note}"}),
    "/sweeps/apply": ("/sweeps/apply", {"job": "decay", "at": "1", "plan": "x"}),
    "/sweeps/{sweep_id}/undo": ("/sweeps/{sweep}/undo", {}),
    "/rollback": ("/rollback", {"memory": "{one}", "key": "{reach}", "sure": "1"}),
}
OPEN = {"/login", "/language/{language}", "/logout"}
OF_OTHERS = ("/memories/{memory_id}", "/memories/{memory_id}/lineage", "/sweeps/{sweep_id}", "/answers/{answer_id}")


@pytest.fixture
def made(console, tenant):
    """A tenant with something of everything, and the ids of it."""
    memories = furnished(console.memories, tenant)
    visit = console.visitor(tenant)
    done = visit.decide("/decide", decision="pin", ids=memories["due"].id)
    reach = visit.get(f"/rollback?memory={memories['one'].id}").text
    return {
        "sweep": re.search(r"done=(\w+)", done.headers["location"])[1],
        "reach": re.search(r'name="key" value="(\w+)"', reach)[1],
        "answer": f"a-{tenant}",
        **{name: m.id for name, m in memories.items()},
    }


def state(console, tenant):
    """Return all of a tenant that a decision would change."""
    with console.memories.ledger.read() as tx:
        return tx.sweeps.list(100, tenant=tenant), tx.memories.page("", 1_000, tenant=tenant)


def filled(fields, made):
    return {name: value.format(**made) for name, value in fields.items()}


def test_every_route_of_the_console_is_in_this_matrix():
    modules = [import_module(f"{pages.__name__}.{m.name}") for m in iter_modules(pages.__path__)]
    routers = [m.router for m in modules if hasattr(m, "router")]
    routes = {(m, r.path) for router in routers for r in router.routes for m in r.methods}
    assert {p for m, p in routes if m == "GET"} == set(READ) | OPEN - {"/logout"}
    assert {p for m, p in routes if m == "POST"} == set(SENT) | {"/login", "/logout"}


def test_every_page_shows_itself_to_exactly_who_may_look(console, tenant, made):
    kinds = {
        "nobody": (console.stranger(), 303),
        "reader": (console.visitor(tenant, QUERY), 200),
        "owner": (console.visitor(tenant, GOVERN), 200),
        "agent": (console.visitor(tenant, QUERY, WRITE, holder=Holder.AGENT), 200),
    }
    for who, (visit, expected) in kinds.items():
        for asked in READ.values():
            reply = visit.get(asked.format(**made))
            assert reply.status_code == expected, (who, asked, reply.text)
            if expected == 303:
                assert reply.headers["location"] == "/console/login"
    assert console.stranger().login(console.key(tenant, WRITE)).status_code == 403


def test_only_a_person_whose_key_governs_decides(console, tenant, made):
    before = state(console, tenant)
    for scopes, holder in (((QUERY,), Holder.PERSON), ((QUERY, WRITE), Holder.PERSON), ((QUERY,), Holder.AGENT)):
        visit = console.visitor(tenant, *scopes, holder=holder)
        page = visit.get("/queue").text
        assert "/decide" not in page
        token = visit.token()
        for path, fields in SENT.values():
            reply = visit.post(path.format(**made), data={"csrf": token, **filled(fields, made)})
            assert reply.status_code == 403, (scopes, path)
    for path, fields in SENT.values():
        reply = console.stranger().post(path.format(**made), data=filled(fields, made))
        assert (reply.status_code, reply.headers["location"]) == (303, "/console/login")
    assert state(console, tenant) == before
    owner = console.visitor(tenant)
    for path in ("/rollback", "/decide", "/sweeps/{sweep_id}/undo"):
        asked, fields = SENT[path]
        reply = owner.decide(asked.format(**made), **filled(fields, made))
        assert reply.status_code == 303, (path, reply.text)
        assert "/login" not in reply.headers["location"]


def test_of_another_tenant_nothing_is_shown_and_nothing_is_done(console, tenant, made):
    stranger = console.visitor(f"{tenant}x")
    before = state(console, tenant)
    for path in OF_OTHERS:
        assert stranger.get(READ[path].format(**made)).status_code == 404, path
    assert stranger.get(f"/rollback?memory={made['one']}").status_code == 404
    for path in ("/decide", "/sweeps/{sweep_id}/undo", "/rollback"):
        asked, fields = SENT[path]
        assert stranger.decide(asked.format(**made), **filled(fields, made)).status_code == 404, path
    theirs = console.visitor(tenant).get("/sweeps/preview?job=decay").text
    fields = dict(re.findall(r'name="(job|at|plan)" value="(\w+)"', theirs)) or {"job": "decay", "at": "1", "plan": "x"}
    assert stranger.decide("/sweeps/apply", **fields).status_code == 409
    assert f"/sweeps/{made['sweep']}" not in stranger.get(f"/queue?done={made['sweep']}").text
    assert state(console, tenant) == before


def forgeries(console, tenant, visit):
    token, other = visit.token(), console.visitor(tenant).token()
    here = re.match(r"https?://[^/]+", console.url)[0]
    yield "no token", {}, {}
    yield "an empty token", {"csrf": ""}, {}
    yield "another session's token", {"csrf": other}, {}
    yield "a token that is no text", {"csrf": "é\u202e"}, {}
    for site in ("cross-site", "same-site"):
        yield site, {"csrf": token}, {"sec-fetch-site": site}
    for origin in ("https://evil.test", "null", here + ".evil.test", here.replace("127.0.0.1", "127.0.0.2")):
        yield origin, {"csrf": token}, {"origin": origin}


def test_a_form_that_another_site_sends_does_nothing(console, tenant, made):
    visit = console.visitor(tenant)
    before = state(console, tenant)
    for what, fields, headers in forgeries(console, tenant, visit):
        for path, own in SENT.values():
            reply = visit.post(path.format(**made), data={**filled(own, made), **fields}, headers=headers)
            assert reply.status_code == 403, (what, path)
        assert visit.post("/logout", data=fields, headers=headers).status_code == 403, what
    assert state(console, tenant) == before
    key = console.key(tenant)
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.test"}):
        reply = console.stranger().login(key, headers=headers)
        assert reply.status_code == 403
        assert "set-cookie" not in reply.headers
    here = re.match(r"https?://[^/]+", console.url)[0]
    good = {"csrf": visit.token(), "decision": "pin", "ids": made["note"]}
    assert (
        visit.post("/decide", data=good, headers={"origin": here, "sec-fetch-site": "same-origin"}).status_code == 303
    )


def test_a_session_ends_with_its_time_its_key_or_its_truth(console, tenant, made):
    visit, other = console.visitor(tenant), console.visitor(tenant)
    cookie = visit.cookies["kb_session"]
    key_id, since, logouts, nonce, mac = cookie.split(".")
    forged = [
        f"{key_id}.{since}.{logouts}.{nonce}.{'0' * 64}",
        f"{key_id}.{int(since) + 1}.{logouts}.{nonce}.{mac}",
        f"{key_id}.{since}.{int(logouts) + 1}.{nonce}.{mac}",
        f"{other.cookies['kb_session'].split('.')[0]}.{since}.{logouts}.{nonce}.{mac}",
        f"{key_id}.{since}.{logouts}.{nonce}",
        f"{key_id}.{since}.{nonce}.{mac}",
        f"{key_id}.{since}.{logouts}.{nonce}.{mac}.{mac}",
        f"{key_id}.99999999999999999999999.{logouts}.{nonce}.{mac}",
        f"{key_id}.{since}.-1.{nonce}.{mac}",
        f"{key_id}.{since}.x.{nonce}.{mac}",
        "",
        "a" * 4_000,
    ]
    for value in forged:
        with Visit(console.url) as liar:
            assert liar.get("/queue", headers={"cookie": f"kb_session={value}"}).status_code == 303, value
    assert visit.get("/queue").status_code == 200
    console.clock.instant += 12 * HOUR_MS
    try:
        assert visit.get("/queue").status_code == 303
    finally:
        console.clock.instant -= 12 * HOUR_MS
    with console.memories.ledger.write() as tx:
        assert tx.keys.revoke(key_id, tenant, console.clock.now())
    assert visit.get("/queue").status_code == 303
    assert visit.post("/decide", data={"decision": "pin", "ids": made["note"]}).status_code == 303
    assert other.get("/queue").status_code == 200


def test_logging_out_takes_the_cookie_away_and_a_wrong_key_gives_none(console, tenant):
    visit = console.visitor(tenant)
    reply = visit.decide("/logout")
    assert reply.headers["location"] == "/console/login"
    assert 'kb_session=""' in reply.headers["set-cookie"]
    assert visit.get("/").status_code == 303
    for key in ("", "kb_x", console.key(tenant)[:-1] + "_", "k" * 256):
        reply = console.stranger().login(key)
        assert reply.status_code == 401, key
        assert "set-cookie" not in reply.headers
        assert key not in reply.text or not key


def test_logging_out_ends_what_was_logged_in_with_the_key_and_nothing_else(console, tenant):
    key, other = console.key(tenant), console.visitor(tenant)
    visit, second = console.stranger(), console.stranger()
    assert [v.login(key).status_code for v in (visit, second)] == [303, 303]
    copied = {"cookie": f"kb_session={visit.cookies['kb_session']}"}
    token = visit.token()
    assert console.stranger().get("/queue", headers=copied).status_code == 200
    assert visit.decide("/logout").status_code == 303
    assert console.stranger().get("/queue", headers=copied).status_code == 303
    forged = console.stranger().post("/decide", data={"csrf": token, "decision": "pin", "ids": "x"}, headers=copied)
    assert (forged.status_code, forged.headers["location"]) == (303, "/console/login")
    assert second.get("/queue").status_code == 303  # the same key in another browser
    assert other.get("/queue").status_code == 200
    assert visit.login(key).status_code == 303  # within the same millisecond: the clock of tests stands still
    assert visit.get("/queue").status_code == 200
    assert visit.decide("/logout").status_code == 303
    assert visit.get("/queue").status_code == 303


def test_cookies_are_seen_by_no_script_sent_by_no_other_site_and_kept_to_the_console(console, tenant):
    key = console.key(tenant)
    for headers in ({}, {"x-forwarded-proto": "https"}):
        replies = [
            console.stranger().login(key, headers=headers),
            console.stranger().get("/language/zh", headers=headers),
        ]
        for reply in replies:
            said = {part.strip().lower() for part in reply.headers["set-cookie"].split(";")}
            assert {"httponly", "samesite=strict", "path=/console"} <= said
            assert ("secure" in said) == bool(headers)


def test_no_way_out_of_the_console_is_a_way_to_another_site(console, tenant):
    visit, (note, *_) = console.visitor(tenant), waiting(console.memories, tenant)
    for back in ("//evil.test", "/\\evil.test", "https://evil.test", "/\t/evil.test", "javascript:alert(1)",
                 "/%0d%0aX: y", "\\\\evil.test", "/queue\r\nX: y", "//evil.test/%2f..", "evil.test"):  # fmt: skip
        reply = visit.get("/language/zh", params={"back": back})
        assert reply.status_code == 303
        assert re.match(r"/console/(?![/\\])", reply.headers["location"]), back
        assert "x" not in reply.headers
        reply = visit.decide("/decide", decision="pin", ids=note.id, back=back)
        assert reply.headers["location"].startswith("/console/queue?"), back
        visit.decide("/decide", decision="unpin", ids=note.id)
    reply = visit.get("/language/zh", params={"back": "/queue?why=due&page=2"})
    assert reply.headers["location"] == "/console/queue?why=due&page=2"


def test_every_reply_carries_the_headers_that_protect_its_reader(console, tenant, made):
    visit = console.visitor(tenant)
    replies = [visit.get(p.format(**made)) for p in READ.values()]
    replies += [
        visit.get(p) for p in ("/login", "/nowhere", "/queue?why=bad", "/static/console.css", "/static/none.js")
    ]
    replies += [console.stranger().get("/queue"), visit.post("/decide"), visit.put("/queue"), visit.get("")]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy, reply.url
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert reply.headers["cache-control"] == ("no-cache" if "/static/" in str(reply.url) else "no-store"), reply.url


def test_logins_count_against_the_rate_of_their_address(tmp_path, tenant):
    with open_console(tmp_path, serve={"burst": 3, "rate_per_minute": 0.01}) as console:
        key = console.key(tenant)
        stranger = console.stranger()
        codes = [stranger.login("kb_wrong").status_code for _ in range(4)]
        assert codes == [401, 401, 401, 429]
        reply = console.stranger().login(key)  # from the same address
        assert reply.status_code == 429
        assert int(reply.headers["retry-after"]) > 0
        assert console.stranger().get("/login").status_code == 200


def test_rollback_and_erasure_ask_for_a_tick_even_without_scripts(console, tenant, made):
    visit, before = console.visitor(tenant), state(console, tenant)
    fields = {"memory": made["one"], "key": made["reach"]}
    assert visit.decide("/rollback", **fields).status_code == 422
    assert visit.decide("/sweeps/apply", job="gc", at="1", plan="x").status_code == 422
    assert state(console, tenant) == before


def test_what_is_refused_keeps_the_readers_language_and_way(console, tenant, made):
    visit = console.visitor(tenant)
    visit.cookies.set("kb_language", "zh", domain="127.0.0.1", path="/console")
    for reply in (
        visit.get("/nowhere"),
        visit.get("/memories/none"),
        visit.get("/queue?why=bad"),
        visit.decide("/decide"),
    ):
        assert reply.status_code >= 400
        assert 'lang="zh-Hans"' in reply.text
        assert "操作未成功" in reply.text
        assert 'href="/console/queue"' in reply.text


def test_a_decision_keeps_its_place_in_the_queue(console, tenant):
    notes = waiting(console.memories, tenant, *(f"Crane number {n} is painted yellow." for n in range(60)))
    visit = console.visitor(tenant)
    second = visit.get("/queue?page=2&why=quarantined").text
    assert notes[25].id in second
    order = re.search(r'name="order" value="([^"]*)"', second)[1]
    assert order.split() == [n.id for n in notes[25:50]]
    place = {"page": "2", "why": "quarantined", "order": order}
    reply = visit.decide(f"/decide?one={notes[30].id}", decision="verify", **place)
    assert re.fullmatch(r"/console/queue\?done=\w+&why=quarantined&page=2&at=6#i-6", reply.headers["location"])
    after = visit.get(reply.headers["location"].removeprefix("/console")).text
    assert re.search(rf'<li class="item at" tabindex="-1" id="i-6">.*?{notes[31].id}', after, re.DOTALL)
    assert standing_of(console, notes[30]) is Standing.ACTIVE
    assert visit.decide("/decide", decision="reject", ids=[n.id for n in notes[50:]]).status_code == 303
    assert notes[49].id in visit.get("/queue?page=3").text  # the last page was decided away but for what moved up


def test_a_button_of_one_memory_decides_on_it_alone(console, tenant):
    one, two = waiting(console.memories, tenant, "Crane one is yellow.", "The pier is made of oak.")
    visit = console.visitor(tenant)
    assert visit.decide(f"/decide?one={one.id}", decision="verify", ids=[two.id]).status_code == 303
    assert (standing_of(console, one), standing_of(console, two)) == (Standing.ACTIVE, Standing.QUARANTINED)
    assert now_of(console, two).rev == two.rev


def test_a_decision_that_cannot_be_carried_out_says_why(console, tenant):
    gone = replace(
        of_tenant(tenant, "gone", "The lock gates were replaced.", by=SourceClass.DOCUMENT),
        standing=Standing.SUPERSEDED,
        valid_to=console.clock.now(),
    )
    keep(console.memories, gone)
    reply = console.visitor(tenant).decide("/decide", decision="verify", ids=gone.id)
    assert reply.status_code == 409
    assert gone.id in reply.text
