"""A web finding is one thing as evidence and as a memory: quarantined, credited, storable."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Finding, Origin
from crag_runtime.recording.findings import TEXT_BYTES, WEB_PRIOR, as_evidence, finding_id, finding_memory
from kb.history import AnswerId
from kb.ids import embed_hash, web_id
from kb.ledger.checks import checked_source, checked_text
from kb.memories import NOTE_BYTES
from kb.model import Kind, Memory, Scope, SourceClass, Standing
from kb.passages import embedded_as
from kb.settings import Settings
from kb.trust import passes

NOW = 1_800_000_000_000
FINDING = Finding(url="https://www.a.example/x?q=1", title="Bridge", text="It opened in 1932.", published=NOW - 1000)


def memory_of(finding: Finding = FINDING, **changes: object) -> Memory:
    given_ = {
        "tenant": "t",
        "scope": Scope(user="ada"),
        "query": "when did the bridge\nopen",
        "provider": "tavily",
        "answer_id": AnswerId("answer"),
        "policy": WEB_PRIOR,
        "now": NOW,
    }
    return finding_memory(finding, **{**given_, **changes})


def test_a_finding_waits_in_quarantine_with_where_when_and_why_it_was_found():
    memory = memory_of()
    assert (memory.kind, memory.source_class, memory.standing) == (Kind.WEB, SourceClass.WEB, Standing.QUARANTINED)
    assert memory.standing_reason
    assert memory.source == "https://www.a.example/x?q=1"
    assert memory.metadata == {
        "url": "https://www.a.example/x?q=1",
        "fetched_at": NOW,
        "query": "when did the bridge open",
        "provider": "tavily",
        "answer_id": "answer",
        "published": NOW - 1000,
    }
    assert (memory.valid_from, memory.created_at, memory.trust.verified) == (NOW - 1000, NOW, False)
    assert memory.embed_hash == embed_hash(embedded_as(memory))
    assert not passes(memory.trust, 0.7, NOW, WEB_PRIOR.half_life)


def test_a_page_of_the_future_holds_from_now():
    memory = memory_of(replace(FINDING, published=NOW + 5))
    assert memory.valid_from == NOW
    assert "published" not in memory_of(replace(FINDING, published=None)).metadata


def test_the_same_finding_is_one_thing_as_evidence_and_as_memory():
    id_ = finding_id(FINDING, tenant="t", scope=Scope(user="ada"))
    memory, evidence = memory_of(), as_evidence(FINDING, id_=id_, now=NOW, score=0.5)
    assert (memory.id, memory.text, memory.source) == (evidence.id, evidence.text, evidence.source)
    assert (evidence.origin, evidence.root, evidence.verified) == (Origin.WEB, "a.example", False)
    assert (evidence.fetched, evidence.dated, evidence.rev, evidence.score) == (NOW, NOW - 1000, 0, 0.5)
    assert evidence.confidence == WEB_PRIOR.confidence == memory.trust.confidence


def test_the_prior_of_this_module_is_the_settings_own():
    assert Settings().policies[SourceClass.WEB] == WEB_PRIOR
    assert TEXT_BYTES == NOTE_BYTES


def test_an_id_is_content_and_owner():
    ids = {
        web_id("t", "https://a.example/", "text", Scope()),
        web_id("u", "https://a.example/", "text", Scope()),
        web_id("t", "https://b.example/", "text", Scope()),
        web_id("t", "https://a.example/", "Text", Scope()),
        web_id("t", "https://a.example/", "text", Scope(user="ada")),
    }
    assert len(ids) == 5
    assert web_id("t", "https://a.example/", "text", Scope()) == "3f91b75342708523e63439ce12f161de"


def test_addresses_that_mean_one_page_give_one_memory():
    assert memory_of(replace(FINDING, url="HTTPS://WWW.A.example:443/x?q=1&utm_source=z#top")).id == memory_of().id
    assert memory_of(query="another", now=NOW + 1, answer_id="later").id == memory_of().id


@pytest.mark.parametrize("sentence", ["It opened in 1932 and is long. ", "大桥于一九三二年通车。"])
def test_a_long_finding_is_cut_at_a_sentence_to_what_a_note_may_hold(sentence):
    text = memory_of(replace(FINDING, text=sentence * 1000)).text
    assert len(text.encode()) <= NOTE_BYTES
    assert text[-1] in ".。"


@given(
    url=st.text(alphabet=st.characters(), max_size=40), text=st.text(alphabet=st.characters(), min_size=1, max_size=60)
)
def test_whatever_a_finding_holds_the_ledger_takes_its_memory(url, text):
    finding = Finding(url=f"https://a.example/{url}", title=text, text=f"x{text}")
    memory = memory_of(finding, query=text)
    checked_source(memory.source)
    for stored in (memory.text, memory.passage.title, str(memory.metadata["query"])):
        checked_text(stored, "field")
