"""A source whose memories keep being refused: its new memories begin lower, visibly, and nobody else's do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Finding
from governance.actor import Actor
from governance.explain import explain
from governance.review import decide
from kb.memories import Note
from kb.model import Scope, SourceClass, Standing
from kb.reputation import REASON, Record
from kb.settings import Settings
from kb.settings_governance import GovernSettings
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from tests.disputing import keep, now_of, policy, said
from tests.fakes.search import FakeSearch
from tests.ledger_samples import a_document
from tests.rolling import asked
from tests.stores import open_store, sync, write

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory

ANN = Actor(name="ann")
TEXT = "Gate {n} of the harbour opens at {n} in the morning and is painted green."


def reject(store: Memories, *memories: Memory) -> None:
    decide(store, [m.id for m in memories], SweepJob.REJECT, policy=policy(), actor=ANN)


def documents(store: Memories, root: str = "docs") -> list[Memory]:
    with store.ledger.read() as tx:
        own = [d.id for d in tx.documents.of_root("default", root)]
        return [m for id_ in own for m in tx.memories.of_document(id_)]


def test_new_documents_of_a_source_that_keeps_being_refused_begin_lower(store: Memories, folder: Path) -> None:
    write(folder, **{f"g{n}_md": TEXT.format(n=n) for n in range(4)})
    sync(store, folder)
    bad = documents(store)[:3]
    reject(store, *bad)
    store.clock.advance(DAY_MS)  # type: ignore[attr-defined] # the fake's
    write(folder, new_md=TEXT.format(n=11), **{f"g{n}_md": TEXT.format(n=n) for n in range(4)})
    sync(store, folder)
    fresh = next(m for m in documents(store) if "Gate 11" in m.text)
    assert fresh.trust.confidence == pytest.approx(0.9 * 4 / 7)
    assert "3 memories of this source were refused" in str(fresh.metadata[REASON])
    assert explain(store, fresh.id, policy(), store.clock.now()).why[-1] == f"it began lower: {fresh.metadata[REASON]}"
    old = next(m for m in documents(store) if "Gate 3" in m.text)
    assert (old.trust.confidence, REASON in old.metadata) == (0.9, False)
    assert sync(store, folder).documents["unchanged"] == 5
    write(folder, new_md=f"# Gates\n\n{TEXT.format(n=11)}", other_md=f"---\nconfidence: 0.8\n---\n{TEXT.format(n=12)}")
    sync(store, folder)
    assert next(m for m in documents(store) if "Gate 12" in m.text).trust.confidence == 0.8


def test_reputation_can_be_turned_off(tmp_path: Path, folder: Path) -> None:
    with open_store(tmp_path / "data", govern=GovernSettings(reputation=False)) as store:
        write(folder, **{f"g{n}_md": TEXT.format(n=n) for n in range(3)})
        sync(store, folder)
        reject(store, *documents(store))
        write(folder, new_md=TEXT.format(n=11))
        sync(store, folder)
        assert next(m for m in documents(store) if "Gate 11" in m.text).trust.confidence == 0.9


def test_a_note_is_believed_as_its_author_has_earned_it(store: Memories) -> None:
    def note(n: int, **options: object) -> Memory:
        return store.add_note(Note(text=TEXT.format(n=n), tenant="default", **options))[0]  # type: ignore[arg-type]

    mine = [note(n, scope=Scope(user="u1")) for n in range(3)]
    reject(store, *mine)
    assert note(11, scope=Scope(user="u1")).trust.confidence == pytest.approx(0.8 * 4 / 7)
    assert note(11, scope=Scope(user="u2")).trust.confidence == 0.8
    assert note(12, scope=Scope(user="u1"), confidence=0.75).trust.confidence == 0.75
    assert note(11, scope=Scope(user="u1"), by=SourceClass.AGENT).trust.confidence == 0.5


def test_a_web_host_is_believed_as_it_has_earned_it(store: Memories, tmp_path: Path) -> None:
    bad = [
        said(f"p{n}", TEXT.format(n=n), by=SourceClass.WEB, source=f"https://www.liar.example/{n}") for n in range(3)
    ]
    keep(store, *bad)
    reject(store, *bad)
    with store.ledger.read() as tx:
        records = tx.reputation.of_hosts("default", ["liar.example", "city.example"])
        assert tx.reputation.of_hosts("elsewhere", ["liar.example"]) == {"liar.example": Record()}
    assert records == {"liar.example": Record(bad=3), "city.example": Record()}
    pages = [
        Finding(url=f"https://{host}/news", title="", text=f"The gate of {host} opens at noon and closes at nine.")
        for host in ("liar.example", "city.example")
    ]
    asked(store, tmp_path, "When does the gate open?", search=FakeSearch(pages, is_paid=False))
    found = {m.source.split("/")[2]: m for m in store.page("default", limit=100) if m.source.endswith("/news")}
    assert found["liar.example"].trust.confidence == pytest.approx(0.5 * 4 / 7)
    assert found["city.example"].trust.confidence == 0.5


def test_what_counts_is_documents_not_passages_and_an_undone_refusal_counts_no_more(store: Memories) -> None:
    chunks = [said(f"c{n}", TEXT.format(n=n), doc="d1", source="file://docs/one.md") for n in range(5)]
    rolled = said("r", TEXT.format(n=7), by=SourceClass.AGENT, standing=Standing.QUARANTINED)
    keep(store, *chunks, rolled)
    with store.ledger.write() as tx:
        tx.documents.put(a_document("d1", tenant="default", root="docs", source="file://docs/one.md"))
        tx.memories.replace([replace(rolled, standing_reason="rolled back by sweep 1", rev=2)])
    reject(store, *chunks)
    with store.ledger.read() as tx:
        assert tx.reputation.of_root("default", "docs") == Record(bad=1)
        assert tx.reputation.of_author(rolled) == Record(bad=1)
    decide(store, [chunks[0].id], SweepJob.VERIFY, policy=policy(), actor=ANN)
    with store.ledger.read() as tx:
        assert tx.reputation.of_root("default", "docs") == Record(bad=1)
    assert now_of(store, chunks[0])[0].trust.verified


def test_settings_name_both_switches() -> None:
    assert (Settings().govern.reputation, Settings().govern.judge) == (True, False)
