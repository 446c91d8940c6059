"""Pollution does not outlive its source: what a bad witness had said of others goes with it, and comes back with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.store import Store
from governance import erase
from governance.actor import Actor
from governance.reach import Wanted
from governance.review import decide
from governance.selection import Selection
from governance.undo import undo
from kb.history import Edge, EdgeKind, EvidenceEvent, EvidenceKind
from kb.ledger.schema import evidence
from kb.ledger.schema_governance import actions, images
from kb.model import SourceClass, Standing
from kb.sweeps import ActionKind, SweepJob
from kb.trust import DAY_MS
from tests.disputing import FIFTY, FORTY, events_of, keep, now_of, policy, promote, recheck, said
from tests.forgetting import forget
from tests.invariants import broken
from tests.learned_samples import a_learned, agreeing, disagreeing
from tests.rolling import later, look, roll_back
from tests.stores import T0

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory

WAITS = said("w", FORTY, by=SourceClass.WEB)
FORGED = said("a", "The Harbour Bridge carries a load of 40,000 kg on dry days.", verified=True)
HONEST = said("b", "On dry days the Harbour Bridge carries a load of 40 tons. Ships pass at noon.", verified=True)
HELD = said("n", "On dry days a load of 40 tons is what the Harbour Bridge carries.", by=SourceClass.PERSON)


def columns(memory: Memory) -> Memory:
    """Return a memory but for what only grows."""
    return replace(memory, rev=0, updated_at=0)


def test_what_a_rolled_back_witness_had_promoted_waits_again_as_if_it_had_never_spoken(store: Memories) -> None:
    keep(store, WAITS, FORGED, HONEST)
    promote(store)
    (lifted,) = now_of(store, WAITS)
    assert lifted.standing is Standing.ACTIVE
    later(store)
    radius = look(store, memories=(FORGED.id,))
    assert radius.counts["hearers"] == 1
    (sweep,) = roll_back(store, memories=(FORGED.id,))
    assert events_of(store, WAITS) == [("agreement", 1.0, "b")]
    (back,) = now_of(store, WAITS)
    assert (back.standing, back.standing_reason) == (Standing.QUARANTINED, WAITS.standing_reason)
    assert not look(store, memories=(FORGED.id,)).plan.actions
    with store.ledger.read() as tx:
        (done,) = [j for j in tx.sweeps.journal(sweep.id) if j.action.kind is ActionKind.WITHDRAW]
    assert (done.action.reason, done.skipped) == ("witness_rolled_back", "")
    assert [b for b in broken(store) if "no live document" not in b] == []
    undo(store, sweep.id, "default", actor="ann", policy=policy())
    assert columns(now_of(store, WAITS)[0]) == columns(lifted)
    assert sorted(events_of(store, WAITS)) == [("agreement", 1.0, "a"), ("agreement", 1.0, "b")]


@pytest.mark.parametrize("is_late", [False, True])
def test_the_only_witness_leaves_no_trace(store: Memories, *, is_late: bool) -> None:
    keep(store, HELD, said("never", FIFTY.replace("Harbour", "Anping"), by=SourceClass.PERSON), FORGED)
    if is_late:
        later(store, 20)
    recheck(store)
    assert events_of(store, HELD) == [("agreement", 1.0, "a")]
    later(store, 3)
    roll_back(store, memories=(FORGED.id,))
    assert events_of(store, HELD) == []
    assert columns(now_of(store, HELD)[0]) == columns(HELD)


def test_two_witnesses_less_one_weigh_as_the_one_alone(store: Memories) -> None:
    keep(store, HELD, FORGED)
    recheck(store)
    later(store, 4)
    other = said("b", "On dry days the Harbour Bridge carries a load of 40 tons. Ships pass at noon.", verified=True)
    keep(store, replace(other, created_at=store.clock.now(), updated_at=store.clock.now()))
    recheck(store)
    assert len(events_of(store, HELD)) == 2
    at = store.clock.now()
    roll_back(store, memories=(FORGED.id,))
    from kb.evidence_rules import applied

    (left,) = events_of(store, HELD)
    event = EvidenceEvent(
        memory_id=HELD.id, tenant="default", kind=EvidenceKind.AGREEMENT, weight=1.0, witness=left[2], at=at
    )
    alone = applied(HELD, [event], policy=policy().trust[HELD.source_class], now=at)
    trust = now_of(store, HELD)[0].trust
    assert trust.confidence == pytest.approx(alone.trust.confidence, rel=1e-9)
    assert (trust.anchor, trust.strength) == (alone.trust.anchor, alone.trust.strength)


def recorder(store: Memories, tmp_path: Path) -> Recorder:
    return Recorder(Store(store), Spool(tmp_path), "fake")


def test_what_an_answer_wrote_back_goes_with_its_witness_too(store: Memories, tmp_path: Path) -> None:
    """Of an answer's evidence there is no image: it is reckoned back."""
    keep(store, HELD, FORGED)
    later(store, 5)
    learned = a_learned("one", store.clock.now(), agreements=(agreeing(FORGED.id, HELD.id),))
    assert recorder(store, tmp_path).record(learned).problem == ""
    assert events_of(store, HELD) == [("agreement", 1.0, "a")]
    later(store, 2)
    roll_back(store, memories=(FORGED.id,))
    assert events_of(store, HELD) == []
    back = now_of(store, HELD)[0]
    assert back.trust.confidence == pytest.approx(HELD.trust.confidence, rel=1e-9)
    assert abs(back.trust.birth - HELD.trust.birth) <= 1


