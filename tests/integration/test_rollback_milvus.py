"""The whole story on a real index: poison is ingested, answered from, written back, rolled back, and taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.evidence import Finding
from kb.model import SourceClass, Standing
from kb.trust import DAY_MS
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.search import FakeSearch
from tests.rolling import LOAD, POISON, TOLL, asked, guide, keys, look, note, roll_back, says, stored, sync, take_back
from tests.stores import FakeClock, open_store, write
from tests.swept import is_in_step, ledger_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.index.milvus import MilvusServer
    from kb.memories import Memories

LEARNED = "Ninety tons may cross, I learned."
WEB = "A page of the harbour says that lorries of ninety tons may cross the Anping bridge."


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def real(tmp_path: Path, milvus: MilvusServer, clock: FakeClock) -> Iterator[Memories]:
    """A store on Milvus Lite; its collection is dropped after the test."""
    with open_store(tmp_path / "data", server=milvus, embedder=HashingEmbedder(dim=32), clock=clock) as memories:
        yield memories
        with memories.ledger.read() as tx:
            current = memories.generations.current(tx)
        if current is not None:
            milvus.drop(current.name)


@dataclass(frozen=True)
class Poisoned:
    """What was made from a bad version, and how everything stood then."""

    at: int
    answer: str
    notes: frozenset[str]
    rows: dict[str, object]
    index: dict[str, object]

    @property
    def wanted(self) -> dict[str, Any]:
        """What is rolled back."""
        return {"source": "docs", "since": self.at}


@pytest.fixture
def poisoned(real: Memories, folder: Path, tmp_path: Path, clock: FakeClock) -> Poisoned:
    """A good guide, a bad one in its place, an answer from that, and what an agent wrote back."""
    write(folder, guide_md=guide())
    sync(real, folder)
    clock.advance(DAY_MS)
    at = clock.now()
    write(folder, guide_md=guide(load=POISON))
    sync(real, folder)
    answer = asked(real, tmp_path)
    assert "ninety" in answer.text
    child = note(real, LEARNED, answer.answer_id)
    grandchild = note(real, "Plan lorries of ninety tons.", child.id, by=SourceClass.AGENT)
    page = Finding(url="https://harbour.example/p", title="Harbour", text=WEB)
    asked(real, tmp_path, "May lorries of ninety tons cross, as the harbour has it?", search=FakeSearch([page]))
    rows, index = ledger_rows(real), _index(real)
    clock.advance(DAY_MS)
    return Poisoned(at, answer.answer_id, frozenset({child.id, grandchild.id}), rows, index)


def test_poison_goes_with_all_its_descendants_and_what_it_had_replaced_is_back(
    real: Memories, poisoned: Poisoned
) -> None:
    radius = look(real, **poisoned.wanted)
    assert poisoned.answer in {a.id for a in radius.answers}
    assert poisoned.notes <= set(radius.members)
    assert len(roll_back(real, **poisoned.wanted)) == 1
    for words in (POISON, "Ninety tons may cross", "Plan lorries"):
        assert not says(real, words)
        assert not says(real, words, at=poisoned.at + 1), "nor when the past is asked"
    assert says(real, LOAD)
    assert says(real, LOAD, gate=0.7)
    assert says(real, TOLL)
    assert is_in_step(real)


def test_it_stays_out_and_undone_everything_is_as_it_was(
    real: Memories, poisoned: Poisoned, folder: Path, clock: FakeClock
) -> None:
    sweeps = roll_back(real, **poisoned.wanted)
    clock.advance(DAY_MS)
    assert sync(real, folder).documents["skipped"] == 1
    write(folder, copy_md=(folder / "guide.md").read_text())
    assert sync(real, folder).documents["skipped"] == 2
    (folder / "copy.md").unlink()
    assert note(real, LEARNED, poisoned.answer).standing is Standing.QUARANTINED
    assert not says(real, POISON)
    assert roll_back(real, **poisoned.wanted) == [], "and a second rollback finds nothing"

    take_back(real, *sweeps)
    assert ledger_rows(real) == poisoned.rows
    assert _index(real) == poisoned.index
    assert says(real, POISON)
    assert not says(real, LOAD)
    assert sync(real, folder).documents["unchanged"] == 1
    assert {m.standing for m in keys(real)} == {Standing.QUARANTINED}


def test_a_rolled_back_page_is_not_read_again_on_a_real_index(real: Memories, tmp_path: Path) -> None:
    page = Finding(url="https://harbour.example/p", title="Harbour", text=WEB)
    question = "May lorries of ninety tons cross the Anping bridge?"
    assert asked(real, tmp_path, question, search=FakeSearch([page])).citations
    roll_back(real, source="https://harbour.example/")
    assert not asked(real, tmp_path, question, search=FakeSearch([page])).citations
    (finding,) = stored(real, WEB)
    assert finding.standing_reason.startswith("rolled back by sweep")


def _index(memories: Memories) -> dict[str, object]:
    """Return which rows a search can find in the index itself, by standing: the ledger is not asked."""
    from kb.ports import Criteria

    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    assert current is not None
    index = memories.generations.index(current, memories.clock.now())
    words = "tons bridge lorries toll"
    return {
        standing.value: sorted(
            c.id for c in index.sparse(words, Criteria(tenant="default", standings=(standing,), gate=None), 100)
        )
        for standing in (Standing.ACTIVE, Standing.QUARANTINED, Standing.SUPERSEDED)
    }
