"""What the pages of the console tell: numbers that hold for large stores, nothing cut off unsaid, and the way on."""

from __future__ import annotations

import re
from dataclasses import replace

import lxml.html

from governance import erase
from governance.console.pages import overview, sources, sweeps
from governance.reach import Wanted
from governance.selection import Selection
from kb.errors import LedgerUnavailable
from kb.history import AnswerId
from kb.model import Failure, Passage, SourceClass, SourceRoot, Standing
from kb.trust import DAY_MS, trusted
from tests.consoling import answered, contested, due, furnished, of_tenant, waiting
from tests.disputing import POLICIES, keep, policy
from tests.stores import T0


def words_of(reply):
    """Return what a page says, on one line."""
    return " ".join(" ".join(lxml.html.fromstring(reply.text).itertext()).split())


def tiles(reply):
    """Return what the tiles of the overview count."""
    page = lxml.html.fromstring(reply.text)
    return {link.get("href"): link.findtext("b") for link in page.xpath("//ul[@class='tiles']//a")}


def test_what_waits_is_counted_for_each_reason_and_says_where_it_was_not_counted_further(console, tenant, monkeypatch):
    contested(console.memories, tenant)
    due(console.memories, tenant)
    waiting(console.memories, tenant, *(f"Crane number {n} is painted yellow." for n in range(4)))
    visit = console.visitor(tenant)
    assert {k[-4:]: n for k, n in tiles(visit.get("/")).items() if "/queue" in k} == {
        "sted": "2",
        "=due": "1",
        "ined": "4",
    }
    monkeypatch.setattr(overview, "WAITING", 2)
    assert {k[-4:]: n for k, n in tiles(visit.get("/")).items() if "/queue" in k} == {
        "sted": "2",
        "=due": "1",
        "ined": "2+",
    }


def test_charts_are_read_out_as_numbers_and_an_empty_store_has_none(console, tenant):
    furnished(console.memories, tenant)
    page = lxml.html.fromstring(console.visitor(tenant).get("/").text)
    told = [[cell.text_content() for cell in row] for row in page.xpath("//details//tbody/tr")]
    bars = [title.text_content().split(": ") for title in page.xpath("//*[local-name()='title'][contains(., '–')]")]
    assert told
    assert told == [bar for bar in bars if bar[1] != "0"]
    assert re.search(r"tomorrow: \d+, in 30 days: \d+", page.xpath("//*[local-name()='svg']/@aria-label")[0])
    assert not lxml.html.fromstring(console.visitor(f"{tenant}x").get("/").text).xpath("//*[local-name()='svg']")


def test_a_preview_is_read_to_its_end_and_applied_as_it_was_read(console, tenant, monkeypatch):
    monkeypatch.setattr(sweeps, "SHOWN", 3)
    half_life, old = POLICIES[SourceClass.WEB].half_life, T0 - 900 * DAY_MS
    faded = [
        replace(
            of_tenant(tenant, f"f{n}", f"An old tram number {n} ran along the quay.", by=SourceClass.WEB),
            created_at=old, trust=trusted(0.6, old, half_life), standing=Standing.ACTIVE, standing_reason="",
        )
        for n in range(7)
    ]  # fmt: skip
    keep(console.memories, *faded)
    visit, seen, path, plans = console.visitor(tenant), [], "/sweeps/preview?job=prune", set()
    while path:
        reply = visit.get(path)
        page = lxml.html.fromstring(reply.text)
        seen += page.xpath("//tbody//a/@href")
        plans.add(page.xpath("string(//input[@name='plan']/@value)"))
        path = page.xpath("string(//p[@class='paging']/a/@href)").removeprefix("/console")
        console.clock.advance(1)
    assert sorted(seen) == sorted(f"/console/memories/{m.id}" for m in faded)
    assert len(plans) == 1
    fields = dict(re.findall(r'name="(job|at|plan)" value="(\w+)"', reply.text))
    assert visit.decide("/sweeps/apply", allow_mass="1", **fields).status_code == 303


def test_a_source_says_how_many_failed_and_that_it_was_never_synced(console, tenant, monkeypatch):
    monkeypatch.setattr(sources, "FAILURES", 2)
    with console.memories.ledger.write() as tx:
        tx.sources.put(SourceRoot(tenant=tenant, name="a" * 90, location="/x", source_class=SourceClass.DOCUMENT))
        for n in range(5):
            made = Failure(
                tenant=tenant, root="a" * 90, source=f"file://a/{n}", raw="", pipeline="", code="bad", message="b"
            )
            tx.failures.record(made)
    said = words_of(console.visitor(tenant).get("/sources"))
    assert "Failed documents (5)" in said
    assert "and 3 more" in said
    assert "last whole sync never" in said


