"""Whatever a writer can change in whatever order, an undo puts back, and an undo of the undo changes again."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.images import memory_columns
from governance.running import begin
from governance.undo import undo
from governance.writer import Writer
from kb.errors import IntegrityError
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import Standing
from kb.sweeps import Contradiction, ImageKind, SweepId, SweepStatus, TombstoneKind
from kb.trust import DAY_MS, trusted
from tests.stores import T0, InProcessServer, open_store
from tests.swept import a_plan, index_rows, is_in_step, ledger_rows, policy, stocked, unsafe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.memories import Memories
    from kb.model import Document, Memory
    from kb.sweeps import Sweep

_tenants = count()
SEEDS = st.integers(0, 10**6)
FEW = settings(max_examples=30)


def _memory(writer: Writer, numbers: random.Random, of: list[Memory]) -> None:
    before = _stored(writer, numbers.choice(of))
    trust = trusted(numbers.random(), T0, DAY_MS, verified_at=numbers.choice((None, T0)), strength=5.5)
    writer.put_memory(
        before,
        replace(
            before,
            trust=replace(trust, shown=numbers.choice((None, numbers.random()))),
            standing=numbers.choice((Standing.ACTIVE, Standing.QUARANTINED, Standing.RETIRED)),
            standing_reason=numbers.choice(("", "said so")),
            pinned=numbers.random() < 0.5,
            valid_to=T0 + numbers.randrange(9),
        ),
    )


def _stored(writer: Writer, memory: Memory) -> Memory:
    return writer.tx.memories.get([memory.id])[memory.id]


def _document(writer: Writer, numbers: random.Random, of: list[Memory]) -> None:
    (memory,) = numbers.sample([m for m in of if m.doc_id], 1)
    assert memory.doc_id
    before = writer.tx.documents.get(memory.doc_id)
    assert before is not None
    gone: tuple[Document, ...] = (replace(before, deleted_at=T0), replace(before, deleted_at=None))
    older = replace(before, version=1, memory_ids=(memory.id,), size=0, mtime_ns=0)
    writer.put_document(before, numbers.choice((*gone, older)))


def _version(writer: Writer, numbers: random.Random, of: list[Memory]) -> None:
    (memory,) = numbers.sample([m for m in of if m.doc_id], 1)
    assert memory.doc_id
    writer.put_version(memory.doc_id, numbers.choice((1, 2)), numbers.choice((None, T0, T0 + 1)))


def _evidence(writer: Writer, numbers: random.Random, of: list[Memory]) -> None:
    memory = numbers.choice(of)
    event = EvidenceEvent(
        memory_id=memory.id,
        tenant=memory.tenant,
        kind=numbers.choice((EvidenceKind.CHECK, EvidenceKind.VERIFICATION)),
        weight=numbers.choice((0.0, -2.0)),
        witness=numbers.choice(("ann", "b\x1fob \x1f", "第三人")),
        at=T0,
    )
    if not writer.add_evidence([event]):
        writer.remove_evidence(writer.tx.sweeping.event(event.memory_id, event.kind, event.witness) or event)


def _bury(writer: Writer, numbers: random.Random, of: list[Memory]) -> None:
    texts = [m.text for m in numbers.sample(of, min(2, len(of)))]
    kind = numbers.choice(tuple(TombstoneKind))
    if numbers.random() < 0.7:
        writer.add_tombstones(of[0].tenant, kind, texts, reason="rolled_back")
    else:
        writer.remove_tombstones(of[0].tenant, kind, texts)


def _contradict(writer: Writer, numbers: random.Random, of: list[Memory]) -> None:
    one, other = sorted(m.id for m in numbers.sample(of, 2))
    known = writer.tx.contradictions.of_memories([one])
    if known and numbers.random() < 0.5:
        writer.settle(known, by="ann")
    else:
        kind = numbers.choice(("date", "negation"))
        writer.add_contradictions([Contradiction(tenant=of[0].tenant, one=one, other=other, kind=kind, found_at=T0)])


def _flag(writer: Writer, of: list[Memory]) -> None:
    """Let memories be contested exactly while something contests them, as every effect leaves them."""
    for memory in of:
        stored, open_ = _stored(writer, memory), writer.tx.contradictions.of_memories([memory.id], is_open=True)
        writer.put_memory(stored, replace(stored, contested=bool(open_)))


STEPS: tuple[Callable[[Writer, random.Random, list[Memory]], None], ...] = (
    _memory,
    _document,
    _version,
    _evidence,
    _bury,
    _contradict,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[tuple[Memories, InProcessServer]]:
    server = InProcessServer()
    with open_store(tmp_path_factory.mktemp("store"), server=server) as opened:
        unsafe(opened)
        yield opened, server


def uncontested(store: Memories, of: list[Memory]) -> list[Memory]:
    """Take away flags that no contradiction stands behind."""
    plain = [replace(m, contested=False, rev=m.rev + 1) for m in of]
    with store.ledger.write() as tx:
        tx.memories.replace(plain)
        tx.outbox.mark([m.id for m in plain], T0)
    while store.projector.drain().pending:
        pass
    return plain


def scribbled(store: Memories, of: list[Memory], numbers: random.Random, now: int) -> Sweep:
    """Journal a sweep whose actions change rows of every kind, as effects would; return it done."""
    plan = a_plan(of, seed=numbers.randrange(99))
    with store.ledger.write() as tx:
        sweep = begin(tx, plan, actor="law", reason="", now=now)
        for seq in range(len(plan.actions)):
            writer = Writer(tx, sweep.id, now)
            for _ in range(numbers.randrange(4)):
                numbers.choice(STEPS)(writer, numbers, of)
            _flag(writer, of)
            tx.sweeps.applied(sweep.id, [(seq, "", writer.images())], now)
        tx.sweeps.finish(sweep.id, SweepStatus.DONE, now)
    store.projector.drain()
    return sweep


def rows(store: Memories, server: InProcessServer, tenant: str) -> tuple[Any, Any]:
    assert is_in_step(store)
    return ledger_rows(store, tenant), index_rows(server, tenant)


@FEW
@given(size=st.integers(2, 9), seed=SEEDS, batch=st.integers(1, 12))
def test_rows_of_every_kind_go_back_and_forth(store, size, seed, batch):
    memories, server = store
    tenant, numbers = f"u{next(_tenants)}", random.Random(seed)
    rules = policy(tenant, batch=batch)
    of = uncontested(memories, stocked(memories, count=size, seed=seed, tenant=tenant))
    states, sweeps = [rows(memories, server, tenant)], []
    for n in range(2):
        sweeps.append(scribbled(memories, of, numbers, T0 + n))
        states.append(rows(memories, server, tenant))
    second = undo(memories, sweeps[1].id, tenant, actor="law", policy=rules)
    assert rows(memories, server, tenant) == states[1]
    undo(memories, second.id, tenant, actor="law", policy=rules)
    assert rows(memories, server, tenant) == states[2]
    for n in (1, 0):
        undo(memories, sweeps[n].id, tenant, actor="law", policy=rules)
        assert rows(memories, server, tenant) == states[n]


@FEW
@given(size=st.integers(2, 9), seed=SEEDS)
def test_the_images_of_a_sweep_hold_no_words_of_a_memory(store, size, seed):
    memories, _ = store
    tenant, numbers = f"u{next(_tenants)}", random.Random(seed)
    of = stocked(memories, count=size, seed=seed, tenant=tenant)
    sweep = scribbled(memories, of, numbers, T0)
    with memories.ledger.read() as tx:
        kept = str(tx.sweeps.images(sweep.id, range(99)))
    assert not [m.text for m in of if m.text in kept]
    assert "opens at" not in kept


def test_every_kind_of_row_is_scribbled_on(store):
    memories, _ = store
    of = stocked(memories, count=8, tenant="every")
    seen: set[ImageKind] = set()
    for seed in range(4):
        sweep = scribbled(memories, of, random.Random(seed), T0)
        with memories.ledger.read() as tx:
            seen |= {i.kind for own in tx.sweeps.images(sweep.id, range(99)).values() for i in own}
    assert seen == set(ImageKind)


def test_an_effect_may_change_nothing_that_an_image_could_not_put_back(store):
    memories, _ = store
    of = stocked(memories, count=2, tenant="guarded")
    for change in ({"text": "else"}, {"metadata": {}}, {"source": "file://other"}, {"doc_id": None}):
        with pytest.raises(IntegrityError, match="other columns"), memories.ledger.write() as tx:
            Writer(tx, SweepId("s"), T0).put_memory(of[1], replace(of[1], **change))  # type: ignore[arg-type]
    with memories.ledger.write() as tx:
        (document,) = tx.documents.of_root("guarded", "docs")
        with pytest.raises(IntegrityError, match="other columns"):
            Writer(tx, SweepId("s"), T0).put_document(document, replace(document, title="else"))


def test_what_is_the_same_is_left_alone(store):
    memories, _ = store
    of = stocked(memories, count=2, tenant="same")
    with memories.ledger.write() as tx:
        writer = Writer(tx, SweepId("s"), T0 + 9)
        again = replace(of[0], trust=replace(of[0].trust, shown=of[0].trust.confidence))
        assert writer.put_memory(of[0], again) is of[0]
        (document,) = tx.documents.of_root("same", "docs")
        assert writer.put_document(document, document) is document
        assert writer.images() == []
        assert memory_columns(_stored(writer, of[0])) == memory_columns(of[0])
