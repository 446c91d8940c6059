"""History comes back from both databases as it went in, or is refused by both; lineage is a plain closure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.errors import InputError
from kb.history import (
    AnswerId,
    AnswerRecord,
    CitedMemory,
    Edge,
    EdgeKind,
    Evaluation,
    EvidenceEvent,
    EvidenceKind,
    Utility,
)
from kb.ledger.checks import MAX_SOURCE_BYTES
from kb.model import MemoryId, Scope
from tests.history_samples import an_answer, an_edge, an_evaluation, an_event
from tests.property.ledger_values import BAD_TEXT, INT64, JSON, NAME, REAL, TEXT, UNIT, undone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kb.ledger import Ledger

CITED = st.builds(
    CitedMemory,
    memory_id=NAME.map(MemoryId),
    rev=INT64,
    source=NAME | st.just("x" * MAX_SOURCE_BYTES),
    url=TEXT,
    title=TEXT,
    quote=TEXT,
    supports=st.booleans(),
)
ANSWER = st.builds(
    AnswerRecord,
    id=NAME.map(AnswerId),
    tenant=NAME,
    scope=st.builds(Scope, agent=TEXT, user=TEXT, conversation=TEXT),
    thread=TEXT,
    question=TEXT,
    text=TEXT,
    outcome=NAME,
    verdict=NAME,
    citations=st.lists(CITED, max_size=5).map(tuple),
    report=st.dictionaries(TEXT, JSON, max_size=4),
    created_at=st.integers(-(2**63), 2**63 - 2),
)
GRADE = st.just(("unknown", None)) | st.tuples(NAME.filter(lambda label: label != "unknown"), UNIT)
EVALUATION = st.builds(
    lambda grade, **fields: Evaluation(label=grade[0], relevance=grade[1], **fields),
    grade=GRADE,
    answer_id=st.just(AnswerId("a")),
    tenant=NAME,
    question=TEXT,
    memory_id=NAME.map(MemoryId),
    rev=INT64,
    reason=TEXT,
    evaluator=TEXT,
    model=TEXT,
    version=TEXT,
    at=INT64,
)
EVENT = st.builds(
    EvidenceEvent,
    memory_id=st.sampled_from(["m", "文"]).map(MemoryId) | NAME.map(MemoryId),
    tenant=NAME,
    kind=st.sampled_from(EvidenceKind),
    weight=REAL,
    witness=st.sampled_from(["w", "W"]) | NAME,
    answer_id=st.none() | NAME.map(AnswerId),
    reason=TEXT,
    at=INT64,
)
NODES = "abcdefgh"
GRAPH = st.lists(
    st.builds(an_edge, st.sampled_from(NODES), st.sampled_from(NODES), st.sampled_from(EdgeKind)), max_size=24
)  # circles and loops included
DAG = GRAPH.map(lambda edges: [e for e in edges if e.parent < e.child])


@given(answer=ANSWER)
def test_an_answer_comes_back_to_the_last_bit(one_ledger: Ledger, answer: AnswerRecord) -> None:
    with undone(one_ledger) as tx:
        assert tx.answers.add(answer)
        assert repr(tx.answers.get(answer.id, answer.tenant)) == repr(answer)  # 1, 1.0 and True differ
        assert tx.answers.page(answer.tenant) == [answer]
        assert tx.answers.latest(answer.tenant, answer.thread, 2) == ([answer] if answer.thread else [])
        assert all(tx.answers.of_memory(cited.memory_id) == [answer.id] for cited in answer.citations)
        assert not tx.answers.add(answer)


@given(evaluations=st.lists(EVALUATION, min_size=1, max_size=4))
def test_evaluations_come_back_to_the_last_bit(one_ledger: Ledger, evaluations: list[Evaluation]) -> None:
    with undone(one_ledger) as tx:
        tx.evaluations.add(evaluations)
        assert repr(tx.evaluations.of_answer(AnswerId("a"))) == repr(evaluations)


@given(edge=st.builds(Edge, tenant=NAME, parent=NAME, child=NAME, kind=st.sampled_from(EdgeKind), at=INT64))
def test_a_step_comes_back_as_it_went_in(one_ledger: Ledger, edge: Edge) -> None:
    with undone(one_ledger) as tx:
        tx.lineage.add([edge])
        assert tx.lineage.parents(edge.child) == tx.lineage.children(edge.parent) == [edge]


@given(before=st.lists(EVENT, max_size=4), events=st.lists(EVENT, max_size=6))
def test_the_first_event_of_a_witness_is_the_one_that_counts(
    one_ledger: Ledger, before: list[EvidenceEvent], events: list[EvidenceEvent]
) -> None:
    first: dict[tuple[str, str, str], EvidenceEvent] = {}
    with undone(one_ledger) as tx:
        for given_now in (before, events):
            new = [e for e in given_now if first.setdefault((e.memory_id, e.kind, e.witness), e) is e]
            assert repr(tx.evidence.add(given_now)) == repr(new)
        stored = {repr(e) for m in {e.memory_id for e in first.values()} for e in tx.evidence.of_memory(m)}
        assert stored == {repr(e) for e in first.values()}


USES = st.lists(NAME.map(MemoryId) | st.just(MemoryId("m")), max_size=4)


@given(answers=st.lists(st.tuples(USES, USES, USES, INT64), max_size=4))
def test_utility_is_the_count_of_answers(
    one_ledger: Ledger, answers: list[tuple[list[MemoryId], list[MemoryId], list[MemoryId], int]]
) -> None:
    expected: dict[MemoryId, Utility] = {}
    with undone(one_ledger) as tx:
        for retrieved, relevant, cited, now in answers:
            tx.utility.bump(retrieved=retrieved, relevant=relevant, cited=cited, now=now)
            for id_ in {*retrieved, *relevant, *cited}:
                was = expected.get(id_, Utility(memory_id=id_, last_at=now))
                expected[id_] = Utility(
                    memory_id=id_,
                    retrieved=was.retrieved + (id_ in retrieved),
                    relevant=was.relevant + (id_ in relevant),
                    cited=was.cited + (id_ in cited),
                    last_at=max(was.last_at, now),
                )
        assert tx.utility.get(expected) == expected


def closure(starts: Collection[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return all that the steps lead to from `starts`, with the fewest steps, by trying until nothing changes."""
    away = dict.fromkeys(starts, 0)
    for distance in range(1, len(NODES) + 1):
        for origin, end in edges:
            if away.get(origin) == distance - 1:
                away.setdefault(end, distance)
    return {node: distance for node, distance in away.items() if node not in starts}


