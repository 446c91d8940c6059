"""Rollbacks and what happens at the same moment; and erased words, which are not even stored again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.store import Store
from governance.rollback import carried_out, surveyed
from governance.selection import Selection
from governance.sweep import apply, never, resume
from kb.errors import FailureCode, Refused
from kb.history import AnswerId
from kb.ids import embed_hash
from kb.ledger.schema import embeddings
from kb.model import Standing
from kb.passages import embed_text
from kb.rolled_back import is_rolled_back
from kb.sweeps import Contradiction, SweepId, SweepStatus, TombstoneKind
from tests.fakes.embedder import InterruptedEmbedder
from tests.learned_samples import a_learned, citing, found
from tests.rolling import (
    LOAD,
    POISON,
    TOLL,
    guide,
    keys,
    look,
    note,
    poison,
    roll_back,
    says,
    stored,
    sync,
    take_back,
)
from tests.stores import open_store, write
from tests.swept import is_in_step, ledger_rows, policy

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

FERRY = "The ferry below leaves at noon every single day."


def test_a_sync_that_had_read_its_files_before_cannot_slip_them_in_after(tmp_path: Path, folder: Path) -> None:
    embedder, more = InterruptedEmbedder(), tmp_path / "more"
    more.mkdir()
    with open_store(tmp_path / "data", embedder=embedder) as memories:
        write(folder, guide_md=guide(load=POISON))
        sync(memories, folder)
        write(more, copy_md=guide(load=POISON, more=FERRY))
        embedder.then = lambda: roll_back(memories, source="docs")
        report = sync(memories, more)
        assert [f.code for f in report.failures] == [FailureCode.STORE_FAILED.value]
        assert not says(memories, POISON)
        assert sync(memories, more).documents["added"] == 1
        assert not says(memories, POISON)
        assert says(memories, FERRY)


def test_an_answer_that_was_on_its_way_gets_no_key(store: Memories, folder: Path, tmp_path: Path) -> None:
    batch = poison(store, folder)
    (bad,) = stored(store, POISON)
    roll_back(store, batch=batch)
    recorder = Recorder(Store(store), Spool(tmp_path), "fake")
    recorder.record(a_learned("late", store.clock.now(), citations=citing(bad.id)))
    assert keys(store) == []
    with store.ledger.read() as tx:
        assert tx.answers.get(AnswerId("late"), "default") is not None, "it was given, so it is on record"
    assert [a.id for a in look(store, batch=batch).answers] == ["late"]


def test_an_interrupted_rollback_ends_as_if_it_had_not_been(tmp_path: Path, folder: Path) -> None:
    ends = []
    for name, stops in (("whole", False), ("torn", True)):
        with open_store(tmp_path / name) as memories:
            batch = poison(memories, folder)
            small = policy(batch=1)
            radius = surveyed(memories, Selection(batch=batch), small, memories.clock.now())
            asked = iter([False, True])
            sweep = apply(
                memories,
                radius.plan,
                policy=small,
                actor="ann",
                is_stopped=partial(next, asked, True) if stops else never,
            )
            if stops:
                assert sweep.status is SweepStatus.RUNNING
                (sweep,) = resume(memories, "default", small)
            assert sweep.status is SweepStatus.DONE
            assert is_in_step(memories)
            rows = ledger_rows(memories)
            ends.append([(m.id, m.standing, m.valid_to, m.trust) for m in rows["memories"]] + rows["documents"])
    assert ends[0] == ends[1]


def test_what_was_contested_by_something_bad_is_contested_no_longer(store: Memories, folder: Path) -> None:
    good = note(store, "The Anping bridge carries forty tons in truth.")
    bad = note(store, "The Anping bridge carries ninety tons in truth.")
    third = note(store, "The Anping bridge carries fifty tons in truth.")
    pairs = [(good.id, bad.id), (third.id, bad.id), (good.id, third.id)]
    with store.ledger.write() as tx:
        tx.contradictions.add(
            [Contradiction(tenant="default", one=min(p), other=max(p), kind="number", found_at=1) for p in pairs[:2]]
        )
        tx.memories.replace([replace(m, contested=True, rev=2) for m in (good, bad, third)])
    before = ledger_rows(store)
    (sweep,) = roll_back(store, memories=(bad.id, third.id))
    assert not store.get(good.id, "default").contested
    assert sweep.counts == {"quarantine": 2}, "that one freed the other did not move it"
    with store.ledger.read() as tx:
        assert tx.contradictions.open("default") == []
    take_back(store, sweep)
    assert ledger_rows(store) == before


@pytest.fixture
def erased(store: Memories, folder: Path) -> str:
    """Words that were erased before anything was ingested."""
    write(folder, guide_md=f"# Guide\n\n## Toll\n\n{TOLL}\n")
    with store.ledger.write() as tx:
        tx.tombstones.add(
            "default",
            TombstoneKind.TEXT,
            [LOAD],
            sweep_id=SweepId("e" * 32),
            is_erased=True,
            reason="erased",
            at=1,
        )
    return LOAD


def test_erased_words_are_neither_stored_nor_embedded_again(
    store: Memories, folder: Path, tmp_path: Path, erased: str
) -> None:
    write(folder, alone_md=f"{erased}\n")
    report = sync(store, folder)
    assert [s.source for s in report.skipped] == ["file://docs/alone.md"]
    assert "erased by sweep" in report.skipped[0].reason
    with pytest.raises(Refused, match="erased"):
        note(store, erased)
    page = found("https://harbour.example/p", erased)
    learned = a_learned("a1", store.clock.now(), is_key=False, findings=(page,))
    Recorder(Store(store), Spool(tmp_path), "fake").record(learned)
    assert not stored(store, erased)
    assert not _embedded(store) & {embed_hash(embed_text(t, (), erased)) for t in ("", "page", "alone", "guide")}


def test_the_rest_of_a_document_with_erased_words_is_kept(store: Memories, folder: Path, erased: str) -> None:
    filler = guide().partition(TOLL)[2]
    write(folder, guide_md=f"# Guide\n\n## Load\n\n{erased}\n\n{filler}\n\n## Toll\n\n{TOLL} {filler}\n")
    report = sync(store, folder)
    assert says(store, TOLL)
    assert not stored(store, erased)
    assert any("erased by sweep" in w.reason for w in report.warnings)


def test_descendants_made_after_the_look_are_found_by_the_second_look(store: Memories, folder: Path) -> None:
    batch = poison(store, folder)
    wanted = Selection(batch=batch)
    radius = surveyed(store, wanted, policy(), store.clock.now())
    (bad,) = stored(store, POISON)
    late = note(store, "Ninety tons may cross, I learned.", bad.id)
    sweeps = carried_out(store, wanted, radius, policy=policy(), actor="ann")
    assert len(sweeps) == 2
    assert is_rolled_back(store.get(late.id, "default"))
    assert store.get(bad.id, "default").standing is Standing.QUARANTINED


def _embedded(memories: Memories) -> set[str]:
    with memories.ledger.engines.reads.connect() as connection:
        return set(connection.execute(sa.select(embeddings.c.text_hash)).scalars())