def test_what_forged_contradictions_had_put_away_is_back(store: Memories, tmp_path: Path) -> None:
    liars = [said(f"liar{n}", FIFTY + f" Gate {n} is green.", verified=True) for n in range(6)]
    keep(store, HELD, *liars)
    for n, liar in enumerate(liars):
        learned = a_learned(f"answer{n}", store.clock.now(), conflicts=(disagreeing([liar.id], [HELD.id]),))
        assert recorder(store, tmp_path).record(learned).problem == ""
        later(store, 1)
    assert now_of(store, HELD)[0].standing is Standing.QUARANTINED
    roll_back(store, memories=tuple(liar.id for liar in liars))
    (back,) = now_of(store, HELD)
    assert (back.standing, back.standing_reason) == (Standing.ACTIVE, "")
    assert back.trust.confidence == pytest.approx(HELD.trust.confidence, rel=1e-6)
    assert [b for b in broken(store) if "no live document" not in b] == []


def test_a_whole_source_takes_the_words_of_its_forgotten_memories_along(store: Memories) -> None:
    """The witness itself was pruned and erased long ago."""
    other = said("c", "Something else entirely is said here.", source="file://a/other.md")
    keep(store, HELD, FORGED, other)
    recheck(store)
    with store.ledger.write() as tx:
        tx.memories.remove([FORGED.id])
        tx.outbox.mark([FORGED.id], store.clock.now())
    assert look(store, memories=(other.id,)).counts["hearers"] == 0
    roll_back(store, source="a")
    assert events_of(store, HELD) == []
    assert columns(now_of(store, HELD)[0]) == columns(HELD)


@pytest.mark.parametrize("roots", ["bad.example+b.example", "a.example+b.example+bad.example"])
def test_a_check_needs_two_sources_that_are_left(store: Memories, roots: str) -> None:
    bad = said("p", "A page that says this and that.", by=SourceClass.WEB, source="https://bad.example/p")
    keep(store, HELD, bad)
    event = EvidenceEvent(
        memory_id=HELD.id, tenant="default", kind=EvidenceKind.CHECK, weight=2.0, witness=f"check:for:{roots}",
        at=store.clock.now(),
    )  # fmt: skip
    with store.ledger.write() as tx:
        tx.evidence.add([event])
    roll_back(store, source="bad.example")
    assert len(events_of(store, HELD)) == roots.count("+") - 1


def erase_rows(store: Memories, **wanted: Any) -> None:
    want = Wanted(selection=Selection(**wanted))
    reach = erase.surveyed(store, want, policy(), store.clock.now())
    erase.carried_out(store, reach, policy=policy(), actor="ann")


