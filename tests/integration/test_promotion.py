"""Promotion: enough independent witnesses let a quarantined memory out; an echo never does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.actor import Actor
from governance.review import decide
from governance.testimony import distinct, weighing
from kb.evidence_rules import applied
from kb.history import EvidenceEvent, EvidenceKind
from kb.model import Scope, SourceClass, Standing
from kb.sweeps import SweepJob, TombstoneKind
from kb.trust import DAY_MS, effective
from tests.disputing import (
    FIFTY,
    FORTY,
    POLICIES,
    VIERZIG,
    derive,
    events_of,
    keep,
    now_of,
    policy,
    promote,
    said,
)
from tests.stores import T0, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.index.milvus import MilvusServer
    from kb.memories import Memories

ALSO = "On dry days the Harbour Bridge carries a load of 40 tons."
THIRD = "The Harbour Bridge carries a load of 40,000 kg on dry days."


@pytest.fixture(params=["in process", "lite"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memories]:
    """A store, on an index in this process and on Milvus Lite."""
    server: MilvusServer | None = request.getfixturevalue("milvus") if request.param == "lite" else None
    with open_store(tmp_path / "data", server=server) as memories:
        yield memories
        if server is not None:
            with memories.ledger.read() as tx:
                current = memories.generations.current(tx)
            if current is not None:
                server.drop(current.name)


@pytest.mark.parametrize("by", [SourceClass.WEB, SourceClass.AGENT])
def test_two_independent_verified_sources_promote_and_one_does_not(real: Memories, by: SourceClass) -> None:
    waits = said("w", FORTY, by=by)
    keep(real, waits, said("a", THIRD, verified=True))
    promote(real)
    (after,) = now_of(real, waits)
    assert (after.standing, events_of(real, waits)) == (Standing.QUARANTINED, [("agreement", 1.0, "a")])
    keep(real, said("b", ALSO + " Ships pass at noon.", verified=True))
    promote(real)
    (after,) = now_of(real, waits)
    assert (after.standing, after.standing_reason) == (Standing.ACTIVE, "corroborated by a, b")
    assert events_of(real, waits) == [("agreement", 1.0, "a"), ("agreement", 1.0, "b")]
    assert after.trust.confidence == pytest.approx((2 * (1 * 0.5 + 1) / 2 + 1) / 3)
    rev = after.rev
    promote(real)
    assert now_of(real, waits)[0].rev == rev


def test_two_witnesses_of_one_instant_weigh_as_one_sum(real: Memories) -> None:
    waits = said("w", VIERZIG, by=SourceClass.WEB)
    keep(real, waits, said("a", VIERZIG + "船只中午通过。", verified=True), said("b", VIERZIG, verified=True))
    promote(real)
    (after,) = now_of(real, waits)
    assert after.standing is Standing.ACTIVE
    assert after.trust.confidence == pytest.approx((1 * 0.5 + 2) / 3) == pytest.approx(0.8333, abs=1e-4)


def test_a_contradiction_takes_a_witness_away(store: Memories) -> None:
    waits = said("w", FORTY, by=SourceClass.WEB)
    keep(
        store,
        waits,
        said("a", THIRD, verified=True),
        said("b", ALSO, verified=True),
        said("c", FIFTY, verified=True),
    )
    promote(store)
    (after,) = now_of(store, waits)
    assert after.standing is Standing.QUARANTINED
    assert [e[:2] for e in events_of(store, waits)] == [
        ("agreement", 1.0),
        ("agreement", 1.0),
        ("contradiction", -1.0),
    ]


FINDING, FIRST = said("w", FORTY, by=SourceClass.WEB), said("a", THIRD, verified=True)
SECOND = said("b", ALSO, verified=True)
FADED = replace(SECOND.trust, anchor=T0 - 90 * DAY_MS, birth=T0 - 92 * DAY_MS)
ECHOES = {
    "two chunks of one document": replace(SECOND, doc_id=FIRST.doc_id),
    "two documents of one root": replace(SECOND, source="file://a/other.md"),
    "a copy under another root": said("b", THIRD, verified=True),
    "written from the first": said("b", ALSO, by=SourceClass.AGENT, verified=True),
    "written from the finding": said("b", ALSO, by=SourceClass.PERSON, verified=True),
    "an answer": said("b", FORTY, by=SourceClass.ANSWER, standing=Standing.ACTIVE),
    "the same host": said("b", ALSO, by=SourceClass.WEB, verified=True, source="https://www.w.example/other"),
    "unverified": said("b", ALSO),
    "faded": replace(SECOND, trust=FADED),
    "private": replace(SECOND, scope=Scope(user="u1")),
}


@pytest.mark.parametrize("case", ECHOES)
def test_an_echo_never_counts(store: Memories, case: str) -> None:
    second = ECHOES[case]
    keep(store, FINDING, FIRST, second)
    if case == "written from the first":
        derive(store, second, FIRST.id)
    if case == "written from the finding":
        derive(store, second, FINDING.id)
    for _ in range(2):
        promote(store)
    assert now_of(store, FINDING)[0].standing is Standing.QUARANTINED
    assert len(events_of(store, FINDING)) == 1


def test_without_an_echo_the_same_two_count(store: Memories) -> None:
    keep(store, FINDING, FIRST, SECOND)
    promote(store)
    assert now_of(store, FINDING)[0].standing is Standing.ACTIVE


def test_one_true_line_vouches_for_nothing_else(store: Memories) -> None:
    noise = " ".join(f"The keeper of gate {n} sleeps in the old mill house." for n in range(4))
    smuggled = said("w", f"{FORTY} {noise}", by=SourceClass.WEB)
    keep(store, smuggled, FIRST, SECOND)
    promote(store)
    assert events_of(store, smuggled) == []


def test_what_a_person_rejected_or_what_was_rolled_back_is_promoted_by_nobody(store: Memories) -> None:
    rejected, rolled, barred = (said(n, FORTY, by=SourceClass.WEB) for n in ("r", "s", "t"))
    rolled = replace(rolled, standing_reason="rolled back by sweep 1")
    barred = replace(barred, text=ALSO, embed_hash=said("x", ALSO).embed_hash)
    keep(store, rejected, rolled, barred, said("a", THIRD, verified=True))
    keep(store, said("b", f"{FORTY} Ships pass at noon.", verified=True))
    with store.ledger.write() as tx:
        tx.tombstones.add("default", TombstoneKind.TEXT, [ALSO], sweep_id="s1", reason="rolled_back", at=T0)  # type: ignore[arg-type]
    decide(store, [rejected.id], SweepJob.REJECT, policy=policy(), actor=Actor(name="ann"))
    promote(store)
    for memory in (rejected, rolled, barred):
        assert now_of(store, memory)[0].standing is Standing.QUARANTINED
        assert not [e for e in events_of(store, memory) if e[0] != "rejection"]


def test_a_policy_may_ask_for_more_witnesses(store: Memories) -> None:
    waits = said("w", FORTY, by=SourceClass.AGENT)
    keep(store, waits, said("a", THIRD, verified=True), said("b", ALSO, verified=True))
    promote(store, by=policy(promote_witnesses=3))
    assert now_of(store, waits)[0].standing is Standing.QUARANTINED
    promote(store)
    assert now_of(store, waits)[0].standing is Standing.ACTIVE


events = st.lists(
    st.builds(
        lambda kind, weight, witness: EvidenceEvent(
            memory_id=said("w", FORTY).id, tenant="default", kind=kind, weight=weight, witness=witness, at=T0
        ),
        st.sampled_from([EvidenceKind.AGREEMENT, EvidenceKind.CHECK, EvidenceKind.CONTRADICTION]),
        st.sampled_from([-2.0, -1.0, 1.0, 2.0]),
        st.sampled_from(["a", "b", "c", "d"]),
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(events, st.integers(0, 400), st.randoms())
def test_evidence_of_one_instant_is_order_free_and_never_moves_the_wrong_way(
    told: list[EvidenceEvent], days: int, order: object
) -> None:
    memory, own, now = said("w", FORTY), POLICIES[SourceClass.DOCUMENT], T0 + days * DAY_MS
    shuffled = list(told)
    order.shuffle(shuffled)  # type: ignore[attr-defined] # a random.Random
    assert weighing(memory, told).detail == weighing(memory, shuffled).detail
    before = effective(memory.trust, now, own.half_life)
    for sign in (1, -1):
        one_way = [e for e in told if e.weight * sign > 0]
        after = applied(memory, one_way, policy=own, now=now)
        assert sign * (effective(after.trust, now, own.half_life) - before) >= -1e-12


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.booleans()), max_size=8), st.randoms())
def test_witnesses_are_mutually_independent_whatever_their_order(
    given_: list[tuple[str, str, bool]], order: object
) -> None:
    made = [
        said(f"{n}", f"{FORTY} {n if not is_copy else ''}", source=f"file://{root}/{n}.md", doc=doc, verified=True)
        for n, (root, doc, is_copy) in enumerate(given_)
    ]
    kept = distinct(made, {}, frozenset())
    assert len({m.source.split("/")[2] for m in kept}) == len(kept) == len({m.doc_id for m in kept})
    shuffled = list(made)
    order.shuffle(shuffled)  # type: ignore[attr-defined] # a random.Random
    assert distinct(shuffled, {}, frozenset()) == kept


FARE = "The ferry to the old mill costs 90 euros for each passenger."


@pytest.mark.parametrize(
    "beside", [FARE, f"## {FARE}", f"| route | price |\n| --- | --- |\n| {FARE} | 90 |", f"    {FARE}"]
)
def test_an_agent_smuggles_nothing_in_beside_what_is_true(store: Memories, beside: str) -> None:
    note = said("w", f"{FORTY}\n\n{beside}", by=SourceClass.AGENT)
    keep(store, note, FIRST, SECOND)
    promote(store)
    assert (now_of(store, note)[0].standing, events_of(store, note)) == (Standing.QUARANTINED, [])


@pytest.mark.parametrize(
    ("title", "standing"),
    [(FARE, Standing.QUARANTINED), ("A bridge carries tons", Standing.ACTIVE), ("", Standing.ACTIVE)],
)
def test_an_agents_title_claims_nothing_that_its_note_does_not_say(
    store: Memories, title: str, standing: Standing
) -> None:
    note = said("w", FORTY, by=SourceClass.AGENT)
    note = replace(note, passage=replace(note.passage, title=title))
    keep(store, note, FIRST, SECOND)
    promote(store)
    assert now_of(store, note)[0].standing is standing
