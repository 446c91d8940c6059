"""Stories of what was made from something bad: answers, keys, notes and pages go with it, and do not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Finding, Outcome
from governance.blast import LineageCycle
from kb.history import Edge, EdgeKind
from kb.independence import independent, root_of
from kb.model import Standing
from kb.rolled_back import is_rolled_back
from tests.fakes.search import FakeSearch
from tests.rolling import LOAD, POISON, TOLL, asked, guide, keys, look, note, poison, roll_back, says, stored, sync
from tests.stores import write
from tests.swept import ledger_rows

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory


def test_answers_keys_and_notes_go_with_what_they_rest_on(store: Memories, folder: Path, tmp_path: Path) -> None:
    poison(store, folder)
    answer = asked(store, tmp_path)
    assert answer.outcome is Outcome.ANSWERED
    child = note(store, "Ninety tons may cross the bridge, they say.", answer.answer_id)
    grandchild = note(store, "Lorries of ninety tons are welcome there.", child.id)
    bystander = note(store, "Lorries of ten tons are welcome everywhere.")
    radius = look(store, source="file://docs/", since=store.clock.now() - 1000)
    assert [a.id for a in radius.answers] == [answer.answer_id]
    assert radius.counts["answer_keys"] == 1
    assert radius.counts["note"] == 2
    assert radius.blast.path(grandchild.id)[1:] == (answer.answer_id, child.id, grandchild.id)
    roll_back(store, source="file://docs/", since=store.clock.now() - 1000)
    assert all(is_rolled_back(store.get(m.id, "default")) for m in (child, grandchild))
    assert all(is_rolled_back(key) for key in keys(store))
    assert store.get(bystander.id, "default").standing is Standing.ACTIVE
    assert not says(store, "inety tons")


def test_documents_alone_would_leave_their_descendants_behind(store: Memories, folder: Path, tmp_path: Path) -> None:
    """What lineage is for: the same rollback without its steps leaves the written-back note speaking."""
    batch = poison(store, folder)
    answer = asked(store, tmp_path)
    child = note(store, "Ninety tons may cross the bridge, they say.", answer.answer_id)
    with store.ledger.write() as tx:
        tx.lineage.remove(child.id, EdgeKind.DERIVED)
    assert child.id not in look(store, batch=batch).members
    with store.ledger.write() as tx:
        tx.lineage.add([Edge(tenant="default", parent=answer.answer_id, child=child.id, kind=EdgeKind.DERIVED, at=1)])
    assert child.id in look(store, batch=batch).members


def test_the_question_is_answered_from_what_is_left_and_its_key_leads_again(
    store: Memories, folder: Path, tmp_path: Path
) -> None:
    batch = poison(store, folder)
    assert "ninety" in asked(store, tmp_path).text
    roll_back(store, batch=batch)
    (key,) = keys(store)
    assert is_rolled_back(key)
    answer = asked(store, tmp_path)
    assert "forty" in answer.text
    (key,) = keys(store)
    assert not is_rolled_back(key)
    assert key.standing is Standing.QUARANTINED


def test_a_note_from_what_was_rolled_back_never_speaks(store: Memories, folder: Path, tmp_path: Path) -> None:
    batch = poison(store, folder)
    answer = asked(store, tmp_path)
    roll_back(store, batch=batch)
    late = note(store, "I wrote down that ninety tons may cross.", answer.answer_id)
    assert late.standing is Standing.QUARANTINED
    assert late.standing_reason.startswith("descends from what was rolled back by sweep")
    assert note(store, stored(store, POISON)[0].text).standing is Standing.QUARANTINED


def test_a_note_is_no_witness_for_what_it_was_written_from(store: Memories, folder: Path) -> None:
    write(folder, guide_md=guide())
    sync(store, folder)
    (parent,), (sibling,) = stored(store, LOAD), stored(store, TOLL)
    child, other = note(store, "Forty tons cross the bridge.", parent.id), note(store, "Nothing to do with it.")
    with store.ledger.read() as tx:
        line: dict[str, frozenset[str]] = {
            m.id: frozenset(tx.lineage.ancestors([m.id])) for m in (parent, sibling, child, other)
        }

    class Party:
        def __init__(self, memory: Memory) -> None:
            self.id, self.source_class = memory.id, memory.source_class
            self.root, self.doc_id = root_of(memory), memory.doc_id

    assert not independent(Party(child), Party(parent), line)
    assert not independent(Party(child), Party(sibling), line), "nor for the rest of the same source"
    assert independent(Party(other), Party(parent), line)


def test_a_note_cannot_close_a_circle(store: Memories, tmp_path: Path) -> None:
    first = note(store, "The Anping bridge carries forty tons on a dry day.")
    answer = asked(store, tmp_path)
    assert [c.memory_id for c in answer.citations] == [first.id]
    again = note(store, "The Anping bridge carries forty tons on a dry day.", answer.answer_id)
    assert again.id == first.id
    assert look(store, memories=(first.id,)).counts["answers"] == 1


def test_a_lineage_that_runs_in_a_circle_is_refused_and_nothing_is_done(store: Memories) -> None:
    one, two = note(store, "One says so."), note(store, "Two says so.")
    steps = [(one.id, two.id), (two.id, one.id)]
    with store.ledger.write() as tx:
        tx.lineage.add([Edge(tenant="default", parent=a, child=b, kind=EdgeKind.DERIVED, at=1) for a, b in steps])
    before = ledger_rows(store)
    with pytest.raises(LineageCycle, match=one.id):
        roll_back(store, memories=(one.id,))
    assert ledger_rows(store) == before


def test_a_bad_page_is_not_let_in_again_at_another_address(store: Memories, tmp_path: Path) -> None:
    url, words = "https://evil.example/bridge", "The Anping bridge carries ninety tons, as the harbour's web page says."
    page = Finding(url=url, title="Bridge", text=words)
    first = asked(store, tmp_path, search=FakeSearch([page], is_paid=False))
    assert first.outcome is Outcome.ANSWERED
    (found,) = stored(store, words)
    radius = look(store, source="evil.example")
    assert set(radius.members) >= {found.id}
    roll_back(store, source="evil.example")
    for address in (url, "https://mirror.example/copy"):
        copy = Finding(url=address, title="Bridge", text=words)
        again = asked(store, tmp_path, search=FakeSearch([copy], is_paid=False))
        assert again.outcome is Outcome.REFUSED
        assert not again.citations
    assert all(m.standing is Standing.QUARANTINED for m in stored(store, words))
    assert roll_back(store, source="search://fake/") == []