@pytest.mark.parametrize("wanted", [{"memories": (FORGED.id,)}, {"source": "a"}])
def test_an_erased_witness_has_never_spoken_and_is_named_nowhere(store: Memories, wanted: dict[str, Any]) -> None:
    keep(store, HELD, FORGED)
    recheck(store)
    assert events_of(store, HELD) == [("agreement", 1.0, "a")]
    later(store)
    erase_rows(store, **wanted)
    assert events_of(store, HELD) == []
    assert columns(now_of(store, HELD)[0]) == columns(HELD)
    with store.ledger.write() as tx:
        (sweep,) = tx.sweeps.list(1, job=SweepJob.ERASE)
        tx.erasure.redact(sweep.id, [FORGED.id])
    with store.ledger.engines.reads.connect() as connection:
        rows = [str(row) for table in (evidence, images, actions) for row in connection.execute(sa.select(table))]
    assert rows
    assert [row for row in rows if FORGED.id in row] == []


def test_who_had_heard_an_erased_witness_keeps_its_history(store: Memories, tmp_path: Path) -> None:
    keep(store, HELD, FORGED)
    recheck(store)
    noted = decide(store, [HELD.id], SweepJob.ANNOTATE, policy=policy(), actor=Actor(name="ann"), reason="so it is")
    later(store)
    forget(store, tmp_path, FORGED)
    assert noted.sweep is not None
    with store.ledger.read() as tx:
        told = {j.action.kind: j for j in tx.sweeps.of_memory(HELD.id)}
        assert tx.sweeps.of_memory(FORGED.id) == []
    assert told[ActionKind.ANNOTATE].sweep_id == noted.sweep.id
    assert told[ActionKind.WITHDRAW].action.reason == "witness_erased"
    assert [b for b in broken(store) if "no live document" not in b] == []


def test_a_rejected_witness_is_heard_no_more_and_again_once_that_is_undone(store: Memories) -> None:
    keep(store, HELD, FORGED)
    recheck(store)
    (lifted,) = now_of(store, HELD)
    done = decide(store, [FORGED.id], SweepJob.REJECT, policy=policy(), actor=Actor(name="ann"))
    assert done.sweep is not None
    assert events_of(store, HELD) == []
    assert columns(now_of(store, HELD)[0]) == columns(HELD)
    undo(store, done.sweep.id, "default", actor="ann", policy=policy())
    assert columns(now_of(store, HELD)[0]) == columns(lifted)


def test_a_stranger_s_evidence_stays(store: Memories) -> None:
    keep(store, HELD, FORGED, HONEST)
    recheck(store)
    (before,) = now_of(store, HELD)
    keep(store, said("x", "Nothing of the kind is said by anybody here."))
    roll_back(store, memories=(said("x", "nothing").id,))
    assert now_of(store, HELD)[0] == before
    assert before.trust.anchor <= store.clock.now() + DAY_MS


def test_what_bad_pages_had_vouched_for_is_verified_no_more_nor_what_it_said_believed(store: Memories) -> None:
    """Two pages of one search bear each other out; one of them speaks of a third. Then one page proves bad."""
    first = said("p", "The Harbour Bridge carries a load of 40,000 kg on dry days.", by=SourceClass.WEB)
    second = said("q", "On dry days the Harbour Bridge carries a load of 40 tons. Ships pass.", by=SourceClass.WEB)
    keep(store, first, second, HELD)
    with store.ledger.write() as tx:
        tx.lineage.add(
            [Edge(tenant="default", parent="search://fake/q", child=m.id, kind=EdgeKind.FOUND) for m in (first, second)]
        )
        tx.utility.bump(cited=[first.id, second.id], now=T0)
    recheck(store)
    later(store)
    recheck(store)
    assert all(m.trust.verified and m.standing is Standing.ACTIVE for m in now_of(store, first, second))
    assert events_of(store, HELD)
    later(store)
    roll_back(store, memories=(first.id,))
    (back, heard) = now_of(store, second, HELD)
    assert (back.trust.verified, back.standing) == (False, Standing.QUARANTINED)
    assert events_of(store, second) == events_of(store, HELD) == []
    assert columns(back) == columns(second)
    assert columns(heard) == columns(HELD)