def test_a_rollback_of_what_is_not_there_keeps_what_was_typed(console, tenant):
    visit = console.visitor(tenant)
    reply = visit.get("/rollback", params={"source": "no such <b>"})
    assert reply.status_code == 422
    page = lxml.html.fromstring(reply.text)
    assert page.xpath("string(//input[@name='source']/@value)") == "no such <b>"
    assert "nothing came from 'no such <b>'" in page.xpath("string(//*[@role='alert'])")
    assert visit.get("/rollback?memory=none").status_code == 404


def test_an_answer_says_why_it_ended_so_what_it_lacks_and_what_it_cost(console, tenant):
    one, _ = contested(console.memories, tenant)
    report = {"reasons": ["no_evidence"], "degraded": ["the model was away"], "missing": ["What of rain?"],
              "question": "What may the bridge carry?", "usage": {"tokens_in": 12345, "searches": 0}}  # fmt: skip
    answered(console.memories, tenant, one, id=AnswerId("x1" + tenant), outcome="partial", report=report)
    said = words_of(console.visitor(tenant).get(f"/answers/x1{tenant}"))
    for words in (
        "no_evidence",
        "the model was away",
        "What of rain?",
        "What may the bridge carry?",
        "tokens in 12,345",
    ):
        assert words in said
    assert "searches" not in said


def test_every_page_has_a_title_of_its_own_and_none_is_longer_than_a_tab_can_show(console, tenant):
    made, visit = furnished(console.memories, tenant), console.visitor(tenant)
    long = of_tenant(tenant, "long", "x", passage=Passage(end=1, title="endless" * 99))
    keep(console.memories, long)
    paths = ("/", "/queue", "/memories", f"/memories/{made['one'].id}", f"/memories/{made['note'].id}",
             f"/memories/{long.id}", f"/memories/{long.id}/lineage", "/sweeps", "/sweeps/preview?job=prune",
             "/sweeps/preview?job=gc", "/rollback", "/sources", "/answers", f"/answers/a-{tenant}", "/nowhere",
             "/queue?why=bad")  # fmt: skip
    titles = [lxml.html.fromstring(visit.get(path).text).findtext("head/title") for path in paths]
    assert len(set(titles)) == len(titles)
    assert max(map(len, titles)) < 90
    assert titles[-2] == "That did not work (404) · kb"


def test_what_is_away_is_told_with_when_to_come_back(console, tenant, monkeypatch):
    visit = console.visitor(tenant)

    def fail(*_args, **_named):
        raise LedgerUnavailable("the ledger is away", retry_after=7)

    monkeypatch.setattr(overview, "review_queue", fail)
    reply = visit.get("/")
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "7")
    assert "the ledger is away" in words_of(reply)


def test_what_is_gone_is_named_and_leads_nowhere(console, tenant):
    one = of_tenant(tenant, "one", "The bridge is open.")
    answered(console.memories, tenant, replace(one, id=f"gone-{tenant}"))
    keep(console.memories, one)
    visit = console.visitor(tenant)
    page = visit.get(f"/answers/a-{tenant}")
    assert "(gone)" in words_of(page)
    assert f"/memories/gone-{tenant}" not in page.text
    own, wanted = policy(tenant=tenant), Wanted(selection=Selection(memories=(one.id,)))
    done = erase.carried_out(
        console.memories, erase.surveyed(console.memories, wanted, own, T0), policy=own, actor="ada"
    )
    page = visit.get(f"/sweeps/{done.id}")
    assert "(gone)" in words_of(page)
    assert "/console/memories/" not in page.text


def test_words_find_what_waits_and_what_is_past_as_well_and_say_where_they_find_nothing(console, tenant):
    (note,) = waiting(console.memories, tenant)
    past = of_tenant(tenant, "past", "The east pier was closed for a storm.", standing=Standing.SUPERSEDED)
    out = of_tenant(tenant, "out", "The east pier was sold.", standing=Standing.RETIRED)
    keep(console.memories, past, out)
    visit = console.visitor(tenant)
    found = visit.get("/memories", params={"q": "east pier closed"}).text
    assert [m.id in found for m in (note, past, out)] == [True, True, False]
    reply = visit.get("/memories", params={"q": "east pier", "standing": "retired"})
    assert reply.status_code == 200
    assert "leave the words out" in words_of(reply)
    assert out.id in visit.get("/memories", params={"standing": "retired"}).text