@given(edges=GRAPH | DAG, starts=st.lists(st.sampled_from(NODES), max_size=3))
def test_lineage_followed_all_the_way_is_the_closure(one_ledger: Ledger, edges: list[Edge], starts: list[str]) -> None:
    with undone(one_ledger) as tx:
        tx.lineage.add(edges)
        up, down = tx.lineage.ancestors(starts), tx.lineage.descendants(starts)
        assert up == closure(starts, {(e.child, e.parent) for e in edges})
        assert down == closure(starts, {(e.parent, e.child) for e in edges})
        for found in (up, down):
            assert list(found) == sorted(found, key=lambda node: (found[node], node))


def with_json(bad: str) -> list[dict[str, object]]:
    return [{bad: 1}, {"k": bad}, {"k": [1, {"k": bad}]}, {"k": {"k": {bad: None}}}]


TEXTS_OF: dict[str, tuple[Callable[..., object], tuple[str, ...]]] = {
    "answers": (an_answer, ("id", "tenant", "thread", "question", "text", "outcome", "verdict")),
    "citations": (
        lambda **changes: an_answer(citations=(replace(an_answer().citations[0], **changes),)),
        ("memory_id", "source", "url", "title", "quote"),
    ),
    "scope": (lambda **changes: an_answer(scope=Scope(**changes)), ("agent", "user", "conversation")),
    "evaluations": (
        an_evaluation,
        ("answer_id", "tenant", "question", "memory_id", "label", "reason", "evaluator", "model", "version"),
    ),
    "lineage": (lambda **changes: an_edge(**{"parent": "a", "child": "b", **changes}), ("tenant", "parent", "child")),
    "evidence": (an_event, ("memory_id", "tenant", "witness", "answer_id", "reason")),
}
FIELDS = [(table, field) for table, (_, fields) in TEXTS_OF.items() for field in fields]


@settings(max_examples=120)
@given(bad=BAD_TEXT, at=st.sampled_from(FIELDS))
def test_text_that_one_of_them_would_bend_is_refused_by_both(one_ledger: Ledger, bad: str, at: tuple[str, str]) -> None:
    table, field = at
    value = TEXTS_OF[table][0](**{field: bad})
    with pytest.raises(InputError), one_ledger.write() as tx:
        tx.answers.add(value) if isinstance(value, AnswerRecord) else getattr(tx, table).add([value])


@settings(max_examples=40)
@given(bad=BAD_TEXT)
def test_bad_text_is_refused_however_deep_in_a_report(one_ledger: Ledger, bad: str) -> None:
    for report in with_json(bad):
        with pytest.raises(InputError), one_ledger.write() as tx:
            tx.answers.add(an_answer(report=report))
