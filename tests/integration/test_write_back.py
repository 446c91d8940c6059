"""What one answer writes: all of it or nothing, nothing that moves trust without need, and never at its cost."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.evidence import Finding, Outcome
from crag_runtime.recording.keys import answer_key
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import ASIDE, FOLDER, Spool
from crag_runtime.result import AskRequest, Waiting
from crag_runtime.store import Store
from kb.history import AnswerId, EdgeKind, EvidenceEvent, EvidenceKind
from kb.ledger.checks import MAX_NAME_BYTES
from kb.ledger.engine import LEDGER_FILE
from kb.model import Kind, MemoryId, Scope, Standing
from kb.trust import DAY_MS
from tests.agents import remember
from tests.asking import ask, by_words, open_runtime
from tests.chatting import vouched
from tests.durable import answers
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch
from tests.learned_samples import QUESTION, a_learned, agreeing, citing, disagreeing, found

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.result import Answer
    from kb.memories import Memories
    from kb.model import Memory

BRIDGE = "The Anping bridge carries 40 tons on a dry day."
SAME = "On a dry day 40 tons is what the Anping bridge carries."
OTHER = "The Anping bridge carries 55 tons on a dry day."
URL = "https://bridges.example/anping"
LONG = "tons that the Anping bridge carries by the most recently revised regulation of the harbour's department, " * 3
LONG_ZH = "市政府交通管理部门最近一次修订的桥梁安全管理办法所规定的安平大桥单辆货车连同所载货物在内的最大允许总重量" * 3


@pytest.fixture
def recorder(store: Memories, tmp_path: Path) -> Recorder:
    return Recorder(Store(store), Spool(tmp_path), "fake")


def asked(store: Memories, tmp_path: Path, question: str = QUESTION, request: Any = None, **parts: Any) -> Answer:
    async def story() -> Answer:
        given = {"evaluator": FakeEvaluator(by_words({"tons": 0.9, "吨": 0.9})), **parts}
        async with open_runtime(store, tmp_path, **given) as runtime:
            return await ask(runtime, question, **{"approve": "always", **(request or {})})

    return asyncio.run(story())


def changed(store: Memories, id_: str, **changes: Any) -> Memory:
    """Change a memory in the ledger, as the rest of the product would."""
    before = store.get(MemoryId(id_), "default")
    after = replace(before, rev=before.rev + 1, updated_at=store.clock.now(), **changes)
    with store.ledger.write() as tx:
        tx.memories.replace([after])
        tx.outbox.mark([after.id], after.updated_at)
    store.projector.drain()
    return after


def events(store: Memories, id_: str) -> list[EvidenceEvent]:
    with store.ledger.read() as tx:
        return tx.evidence.of_memory(MemoryId(id_))


def spooled(tmp_path: Path, pattern: str = "*.json") -> list[str]:
    return sorted(path.stem for path in (tmp_path / FOLDER).glob(pattern))


def leads_to(store: Memories) -> list[str]:
    """Return the answers that the key of the question leads to."""
    key = answer_key(a_learned("any", 0), store.policies)
    assert key is not None
    with store.ledger.read() as tx:
        return [edge.parent for edge in tx.lineage.parents(key.id) if edge.kind is EdgeKind.KEY]


def test_a_ledger_that_refuses_the_write_costs_no_answer_and_gets_it_once_it_can(
    store: Memories, tmp_path: Path
) -> None:
    """The database itself refuses: a table of it is away."""
    id_ = remember(store, BRIDGE)
    with sqlite3.connect(tmp_path / "kb" / LEDGER_FILE) as ledger:
        ledger.execute("ALTER TABLE answers RENAME TO away")
    first = asked(store, tmp_path)
    assert (first.outcome, first.citations[0].memory_id) == (Outcome.ANSWERED, id_)
    assert [d for d in first.degraded if d.startswith("write_back:") and "kept for later" in d]
    assert spooled(tmp_path) == [first.answer_id]
    with sqlite3.connect(tmp_path / "kb" / LEDGER_FILE) as ledger:
        ledger.execute("ALTER TABLE away RENAME TO answers")
    second = asked(store, tmp_path)
    assert (second.degraded, spooled(tmp_path), answers(store)) == ((), [], 2)
    with store.ledger.read() as tx:
        record = tx.answers.get(first.answer_id, "default")
        (use,) = tx.utility.get([MemoryId(id_)]).values()
        assert len(tx.evaluations.of_answer(first.answer_id)) == 1
    assert record is not None
    assert (record.text, use.cited) == (first.text, 2)


@pytest.mark.soak
def test_a_writer_that_never_ends_costs_no_answer(store: Memories, tmp_path: Path) -> None:
    """It is waited for as long as any writer is."""
    remember(store, BRIDGE)
    holder = sqlite3.connect(tmp_path / "kb" / LEDGER_FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    first = asked(store, tmp_path)
    holder.execute("ROLLBACK")
    holder.close()
    assert first.outcome is Outcome.ANSWERED
    assert [d for d in first.degraded if "locked" in d]
    asked(store, tmp_path)
    assert answers(store) == 2


@pytest.mark.parametrize("query", [LONG, LONG_ZH], ids=["en", "zh"])
def test_a_search_in_many_words_is_written_back_like_any_other(store: Memories, tmp_path: Path, query: str) -> None:
    """A person wrote them; a planner or a model may as well."""
    search = FakeSearch([Finding(url=URL, title="p", text=BRIDGE)])

    async def story() -> Any:
        grades = FakeEvaluator(by_words({"tons": 0.9}))
        async with open_runtime(store, tmp_path, evaluator=grades, search=search) as runtime:
            request = AskRequest(question=QUESTION, tenant="default", thread="t", approve="ask")
            assert isinstance(await runtime.ask(request), Waiting)
            return await runtime.resume("t", "default", decision="edit", query=query)

    answer = asyncio.run(story())
    assert (answer.outcome, answer.degraded, answers(store)) == (Outcome.ANSWERED, (), 1)
    (memory,) = store.page("default", kinds=(Kind.WEB,))
    with store.ledger.read() as tx:
        (parent,) = [edge.parent for edge in tx.lineage.parents(memory.id)]
    assert parent.startswith("search://fake/")
    assert len(parent.encode()) <= MAX_NAME_BYTES < len(f"search://fake/{search.queries[0]}".encode())


def test_a_page_whose_address_the_ledger_cannot_hold_is_cited_and_not_kept(store: Memories, tmp_path: Path) -> None:
    far = f"{URL}?{'x' * 2_100}"
    answer = asked(store, tmp_path, search=FakeSearch([Finding(url=far, title="p", text=BRIDGE)]))
    assert (answer.outcome, answer.degraded) == (Outcome.ANSWERED, ())
    assert [c.url for c in answer.citations] == [far]
    assert store.page("default", kinds=(Kind.WEB,)) == []
    with store.ledger.read() as tx:
        record = tx.answers.get(answer.answer_id, "default")
        assert tx.lineage.parents(answer.answer_id) == []
    assert record is not None
    assert [(c.url, c.rev) for c in record.citations] == [(far, 0)]


def test_what_the_ledger_can_never_hold_is_put_aside_at_once(
    store: Memories, tmp_path: Path, recorder: Recorder
) -> None:
    refused = recorder.record(a_learned("odd", store.clock.now(), thread="t" * 300))
    assert "put aside" in refused.problem
    assert (spooled(tmp_path), spooled(tmp_path, f"*{ASIDE}")) == ([], ["odd"])


def test_a_file_that_is_refused_for_good_holds_up_no_other(store: Memories, tmp_path: Path, recorder: Recorder) -> None:
    from crag_runtime.codec import plain

    spool, now = Spool(tmp_path), store.clock.now()
    spool.put("a", plain(a_learned("a", now, thread="t" * 300)))
    spool.put("b", {**plain(a_learned("b", now)), "outcome": "unheard of"})
    spool.put("c", plain(a_learned("c", now)))
    assert recorder.catch_up() == 0
    assert (answers(store), spooled(tmp_path, f"*{ASIDE}")) == (1, ["a", "b"])


@pytest.fixture
def disputed(store: Memories) -> tuple[Memory, str]:
    """A verified memory and one of another root that says otherwise."""
    return vouched(store, remember(store, BRIDGE, source="https://official.example/a")), remember(
        store, OTHER, source="https://blog.example/b", confidence=0.9
    )


def test_a_contradiction_of_today_moves_trust_of_today(
    store: Memories, tmp_path: Path, disputed: tuple[Memory, str]
) -> None:
    assert asked(store, tmp_path).outcome is Outcome.CONFLICT
    assert [e.kind for e in events(store, disputed[1])] == [EvidenceKind.CONTRADICTION]


@pytest.mark.parametrize("how", ["at", "as of"])
def test_a_question_about_the_past_moves_no_trust_of_today_and_leaves_no_key(
    store: Memories, tmp_path: Path, disputed: tuple[Memory, str], how: str
) -> None:
    store.clock.advance(2 * DAY_MS)
    then = store.clock.now()
    store.clock.advance(3 * DAY_MS)
    question = QUESTION if how == "at" else "How many tons did the Anping bridge carry as of 2027-01-17?"
    before = store.get(MemoryId(disputed[1]), "default").trust
    answer = asked(store, tmp_path, question, {"at": then} if how == "at" else None)
    assert answer.outcome is Outcome.CONFLICT
    assert events(store, disputed[1]) == []
    assert store.get(MemoryId(disputed[1]), "default").trust == before
    assert store.page("default", kinds=(Kind.ANSWER,)) == []


def test_an_answer_that_was_refused_in_the_end_moves_nothing(
    store: Memories, tmp_path: Path, disputed: tuple[Memory, str]
) -> None:
    answer = asked(store, tmp_path, generator=FakeGenerator("I made this up entirely."))
    assert (answer.outcome, events(store, disputed[1])) == (Outcome.REFUSED, [])


@pytest.mark.parametrize("user", ["", "ada"])
def test_one_user_s_memory_moves_nothing_that_others_see(store: Memories, tmp_path: Path, user: str) -> None:
    ada = Scope(user="ada")
    vouched(store, remember(store, BRIDGE, source="https://private.example/a", scope=ada))
    hearer = remember(store, OTHER, source="https://blog.example/b", scope=Scope(user=user), confidence=0.9)
    answer = asked(store, tmp_path, request={"scope": ada})
    assert answer.outcome is Outcome.CONFLICT
    assert [e.kind for e in events(store, hearer)] == ([EvidenceKind.CONTRADICTION] if user else [])
    assert all("40" not in e.reason and "55" not in e.reason for e in events(store, hearer))


def judged(store: Memories, recorder: Recorder, witness: str, hearer: str, late: int = 0) -> None:
    """Record an answer, given so long ago, in which one memory says what another says."""
    recorded = recorder.record(
        a_learned(f"{witness}-{hearer}"[:64], store.clock.now() - late, agreements=(agreeing(witness, hearer),))
    )
    assert recorded.problem == ""


CHANGES: dict[str, dict[str, Any]] = {
    "rejected": {"standing": Standing.QUARANTINED},
    "superseded": {"standing": Standing.SUPERSEDED},
    "retired": {"standing": Standing.RETIRED},
}


@pytest.mark.parametrize("who", ["witness", "hearer"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_between_reading_and_writing_is_no_evidence(
    store: Memories, recorder: Recorder, who: str, change: str
) -> None:
    witness = vouched(store, remember(store, BRIDGE, source="https://official.example/a")).id
    hearer = remember(store, SAME, source="https://blog.example/b")
    changed(store, witness if who == "witness" else hearer, **CHANGES[change])
    before = store.get(MemoryId(hearer), "default")
    judged(store, recorder, witness, hearer)
    assert (events(store, hearer), store.get(MemoryId(hearer), "default")) == ([], before)


def test_a_witness_that_is_no_longer_verified_or_has_faded_is_none(store: Memories, recorder: Recorder) -> None:
    hearer = remember(store, SAME, source="https://blog.example/b")
    doubted = vouched(store, remember(store, BRIDGE, source="https://official.example/a"))
    changed(store, doubted.id, trust=replace(doubted.trust, verified=False, verified_at=None))
    judged(store, recorder, doubted.id, hearer)
    faded = vouched(store, remember(store, BRIDGE, source="https://other.example/a")).id
    store.clock.advance(60 * DAY_MS)
    judged(store, recorder, faded, hearer, late=60 * DAY_MS)
    assert events(store, hearer) == []


def test_a_page_that_a_person_has_rejected_is_raised_by_nothing(store: Memories, recorder: Recorder) -> None:
    witness = vouched(store, remember(store, BRIDGE, source="https://official.example/a")).id
    page = found(URL, SAME)
    recorder.record(a_learned("first", store.clock.now(), findings=(page,)))
    rejected = changed(store, page.id, standing_reason="rejected")
    with store.ledger.write() as tx:
        tx.evidence.add(
            [EvidenceEvent(memory_id=rejected.id, tenant="default", kind=EvidenceKind.REJECTION, weight=0.0,
                           witness="ada", at=store.clock.now())]
        )  # fmt: skip
    agreement = agreeing(witness, page.id)
    recorder.record(a_learned("second", store.clock.now(), findings=(page,), agreements=(agreement,)))
    assert [e.kind for e in events(store, page.id)] == [EvidenceKind.REJECTION]
    assert store.get(MemoryId(page.id), "default") == rejected


def test_late_evidence_sets_nothing_back(store: Memories, recorder: Recorder) -> None:
    """The memory was renewed since: it decays from there, not from when the answer was given."""
    witness = vouched(store, remember(store, BRIDGE, source="https://official.example/a")).id
    hearer = remember(store, OTHER, source="https://blog.example/b")
    given = store.clock.now()
    store.clock.advance(7 * DAY_MS)
    vouched(store, witness)
    before = store.get(MemoryId(hearer), "default")
    half_life = store.policies[before.source_class].half_life
    from kb.trust import renewed

    before = changed(store, hearer, trust=renewed(before.trust, store.clock.now(), half_life))
    recorder.record(a_learned("late", given, conflicts=(disagreeing([witness], [hearer]),)))
    after = store.get(MemoryId(hearer), "default")
    assert after.trust.confidence == pytest.approx(4 * before.trust.confidence / 5)
    assert (after.trust.anchor, after.updated_at) == (before.trust.anchor, before.updated_at)


def test_a_finding_that_was_retired_meanwhile_does_not_come_back(store: Memories, recorder: Recorder) -> None:
    page = found(URL, BRIDGE)
    recorder.record(a_learned("first", store.clock.now(), findings=(page,)))
    retired = changed(store, page.id, standing=Standing.RETIRED)
    store.clock.advance(1_000)
    recorder.record(a_learned("second", store.clock.now(), findings=(page,)))
    assert store.get(MemoryId(page.id), "default") == retired


def test_an_older_answer_never_takes_the_key_from_a_newer_one(store: Memories, recorder: Recorder) -> None:
    now = store.clock.now()
    recorder.record(a_learned("newer", now))
    recorder.record(a_learned("older", now - 1))
    assert leads_to(store) == ["newer"]
    recorder.record(a_learned("newest", now + 1))
    assert leads_to(store) == ["newest"]


def test_a_question_narrowed_to_a_source_leaves_no_key(store: Memories, tmp_path: Path) -> None:
    id_ = remember(store, BRIDGE)
    source = store.get(MemoryId(id_), "default").source
    assert asked(store, tmp_path, request={"sources": (source,)}).outcome is Outcome.ANSWERED
    assert store.page("default", kinds=(Kind.ANSWER,)) == []
    asked(store, tmp_path)
    assert len(store.page("default", kinds=(Kind.ANSWER,))) == 1


def test_what_an_answer_cites_of_the_store_is_counted_and_linked_once(store: Memories, recorder: Recorder) -> None:
    id_ = remember(store, BRIDGE)
    learned = a_learned("a", store.clock.now(), citations=citing(id_, id_, "gone"))
    assert recorder.record(learned).problem == recorder.record(learned).problem == ""
    with store.ledger.read() as tx:
        (use,) = tx.utility.get([MemoryId(id_)]).values()
        assert [e.parent for e in tx.lineage.parents("a")] == [id_]
        record = tx.answers.get(AnswerId("a"), "default")
    assert record is not None
    assert (use.cited, [c.memory_id for c in record.citations]) == (1, [id_, id_])
