"""What is erased is gone: from every table, index file, cache, checkpoint and spool file, byte by byte."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from governance.actor import Actor, Role
from governance.policy import policy_of
from governance.reach import Wanted
from governance.selection import Selection
from governance.undo import undo
from jobs.erasure import forget as forgotten
from kb.errors import InputError, Refused, UnknownMemory
from kb.history import AnswerId
from kb.model import MemoryId
from kb.sweeps import SweepStatus
from tests.asking import ask, open_runtime
from tests.durable import answers
from tests.erasing import (
    BY,
    CHINESE,
    ENGLISH,
    HARMLESS,
    add_note,
    fill,
    graded,
    needles,
    open_vault,
    spellings,
    vectors,
)
from tests.fakes.evaluator import FakeEvaluator
from tests.stores import ids, search, sync, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.erasing import Vault


@pytest.fixture(params=["sqlite", "postgresql"])
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Vault]:
    """A store with secrets in every corner: all of it in files, or ledger and checkpoints in PostgreSQL."""
    urls = {}
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        url = server.url(server.create(request.getfixturevalue("migrated")))
        urls = {"ledger_url": url, "checkpoint_url": url}
    with open_vault(tmp_path, **urls) as opened:
        fill(opened)
        yield opened


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Vault]:
    """A store in files with secrets in every corner."""
    with open_vault(tmp_path) as opened:
        fill(opened)
        yield opened


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Vault]:
    """A store in files that nothing has been brought into yet."""
    with open_vault(tmp_path) as opened:
        yield opened


def test_no_byte_is_left_of_what_was_erased(vault: Vault) -> None:
    secrets = vault.secrets
    assert len(secrets) == 2
    traces = [*needles(), *vectors(vault.memories, secrets), *(id_.encode() for id_ in secrets)]
    before = vault.found(traces)
    assert len(before) > 20
    assert any("index/kb.db" in place for place in before)
    assert any("grades" in place for place in before)
    assert any("checkpoint" in place for place in before)
    assert any("write-backs" in place for place in before)

    erased = vault.forget(*secrets)

    assert erased.problems == []
    assert erased.is_complete
    assert vault.found(traces) == []


def test_nothing_finds_what_was_erased_and_the_rest_stays_as_it_was(filled: Vault) -> None:
    vault = filled
    secrets, kept = vault.secrets, {i: t for i, t in ids(vault.memories).items() if HARMLESS in t}
    before = answers(vault.memories)
    vault.forget(*secrets)
    assert ids(vault.memories) == kept
    assert answers(vault.memories) == 1 < before  # the one about the bridge
    assert [h.memory.id for h in search(vault.memories, "With which phrase does the vault open?").hits] == list(kept)

    async def story() -> list[str]:
        evaluator = FakeEvaluator(graded)
        async with open_runtime(vault.memories, vault.settings.data_dir, evaluator=evaluator) as runtime:
            vague = await ask(runtime, "With which phrase does the vault open?")
            bridge = await ask(runtime, "How many tons does the bridge carry?")
            assert bridge.citations
            return [c.evidence.id for c in vague.citations if c.evidence is not None]

    assert not set(asyncio.run(story())) & set(secrets)
    assert vault.found(needles()) == []


def test_the_same_files_do_not_bring_it_back(filled: Vault) -> None:
    vault = filled
    vault.forget(*vault.secrets)
    report = sync(vault.memories, vault.folder, settings=vault.settings)
    assert report.documents["failed"] == 0
    write(vault.folder, vault_md=f"# Vault\n\nA new beginning of this page that is harmless.\n\n{ENGLISH}\n")
    write(vault.folder, elsewhere_md=f"# Elsewhere\n\nUnder another name it says the same:\n\n{CHINESE}\n")
    sync(vault.memories, vault.folder, settings=vault.settings)
    assert vault.secrets == []
    assert vault.found(needles()) == []


def test_an_erasure_cannot_be_undone_and_is_done_once(filled: Vault) -> None:
    vault = filled
    secrets = vault.secrets
    erased = vault.forget(*secrets)
    policy = policy_of(vault.settings, "default")
    with pytest.raises(Refused, match="cannot be undone"):
        undo(vault.memories, erased.sweeps[0].id, "default", actor="ada", policy=policy)
    again = vault.forget(*secrets)
    assert (again.sweeps, again.reach, again.is_complete) == ([], None, True)
    with pytest.raises(UnknownMemory):
        vault.forget("0" * 32)


def test_a_source_goes_with_its_documents_addresses_and_titles(small: Vault) -> None:
    write(small.folder, amber__quixtar_md=f"# Nebelhorn\n\n{ENGLISH}\n", harmless_md=f"# Bridge\n\n{HARMLESS}\n")
    sync(small.memories, small.folder, settings=small.settings)
    traces = [*needles(), *(s for w in ("Nebelhorn", "amber/quixtar") for s in spellings(w).values())]
    assert small.found(traces)
    source = next(m.source for m in small.memories.page("default") if "quixtar" in m.source)
    assert small.forget(source=source).is_complete
    assert small.found(traces) == []
    with small.memories.ledger.read() as tx:
        assert [d.title for d in tx.documents.of_root("default", "docs", include_deleted=True)] == ["Bridge"]
    assert small.forget(source=source).sweeps == []
    report = sync(small.memories, small.folder, settings=small.settings)
    assert report.documents["skipped"] == 1
    with pytest.raises(InputError, match="nothing came from"):
        small.forget(source="file://docs/never-there/")


def test_derived_notes_and_copies_stay_unless_they_are_meant_too(small: Vault) -> None:
    store = small.memories
    secret = add_note(store, ENGLISH)
    derived = add_note(store, "Somebody wrote on Monday what the phrase reminded him of.", secret)
    copy = add_note(store, f"A colleague told me this. {ENGLISH.split('. ')[0]}.")
    erased = small.forget(secret)
    assert erased.reach is not None
    assert [m.id for m in erased.reach.derived] == [derived]
    assert [m.id for m in erased.reach.copies] == [copy]
    assert set(ids(store)) == {derived, copy}
    assert small.found(spellings("astrolabe").values()) == []  # what only the erased one said
    assert small.found([secret.encode()]) == [], "nor does its lineage, or the journal, name it"
    assert small.found(spellings("marigold-otter-seven").values()) != []  # the copy says it still
    more = add_note(store, "Another one was written from the note that stays.", derived)
    wide = small.forget(derived, copy, with_derived=True, with_copies=True)
    assert wide.is_complete
    assert more not in ids(store)
    assert ids(store) == {}


def test_what_a_copy_says_still_is_nobodys_secret(small: Vault) -> None:
    common = "Every page of this handbook is licensed under the terms of the harbour."
    write(small.folder, one_md=f"# One\n\n{ENGLISH} {common}\n", two_md=f"# Two\n\n{HARMLESS} {common}\n")
    sync(small.memories, small.folder, settings=small.settings)
    secret = next(i for i, t in ids(small.memories).items() if "Halcyon" in t)
    small.forget(secret)
    write(small.folder, three_md=f"# Three\n\nThe ferry leaves the northern pier at ten sharp. {common}\n")
    sync(small.memories, small.folder, settings=small.settings)
    assert any("ferry" in text for text in ids(small.memories).values())


def test_an_answer_is_erased_by_its_id_with_the_key_to_it(small: Vault) -> None:
    store = small.memories
    cited = add_note(store, HARMLESS)

    async def story() -> str:
        async with open_runtime(store, small.settings.data_dir) as runtime:
            return str((await ask(runtime, "How much may the bridge carry, asks Zaphodine?")).answer_id)

    answer = asyncio.run(story())
    assert small.found(spellings("Zaphodine").values())
    assert small.forget(answer).is_complete
    assert small.found([*spellings("Zaphodine").values(), *spellings("zaphodine").values()]) == []
    assert set(ids(store)) == {cited}


def test_an_answer_that_was_being_written_is_not_recorded_afterwards(small: Vault) -> None:
    store = small.memories
    secret = add_note(store, ENGLISH)

    class Slow(FakeEvaluator):
        """Lets somebody erase what it has just graded."""

        async def grade(self, asked, evidence):  # type: ignore[no-untyped-def] # as the fake's
            graded = await super().grade(asked, evidence)
            if secret in ids(store):
                await asyncio.to_thread(small.forget, secret)
            return graded

    async def story() -> None:
        async with open_runtime(store, small.settings.data_dir, evaluator=Slow(default=0.9)) as runtime:
            await ask(runtime, "With which phrase does it open?")

    asyncio.run(story())
    assert small.found(needles()) == []


def test_only_a_person_erases_and_only_with_consent(small: Vault) -> None:
    secret = add_note(small.memories, ENGLISH)
    wanted = Wanted(selection=Selection(memories=(secret,)))
    policy = policy_of(small.settings, "default")

    def decline(_reach: object) -> None:
        raise Refused("no")

    for actor, match in ((Actor(name="bot", role=Role.AGENT), "only a person"), (BY, "no")):
        with pytest.raises(Refused, match=match):
            forgotten(small.memories, small.settings, wanted, policy=policy, actor=actor, consent=decline)
    assert secret in ids(small.memories)


def test_earlier_sweeps_can_be_undone_as_far_as_they_are_not_about_it(small: Vault) -> None:
    from governance.review import decide
    from kb.sweeps import SweepJob

    store, policy = small.memories, policy_of(small.settings, "default")
    secret, other = add_note(store, ENGLISH), add_note(store, HARMLESS)
    both = [MemoryId(secret), MemoryId(other)]
    pinned = decide(store, both, SweepJob.PIN, policy=policy, actor=BY).sweep
    assert pinned is not None
    small.forget(secret)
    undone = undo(store, pinned.id, "default", actor="ada", policy=policy)
    assert undone.status is SweepStatus.DONE
    assert not store.get(MemoryId(other), "default").pinned
    with store.ledger.read() as tx:
        named = [j.action.memory_id for j in tx.sweeps.journal(pinned.id)]
        assert secret not in named
        assert any(name.startswith("erased:") for name in named)
        assert tx.answers.get(AnswerId("none"), "default") is None
