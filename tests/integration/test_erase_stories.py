"""Erasure beside others: what gc takes, a cache that is away, an index server that others use, several tenants."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.caches.in_process import InProcessCache
from crag_runtime.ports import GradeKey
from governance.planning import planned
from governance.policy import policy_of
from governance.reach import Wanted
from governance.selection import Selection
from governance.sweep import apply
from jobs.context import JobContext
from jobs.erasure import forget
from jobs.names import JobName
from jobs.registry import run
from kb.history import AnswerId, Edge, EdgeKind, EvidenceEvent, EvidenceKind
from kb.index.milvus import open_server
from kb.model import MemoryId, Standing
from kb.search import SearchRequest
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from tests.asking import ask, open_runtime
from tests.erasing import BY, ENGLISH, HARMLESS, add_note, needles, open_vault, spellings
from tests.stores import FakeClock, ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jobs.erasure import Erased
    from kb.memories import Memories
    from kb.settings import Settings
    from tests.erasing import Vault


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    with open_vault(tmp_path, clock=FakeClock()) as opened:
        yield opened


def answered(vault: Vault, question: str, tenant: str = "default", **parts: Any) -> str:
    async def story() -> str:
        async with open_runtime(vault.memories, vault.settings.data_dir, **parts) as runtime:
            return str((await ask(runtime, question, tenant=tenant)).answer_id)

    return asyncio.run(story())


def forgotten(vault: Vault, settings: Settings, *named: str, **given: Any) -> Erased:
    wanted = Wanted(selection=Selection(memories=named))
    policy = policy_of(settings, "default")
    return forget(vault.memories, settings, wanted, policy=policy, actor=BY, consent=lambda _: None, **given)


def gc(vault: Vault, settings: Settings | None = None) -> Any:
    @contextmanager
    def opened() -> Iterator[Memories]:
        yield vault.memories

    clock = vault.memories.clock
    return run(JobName.GC, JobContext(settings=settings or vault.settings, open_memories=opened, clock=clock))


def test_what_gc_takes_away_leaves_the_answers_what_they_quoted(vault: Vault) -> None:
    store, policy = vault.memories, policy_of(vault.settings, "default")
    id_ = add_note(store, HARMLESS)
    answer = answered(vault, "How many tons does the bridge carry?")
    with store.ledger.write() as tx:
        memory = tx.memories.get([MemoryId(id_)])[MemoryId(id_)]
        tx.memories.replace([replace(memory, standing=Standing.RETIRED, rev=memory.rev + 1)])
        tx.evidence.add(
            [EvidenceEvent(memory_id=memory.id, tenant="default", kind=EvidenceKind.REJECTION, weight=0, witness="ada")]
        )
    store.clock.advance(31 * DAY_MS)  # type: ignore[attr-defined] # the test's clock
    plan = planned(store, SweepJob.GC, policy, store.clock.now())
    assert [a.memory_id for a in plan.actions] == [id_]
    assert apply(store, plan, policy=policy, actor="daemon").counts == {"erase": 1}
    with store.ledger.read() as tx:
        record = tx.answers.get(AnswerId(answer), "default")
        assert record is not None
        assert any("forty tons" in c.quote for c in record.citations)
        assert tx.memories.get([MemoryId(id_)]) == {}
        assert len(tx.evidence.of_memory(MemoryId(id_))) == 1  # a person's refusal holds if it comes again
        assert tx.erasure.pending() == []
    assert add_note(store, HARMLESS) == id_  # nobody has asked that it must not come back


def test_a_cache_that_is_away_keeps_an_erasure_open_until_gc_reaches_it(vault: Vault) -> None:
    secret = add_note(vault.memories, ENGLISH)
    ask_settings = vault.settings.ask.model_copy(update={"grade_cache": "redis://127.0.0.1:1/0"})
    away = vault.settings.model_copy(update={"ask": ask_settings})
    erased = forgotten(vault, away, secret)
    assert not erased.is_complete
    assert erased.problems == ["the grade cache cannot be reached"]
    assert ids(vault.memories) == {}  # ledger and index do not wait for it
    again = forgotten(vault, away, secret)
    assert (again.reach, again.is_complete) == (None, False)
    assert gc(vault, away).troubles
    assert gc(vault).counts["erasures_finished"] == 1
    assert gc(vault).counts["erasures_finished"] == 0
    assert vault.found([*needles(), secret.encode()]) == []


def test_a_cache_in_the_process_forgets_too(vault: Vault) -> None:
    secret = add_note(vault.memories, ENGLISH)
    cache = InProcessCache(ttl_seconds=1e6, clock=vault.memories.clock)
    key = GradeKey(tenant="default", question="q", memory_id=secret, rev=1, evaluator="llm")
    cache.put({key: ENGLISH})
    erased = forgotten(vault, vault.settings, secret, caches=[cache])
    assert (erased.purged["grades"], cache.get([key])) == (1, {})


def test_others_who_search_meanwhile_are_served_by_the_next_server(vault: Vault) -> None:
    secret = add_note(vault.memories, ENGLISH)
    kept = add_note(vault.memories, HARMLESS)
    other = open_server(vault.settings)
    name = vault.memories.generations.ensured(vault.memories.embedder.identity, 0)
    index = other.open(name.name, name.dim)
    assert index.count() == 2
    vault.forget(secret)
    assert [id_ for id_, _ in index.revisions()] == [kept]
    assert [h.memory.id for h in vault.memories.search(_question("bridge tons")).hits] == [kept]
    other.close()


def _question(text: str) -> SearchRequest:
    return SearchRequest(question=text, tenant="default")


def test_rows_that_a_reindex_left_behind_go_too(vault: Vault) -> None:
    from kb.rebuild import reindex

    secret = add_note(vault.memories, ENGLISH)
    reindex(vault.memories, re_embed=False)
    with vault.memories.ledger.write() as tx:
        generation = tx.collections.next_generation()
        current = tx.collections.current()
        assert current is not None
        name = current.name.rsplit("_g", 1)[0] + f"_g{generation}"
        from kb.ledger.collections import CollectionState

        tx.collections.put(replace(current, name=name, generation=generation, state=CollectionState.BUILDING))
    server = vault.memories.generations.server
    server.create(name, current.dim)
    from kb.index.projector import upsert_memories

    memory = vault.memories.get(MemoryId(secret), "default")
    upsert_memories(vault.memories.ledger, server.open(name, current.dim), current.model, [memory])
    assert vault.forget(secret).is_complete
    assert vault.found(needles()) == []
    assert server.open(name, current.dim).count() == 0


def test_an_answer_of_another_tenant_that_was_lent_the_memory_goes_too(vault: Vault) -> None:
    store = vault.memories
    secret = add_note(store, ENGLISH)
    from kb.history import AnswerRecord, CitedMemory

    cited = CitedMemory(memory_id=MemoryId(secret), rev=1, source="note://person", quote=ENGLISH)
    with store.ledger.write() as tx:
        tx.answers.add(
            AnswerRecord(
                id=AnswerId("a9"),
                tenant="guest",
                question="?",
                text=ENGLISH,
                outcome="answered",
                verdict="correct",
                citations=(cited,),
            )
        )
        tx.lineage.add([Edge(tenant="guest", parent="a9", child="k9", kind=EdgeKind.KEY)])
    erased = vault.forget(secret)
    assert erased.reach is not None
    assert list(erased.reach.other_answers) == ["a9"]
    assert vault.found(needles()) == []


def test_words_of_the_reason_that_quote_it_are_not_kept(vault: Vault) -> None:
    secret = add_note(vault.memories, ENGLISH)
    erased = forgotten(vault, vault.settings, secret, reason=f"they asked for it: {ENGLISH}")
    assert erased.is_complete
    assert vault.found(needles()) == []
    other = add_note(vault.memories, "The second secret of the day is a long one, too.")
    kept = forgotten(vault, vault.settings, other, reason="request 17")
    with vault.memories.ledger.read() as tx:
        sweep = tx.sweeps.get(kept.sweeps[0].id)
        assert sweep is not None
        assert (sweep.reason, sweep.actor) == ("request 17", "ada")


def test_one_passage_goes_and_its_document_stays(vault: Vault) -> None:
    from tests.stores import split_into_sections, sync

    vault.folder.mkdir()
    split_into_sections(vault.folder)
    sync(vault.memories, vault.folder, settings=vault.settings)
    passages = ids(vault.memories)
    secret = next(i for i, text in passages.items() if "forty tons" in text)
    assert vault.forget(secret).is_complete
    assert vault.found(spellings("forty tons").values()) == []
    left = {i: t for i, t in passages.items() if i != secret}
    assert ids(vault.memories) == left
    report = sync(vault.memories, vault.folder, settings=vault.settings)
    assert (report.documents["unchanged"], ids(vault.memories)) == (1, left)
    (guide,) = vault.folder.glob("*.md")
    guide.write_text(guide.read_text().replace("green every spring", "green every autumn"))
    sync(vault.memories, vault.folder, settings=vault.settings)
    assert len(ids(vault.memories)) == len(left)
    assert vault.found(spellings("forty tons").values()) == []
