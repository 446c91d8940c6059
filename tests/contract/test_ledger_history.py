"""Answers, evaluations, lineage, evidence and utility in the ledger, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kb.errors import InputError, IntegrityError
from kb.history import AnswerId, AnswerRecord, CitedMemory, EdgeKind, Evaluation, EvidenceKind, Utility
from kb.model import MemoryId, Scope
from tests.history_samples import A1, A2, M1, M2, M3, an_answer, an_edge, an_evaluation, an_event
from tests.ledger_samples import NOW

if TYPE_CHECKING:
    from kb.ledger import Ledger

MANY = 1_100  # more than one IN list holds


def kept(ledger: Ledger, *answers: AnswerRecord) -> None:
    with ledger.write() as tx:
        for answer in answers:
            assert tx.answers.add(answer)


# Answers.


def test_an_answer_comes_back_as_it_went_in_for_its_tenant_only(ledger: Ledger) -> None:
    bare = AnswerRecord(id=A2, tenant="acme", question="?", text="", outcome="refused", verdict="incorrect")
    kept(ledger, an_answer(), bare)
    with ledger.read() as tx:
        assert tx.answers.get(A1, "acme") == an_answer()
        assert tx.answers.get(A2, "acme") == bare
        assert tx.answers.get(A1, "globex") is None
        assert tx.answers.get(AnswerId("nobody"), "acme") is None
        assert tx.tenants.list() == ["acme"]


def test_an_answer_that_is_written_again_is_no_error_and_no_second_one(ledger: Ledger) -> None:
    answer = an_answer(report={"path": ("plan", "retrieve"), "n": 1.5})
    kept(ledger, answer)
    for _ in range(2):
        with ledger.write() as tx:
            assert not tx.answers.add(answer)
    with ledger.read() as tx:
        assert tx.answers.page("acme") == [replace(answer, report={"path": ["plan", "retrieve"], "n": 1.5})]


@pytest.mark.parametrize(
    "changes", [{"text": "no"}, {"tenant": "globex"}, {"citations": ()}, {"report": {}}, {"created_at": NOW + 1}]
)
def test_another_answer_under_a_known_id_is_refused(ledger: Ledger, changes: dict[str, object]) -> None:
    kept(ledger, an_answer())
    with pytest.raises(IntegrityError, match="id a1"), ledger.write() as tx:
        tx.answers.add(an_answer(**changes))
    with ledger.read() as tx:
        assert tx.answers.page("acme") == [an_answer()]


def test_a_threads_turns_come_newest_first_and_of_no_other_thread(ledger: Ledger) -> None:
    turns = [an_answer(f"a{n}", created_at=NOW + n // 2) for n in range(5)]
    others = [an_answer("x", thread="t2"), an_answer("y", tenant="globex"), an_answer("z", thread="")]
    kept(ledger, *turns, *others)
    with ledger.read() as tx:
        assert [a.id for a in tx.answers.latest("acme", "t1", 9)] == ["a4", "a3", "a2", "a1", "a0"]
        assert tx.answers.latest("acme", "t1", 2) == [turns[4], turns[3]]
        assert tx.answers.latest("acme", "t1", 0) == []
        assert tx.answers.latest("acme", "", 9) == []  # answers outside of threads are nobody's turns


def test_a_thread_can_be_narrowed_to_one_scope(ledger: Ledger) -> None:
    kept(ledger, an_answer("a1"), an_answer("a2", scope=Scope(user="u2")))
    with ledger.read() as tx:
        assert [a.id for a in tx.answers.latest("acme", "t1", 9, scope=Scope(user="u2"))] == ["a2"]
        assert tx.answers.latest("acme", "t1", 9, scope=Scope()) == []


def test_pages_tile_the_answers_even_of_one_instant(ledger: Ledger) -> None:
    answers = [an_answer(f"a{n:02d}", created_at=NOW + n // 4) for n in range(11)]
    kept(ledger, *answers, an_answer("foreign", tenant="globex"))
    seen: list[AnswerRecord] = []
    with ledger.read() as tx:
        page = tx.answers.page("acme", limit=3)
        while page:
            seen += page
            page = tx.answers.page("acme", page[-1].created_at, 3, before_id=page[-1].id)
        assert [a.id for a in tx.answers.page("acme", NOW + 1)] == ["a03", "a02", "a01", "a00"]
    assert seen == answers[::-1]


def test_a_memory_knows_the_answers_that_cited_it(ledger: Ledger) -> None:
    twice = CitedMemory(memory_id=M3, rev=1, source="file://docs/c.md")
    kept(
        ledger,
        an_answer("a1"),
        an_answer("a2", created_at=NOW + 5, citations=(twice, replace(twice, quote="again"))),
        an_answer("a3", created_at=NOW + 9),
    )
    with ledger.read() as tx:
        assert tx.answers.of_memory(M1) == ["a3", "a1"]
        assert tx.answers.of_memory(M3) == ["a2"]
        assert tx.answers.of_memory(MemoryId("nobody")) == []


def test_any_number_of_answers_comes_with_its_citations(ledger: Ledger) -> None:
    answers = [an_answer(f"a{n:05d}", created_at=NOW + n) for n in range(MANY)]
    kept(ledger, *answers)
    with ledger.read() as tx:
        assert tx.answers.latest("acme", "t1", MANY) == answers[::-1]


# Evaluations.


def test_evaluations_come_by_answer_in_order_and_by_memory_newest_first(ledger: Ledger) -> None:
    first = [an_evaluation(M2), an_evaluation(M1, label="unknown", relevance=None), an_evaluation(M3, relevance=0)]
    later = [an_evaluation(M1, answer_id=A2, at=NOW + 7, rev=4, label="irrelevant", relevance=1.0)]
    with ledger.write() as tx:
        tx.evaluations.add(first)
        tx.evaluations.add(later)
        tx.evaluations.add([])
    with ledger.read() as tx:
        assert tx.evaluations.of_answer(A1) == first
        assert tx.evaluations.of_answer(A2) == later
        assert tx.evaluations.of_memory(M1, 9) == [*later, first[1]]
        assert tx.evaluations.of_memory(M1, 1) == later
        assert tx.evaluations.of_memory(MemoryId("nobody"), 9) == []


def test_zero_has_no_sign_on_either_database(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.evaluations.add([an_evaluation(relevance=-0.0)])
        tx.evidence.add([an_event(weight=-0.0)])
        assert repr(tx.evaluations.of_answer(A1)[0].relevance) == repr(tx.evidence.of_memory(M1)[0].weight) == "0.0"


@pytest.mark.parametrize(
    ("label", "relevance"),
    [("relevant", None), ("unknown", 0.5), ("relevant", 1.1), ("relevant", -0.1), ("relevant", float("nan"))],
)
def test_a_relevance_at_odds_with_its_label_or_range_is_refused(
    ledger: Ledger, label: str, relevance: float | None
) -> None:
    with pytest.raises(InputError, match="relevance"), ledger.write() as tx:
        tx.evaluations.add([an_evaluation(), an_evaluation(label=label, relevance=relevance)])
    with ledger.read() as tx:
        assert tx.evaluations.of_answer(A1) == []


# Lineage.


def test_steps_are_kept_once_with_their_first_instant(ledger: Ledger) -> None:
    step = an_edge("m1", "a1")
    with ledger.write() as tx:
        tx.lineage.add([step, replace(step, at=NOW + 1)])
        tx.lineage.add([replace(step, at=NOW + 2), an_edge("a1", "k1", EdgeKind.KEY), an_edge("m0", "a1")])
        tx.lineage.add([])
    with ledger.read() as tx:
        assert tx.lineage.parents("a1") == [an_edge("m0", "a1"), step]
        assert tx.lineage.children("m1") == [step]
        assert tx.lineage.children("a1") == [an_edge("a1", "k1", EdgeKind.KEY)]
        assert tx.lineage.parents("nobody") == tx.lineage.children("nobody") == []


def test_an_answer_key_asked_again_points_to_its_newest_answer_alone(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.lineage.add([an_edge("a1", "k1", EdgeKind.KEY), an_edge("a0", "k1", EdgeKind.KEY), an_edge("a1", "k1")])
    with ledger.write() as tx:
        assert tx.lineage.remove("k1", EdgeKind.KEY) == 2
        assert tx.lineage.remove("k1", EdgeKind.KEY) == 0
        tx.lineage.add([an_edge("a2", "k1", EdgeKind.KEY)])
    with ledger.read() as tx:
        assert tx.lineage.parents("k1") == [an_edge("a1", "k1"), an_edge("a2", "k1", EdgeKind.KEY)]


def test_lineage_is_followed_all_the_way_nearest_first(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.lineage.add([an_edge("m1", "a1"), an_edge("m2", "a1"), an_edge("a1", "w1", EdgeKind.FOUND)])
        tx.lineage.add([an_edge("w1", "a2"), an_edge("m1", "a2"), an_edge("a2", "k2", EdgeKind.KEY)])
    with ledger.read() as tx:
        assert list(tx.lineage.ancestors(["a2"]).items()) == [("m1", 1), ("w1", 1), ("a1", 2), ("m2", 3)]
        assert list(tx.lineage.descendants(["m2"]).items()) == [("a1", 1), ("w1", 2), ("a2", 3), ("k2", 4)]
        assert tx.lineage.descendants(["a1", "m1"]) == {"w1": 1, "a2": 1, "k2": 2}
        assert tx.lineage.ancestors(["m1", "nobody"]) == tx.lineage.descendants([]) == {}


def test_a_circle_ends_and_its_members_are_not_their_own_ancestors(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.lineage.add([an_edge("a", "b"), an_edge("b", "c"), an_edge("c", "a"), an_edge("d", "d"), an_edge("d", "a")])
    with ledger.read() as tx:
        assert tx.lineage.ancestors(["a"]) == {"c": 1, "d": 1, "b": 2}
        assert tx.lineage.descendants(["a"]) == {"b": 1, "c": 2}
        assert tx.lineage.ancestors(["d"]) == {}


def test_any_number_of_children_is_followed(ledger: Ledger) -> None:
    wide = [an_edge("root", f"a{n}") for n in range(2_300)]
    with ledger.write() as tx:
        tx.lineage.add([*wide, *(an_edge(e.child, "last", EdgeKind.FOUND) for e in wide)])
    with ledger.read() as tx:
        assert len(tx.lineage.descendants(["root"])) == 2_301
        assert tx.lineage.ancestors(["last"])["root"] == 2
        assert tx.lineage.ancestors([e.child for e in wide]) == {"root": 1}


# Evidence.


def test_of_events_with_one_memory_kind_and_witness_the_first_counts(ledger: Ledger) -> None:
    first = an_event()
    again = replace(first, weight=-1.0, at=NOW - 5, answer_id=A2)
    other_kind = replace(first, kind=EvidenceKind.FEEDBACK, answer_id=None, reason="")
    other_witness, other_memory = replace(first, witness="Docs"), an_event(M2)
    with ledger.write() as tx:
        assert tx.evidence.add([first, again, other_kind]) == [first, other_kind]
        assert tx.evidence.add([]) == []
    with ledger.write() as tx:
        assert tx.evidence.add([other_witness, again, other_memory, again]) == [other_witness, other_memory]
        assert tx.evidence.add([first, again, other_kind, other_memory]) == []
    with ledger.read() as tx:
        assert tx.evidence.of_memory(M1) == [other_witness, first, other_kind]
        assert tx.evidence.of_memory(M2) == [other_memory]
        assert tx.evidence.of_memory(M3) == []


def test_events_are_told_since_an_instant_and_of_one_tenant(ledger: Ledger) -> None:
    events = [an_event(f"m{n}", at=NOW + n) for n in (3, 1, 2)]
    with ledger.write() as tx:
        tx.evidence.add([*events, an_event("m9", tenant="globex", at=NOW + 9)])
    with ledger.read() as tx:
        assert tx.evidence.since("acme", NOW + 2) == [events[2], events[0]]
        assert tx.evidence.since("acme", NOW + 4) == []
        assert [e.memory_id for e in tx.evidence.since("globex", 0)] == ["m9"]


def test_many_events_are_told_apart_in_one_call(ledger: Ledger) -> None:
    events = [an_event(f"m{n:05d}", witness=f"w{n % 3}") for n in range(5_000)]
    with ledger.write() as tx:
        assert tx.evidence.add(events[::2]) == events[::2]
        assert tx.evidence.add(events) == events[1::2]


# Utility.


def test_use_is_counted_once_an_answer_under_each_word(ledger: Ledger) -> None:
    with ledger.write() as tx:
        tx.utility.bump(retrieved=[M2, M1, M2], relevant=[M1], cited=[M1, M1], now=NOW + 5)
        tx.utility.bump(retrieved=[M1], cited=[M3], now=NOW)
        tx.utility.bump(now=NOW + 99)
    with ledger.read() as tx:
        found = tx.utility.get([M3, M1, M2, MemoryId("nobody"), M1])
        assert tx.utility.get([]) == {}
    assert list(found.values()) == [
        Utility(memory_id=M3, cited=1, last_at=NOW),
        Utility(memory_id=M1, retrieved=2, relevant=1, cited=1, last_at=NOW + 5),
        Utility(memory_id=M2, retrieved=1, last_at=NOW + 5),
    ]


def test_any_number_of_memories_is_counted(ledger: Ledger) -> None:
    ids = [MemoryId(f"m{n:05d}") for n in range(2_300)]
    with ledger.write() as tx:
        tx.utility.bump(retrieved=ids, relevant=ids[::2], now=NOW)
        assert sum(u.retrieved + u.relevant for u in tx.utility.get(ids).values()) == 3_450


# What either database would bend.


@pytest.mark.parametrize("bad", ["a\0b", "half \ud83d", "", "x" * 257])
def test_a_name_that_cannot_be_is_refused_in_and_out(ledger: Ledger, bad: str) -> None:
    with ledger.write() as tx:
        for attempt in (
            lambda: tx.answers.add(an_answer(bad)),
            lambda: tx.answers.add(an_answer(citations=(CitedMemory(memory_id=MemoryId(bad), rev=1, source="s"),))),
            lambda: tx.answers.get(AnswerId(bad), "acme"),
            lambda: tx.answers.latest(bad, "t1", 1),
            lambda: tx.answers.page(bad),
            lambda: tx.answers.of_memory(MemoryId(bad)),
            lambda: tx.evaluations.add([an_evaluation(bad)]),
            lambda: tx.evaluations.of_answer(AnswerId(bad)),
            lambda: tx.evaluations.of_memory(MemoryId(bad), 1),
            lambda: tx.lineage.add([an_edge("a", "b"), an_edge(bad, "b")]),
            lambda: tx.lineage.remove(bad, EdgeKind.KEY),
            lambda: tx.lineage.parents(bad),
            lambda: tx.lineage.children(bad),
            lambda: tx.lineage.ancestors(["a", bad]),
            lambda: tx.lineage.descendants([bad]),
            lambda: tx.evidence.add([an_event(), an_event(witness=bad)]),
            lambda: tx.evidence.of_memory(MemoryId(bad)),
            lambda: tx.evidence.since(bad, 0),
            lambda: tx.utility.bump(retrieved=[M1], cited=[MemoryId(bad)], now=NOW),
            lambda: tx.utility.get([MemoryId(bad)]),
        ):
            with pytest.raises(InputError):
                attempt()
    with ledger.read() as tx:  # refused before anything was written
        assert tx.answers.page("acme") == []
        assert tx.lineage.children("a") == tx.evidence.of_memory(M1) == []
        assert tx.utility.get([M1]) == {}


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_refused(ledger: Ledger, number: int) -> None:
    evaluation: Evaluation = an_evaluation(rev=number)
    with ledger.write() as tx:
        for attempt in (
            lambda: tx.answers.add(an_answer(created_at=number)),
            lambda: tx.answers.page("acme", number),
            lambda: tx.evaluations.add([evaluation]),
            lambda: tx.lineage.add([an_edge("a", "b", at=number)]),
            lambda: tx.evidence.add([an_event(at=number)]),
            lambda: tx.evidence.since("acme", number),
            lambda: tx.utility.bump(retrieved=[M1], now=number),
        ):
            with pytest.raises(InputError):
                attempt()
