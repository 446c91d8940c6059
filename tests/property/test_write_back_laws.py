"""Laws of the write-back: a file loses nothing, support never lowers, contradiction never raises what is believed."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crag_runtime.codec import plain, restored
from crag_runtime.evidence import Citation, Conflict, Finding, Outcome, Side, Verdict
from crag_runtime.recording.learned import Learned, SearchedFor
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.refining.conflict import Agreement
from crag_runtime.store import Store
from kb.history import Evaluation, EvidenceKind
from kb.model import MemoryId, Scope, Standing
from kb.trust import DAY_MS, effective, trusted
from tests.agents import remember
from tests.learned_samples import a_learned, agreeing, disagreeing
from tests.property.ledger_values import INT64, JSON, NAME, TEXT, UNIT
from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories
    from kb.model import Memory

IDS = st.lists(NAME, max_size=3).map(tuple)
FINDING = st.builds(Finding, url=TEXT, title=TEXT, text=TEXT, published=st.none() | INT64)
EVALUATION = st.builds(
    Evaluation, answer_id=NAME, tenant=NAME, question=TEXT, memory_id=NAME, rev=INT64, label=NAME,
    relevance=st.none() | UNIT, reason=TEXT, evaluator=NAME, model=NAME, version=NAME, at=INT64,
)  # fmt: skip
SIDE = st.builds(Side, value=TEXT, ids=IDS, quote=TEXT, source=TEXT, dated=st.none() | INT64)
LEARNED = st.builds(
    Learned,
    answer_id=NAME,
    tenant=NAME,
    scope=st.builds(Scope, agent=TEXT, user=TEXT, conversation=TEXT),
    thread=TEXT,
    question=TEXT,
    text=TEXT,
    outcome=st.sampled_from(Outcome),
    verdict=st.sampled_from(Verdict),
    citations=st.lists(st.builds(Citation, number=INT64, id=NAME, quote=TEXT, supports=st.booleans()), max_size=2).map(
        tuple
    ),
    evaluations=st.lists(EVALUATION, max_size=2).map(tuple),
    retrieved=IDS,
    relevant=IDS,
    findings=st.lists(st.builds(SearchedFor, id=NAME, finding=FINDING, query=TEXT), max_size=2).map(tuple),
    agreements=st.lists(st.builds(Agreement, sub=INT64, ids=st.tuples(NAME, NAME), value=TEXT), max_size=2).map(tuple),
    conflicts=st.lists(
        st.builds(Conflict, sub=INT64, kind=NAME, sides=st.lists(SIDE, max_size=2).map(tuple)), max_size=1
    ).map(tuple),
    is_key=st.booleans(),
    report=st.dictionaries(TEXT, JSON, max_size=3),
    at=INT64,
)


@settings(max_examples=60)
@given(LEARNED)
def test_a_write_back_comes_out_of_a_file_as_it_went_in(learned):
    assert restored(Learned, json.loads(json.dumps(plain(learned)))) == learned


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memories]:
    with open_store(tmp_path_factory.mktemp("kb")) as opened:
        yield opened


@pytest.fixture(scope="module")
def recorder(store: Memories, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(Store(store), Spool(tmp_path_factory.mktemp("spool")))


def placed(store: Memories, confidence: float, age: float, *, verified: bool = False) -> Memory:
    """Store a note of an author of its own, with this trust at its anchor so many days ago; below 0 it is held."""
    id_ = remember(store, f"note {uuid.uuid4().hex}", source=f"https://{uuid.uuid4().hex}.example/a")
    memory, now = store.get(MemoryId(id_), "default"), store.clock.now()
    half_life = store.policies[memory.source_class].half_life
    trust = trusted(confidence, now - round(age * DAY_MS), half_life, verified_at=now if verified else None)
    changed = replace(memory, trust=trust, rev=memory.rev + 1)
    with store.ledger.write() as tx:
        tx.memories.replace([changed])
    return changed


@settings(max_examples=40)
@given(
    confidence=UNIT,
    age=st.floats(-90, 90),
    late=st.integers(0, 10 * DAY_MS),
    later=st.integers(0, 90 * DAY_MS),
    supports=st.integers(0, 2),
    against=st.integers(0, 2),
    random=st.randoms(),
)
def test_support_never_lowers_and_contradiction_never_raises_what_is_believed(
    store, recorder, *, confidence, age, late, later, supports, against, random
):
    """Through the whole write-back, whenever it comes and whenever one looks."""
    hearer = placed(store, confidence, age)
    witnesses = [placed(store, 0.95, -1, verified=True) for _ in range(supports + against)]
    agreements = [agreeing(hearer.id, w.id) for w in witnesses[:supports]]
    conflicts = [disagreeing([hearer.id], [w.id]) for w in witnesses[supports:]]
    now = store.clock.now()
    recorded = recorder.record(
        a_learned(
            uuid.uuid4().hex, now - late, is_key=False,
            agreements=tuple(random.sample(agreements, supports)), conflicts=tuple(random.sample(conflicts, against)),
        )
    )  # fmt: skip
    assert recorded.problem == ""
    after = store.get(hearer.id, "default")
    half_life = store.policies[hearer.source_class].half_life
    was, is_now = (effective(m.trust, now + later, half_life) for m in (hearer, after))
    with store.ledger.read() as tx:
        kinds = [e.kind for e in tx.evidence.of_memory(hearer.id)]
    assert (kinds.count(EvidenceKind.AGREEMENT), kinds.count(EvidenceKind.CONTRADICTION)) == (supports, against)
    assert after.updated_at >= hearer.updated_at
    assert after.rev == hearer.rev + bool(witnesses)
    if not against:
        assert is_now >= was - 1e-9
    if not supports:
        assert is_now <= was + 1e-9
    assert all(store.get(w.id, "default") == w for w in witnesses)
    assert after.standing is (Standing.QUARANTINED if _is_doomed(after, supports, against) else Standing.ACTIVE)


def _is_doomed(after: Memory, supports: int, against: int) -> bool:
    return after.trust.confidence < 0.35 and against - supports >= 2
