"""Erasing while others are at work: no byte is left, whoever read, asked or rebuilt the index meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.result import AskRequest
from kb.errors import IndexUnavailable, KbError, Locked
from kb.ledger.runs import RunStatus
from kb.rebuild import reconcile, reindex
from tests.asking import open_runtime
from tests.erasing import CHINESE, ENGLISH, HARMLESS, WORDS, fill, graded, needles, open_vault, spellings, vectors
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import ids, open_store, sync, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crag_runtime.evidence import Asked, Evidence
    from kb.memories import Memories
    from tests.erasing import Vault

QUESTIONS = (
    "With which phrase does the Halcyon vault open?",
    "青鸾库房的备用口令是什么？",
    "Where does its spare key hang?",
)


@pytest.fixture
def vault(ledger_url: str | None, tmp_path: Path) -> Iterator[Vault]:
    with open_vault(tmp_path, ledger_url=ledger_url or "") as opened:
        yield opened


class Beside(threading.Thread):
    """Does one thing again and again, on connections of its own, until it is told to end."""

    def __init__(self, vault: Vault, work: Callable[[Memories, int], object]) -> None:
        super().__init__()
        self._vault = vault
        self._work = work
        self._is_over = threading.Event()
        self.rounds = 0
        self.problems: list[str] = []

    def run(self) -> None:
        given: dict[str, Any] = {"ledger_url": self._vault.url} if self._vault.url else {}
        server, clock = self._vault.memories.generations.server, self._vault.memories.clock
        with open_store(self._vault.settings.data_dir, server=server, clock=clock, **given) as memories:  # type: ignore[arg-type]
            while not self._is_over.is_set():
                try:
                    self._work(memories, self.rounds)
                except (Locked, IndexUnavailable):
                    pass  # others are at work
                except KbError as error:
                    self.problems.append(repr(error))
                self.rounds += 1

    def end(self) -> None:
        self._is_over.set()
        self.join(120)


def asked(vault: Vault, memories: Memories, turn: int) -> None:
    async def story() -> None:
        parts: dict[str, Any] = {"evaluator": FakeEvaluator(graded), "search": FakeSearch([], is_paid=False)}
        async with open_runtime(memories, vault.settings.data_dir, **parts) as runtime:
            request = AskRequest(question=QUESTIONS[turn % 3], tenant="default", thread=f"beside-{turn % 2}")
            await runtime.ask(request)

    asyncio.run(story())


def test_no_byte_is_left_though_others_read_ask_and_rebuild_meanwhile(vault: Vault) -> None:
    fill(vault)
    secrets = vault.secrets
    own = [w for w in WORDS if not any(w in q for q in QUESTIONS)]  # who asks again, says words of the question again
    traces = [s for word in own for s in spellings(word).values()]
    traces += [*vectors(vault.memories, secrets), *(id_.encode() for id_ in secrets)]
    other = vault.folder.parent / "other"

    def synced(memories: Memories, turn: int) -> None:
        write(other, bridge_md=f"# Bridge\n\n{HARMLESS}\n\nIt was painted in {1900 + turn}.\n")
        sync(memories, other, settings=vault.settings)

    write(other, bridge_md=f"# Bridge\n\n{HARMLESS}\n")
    beside = [
        Beside(vault, synced),
        Beside(vault, lambda memories, turn: asked(vault, memories, turn)),
        Beside(vault, lambda memories, _: reindex(memories, re_embed=False)),
    ]
    for thread in beside:
        thread.start()
    done = vault.forget(*secrets)
    for thread in beside:
        thread.end()
    if not done.is_complete:  # they kept a file or a lock; what is to be done stands in the ledger
        done = vault.forget(*secrets)
    assert (done.problems, [p for t in beside for p in t.problems]) == ([], [])
    vault.memories.projector.drain()
    assert vault.secrets == []
    assert vault.found(traces) == []
    assert reconcile(vault.memories).ids == ()


def test_a_text_of_two_documents_goes_from_the_one_that_is_named_and_stays_in_the_other(vault: Vault) -> None:
    write(vault.folder, one_md=f"# One\n\n{ENGLISH}\n", two_md=f"# Two\n\n{ENGLISH}\n\n{CHINESE}\n")
    sync(vault.memories, vault.folder, settings=vault.settings)
    one = next(i for i, text in ids(vault.memories).items() if CHINESE not in text)
    done = vault.forget(one)
    assert done.is_complete
    assert done.reach is not None
    assert len(done.reach.copies) == 1
    (left,) = ids(vault.memories).values()
    assert ENGLISH in left
    report = sync(vault.memories, vault.folder, settings=vault.settings)
    assert not report.failures
    assert [t for t in ids(vault.memories).values() if ENGLISH in t] == [left], "its words are the other one's, too"
    assert vault.forget(one).reach is None
    again = vault.forget(*ids(vault.memories), with_copies=True)
    assert again.is_complete
    assert vault.found(needles()) == []


def test_a_document_that_is_being_synced_is_erased_after_that_sync(vault: Vault) -> None:
    write(vault.folder, vault_md=f"# Vault\n\n{ENGLISH}\n")
    sync(vault.memories, vault.folder, settings=vault.settings)
    (secret,) = ids(vault.memories)
    entered, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with vault.memories.ledger.lock(f"ingest-default-{vault.folder.name}"):
            entered.set()
            may_go.wait(60)

    syncing = threading.Thread(target=hold)
    erasing = threading.Thread(target=lambda: vault.forget(secret))
    syncing.start()
    assert entered.wait(60)
    erasing.start()
    erasing.join(1.0)
    assert erasing.is_alive()
    assert len(ids(vault.memories)) == 1
    may_go.set()
    syncing.join(60)
    erasing.join(120)
    assert ids(vault.memories) == {}
    assert vault.found([s for word in WORDS for s in spellings(word).values()]) == []
    report = sync(vault.memories, vault.folder, settings=vault.settings)
    assert ids(vault.memories) == {}
    assert not report.failures
    with vault.memories.ledger.read() as tx:
        assert {r.status for r in tx.runs.list(10, kind="ingest")} == {RunStatus.DONE}


@pytest.mark.parametrize("moment", ["reading", "streaming"])
def test_an_answer_that_is_being_given_about_what_is_erased_is_not_kept(vault: Vault, moment: str) -> None:
    write(vault.folder, vault_md=f"# Vault\n\n{ENGLISH}\n", bridge_md=f"# Bridge\n\n{HARMLESS}\n")
    sync(vault.memories, vault.folder, settings=vault.settings)
    secret = next(i for i, text in ids(vault.memories).items() if "Halcyon" in text)
    erased: list[bool] = []

    def erase() -> None:
        if not erased:
            erased.append(True)
            erased.append(vault.forget(secret).is_complete)

    def graded_late(asked: Asked, evidence: Evidence) -> float:
        if moment == "reading":
            erase()
        return graded(asked, evidence)

    async def story() -> None:
        parts: dict[str, Any] = {"evaluator": FakeEvaluator(graded_late), "search": FakeSearch([], is_paid=False)}
        async with open_runtime(vault.memories, vault.settings.data_dir, **parts) as runtime:
            async for event in runtime.stream(AskRequest(question=QUESTIONS[0], tenant="default")):
                if "Halcyon" in str(event) or "marigold" in str(event):
                    await asyncio.to_thread(erase)

    asyncio.run(story())
    assert erased == [True, True]
    with vault.memories.ledger.read() as tx:
        assert tx.answers.page("default", limit=10) == []
    vault.forget(secret)
    assert vault.found(needles()) == []
