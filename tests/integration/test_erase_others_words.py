"""Erasing takes people's own words of what goes, and no words of programs, of other tenants or of other documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from governance.planning import planned
from governance.review import decide
from governance.sweep import apply
from kb.ledger.schema import METADATA
from kb.memories import Note
from kb.model import SourceClass, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import SweepJob
from tests.erasing import BY
from tests.forgetting import forget
from tests.invariants import broken
from tests.rolling import asked, guide, later, note, poison, roll_back, stored, sync, take_back
from tests.stores import write
from tests.swept import policy

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory
    from kb.sweeps import Sweep

pytestmark = pytest.mark.usefixtures("ledger_url")  # on either database

NINETY = "The Anping bridge carries ninety tons on a dry day."
PHRASE = "The vault of the Anping bridge opens with the phrase marigold."
COINS = "The toll of the Beihai bridge is three coins."
KEEPER = "The Anping bridge carries a secret many tons at night, says its keeper."


def decided(store: Memories, job: SweepJob, reason: str, *memories: Memory, tenant: str = "default") -> Sweep:
    named = [m.id for m in memories]
    sweep = decide(store, named, job, policy=policy(tenant), actor=BY, reason=reason).sweep
    assert sweep is not None
    return sweep


def swept(store: Memories, job: SweepJob) -> None:
    """Sweep as the daemon would."""
    plan = planned(store, job, policy(), store.clock.now())
    apply(store, plan, policy=policy(), actor="daemon", allow_mass=True)


def rows_with(store: Memories, words: str) -> list[str]:
    """Return the rows of all tables that have these words anywhere, be it in a key of a report."""
    with store.ledger.engines.reads.connect() as connection:
        rows = [f"{t.name}: {tuple(row)}" for t in METADATA.tables.values() for row in connection.execute(sa.select(t))]
    assert rows
    return [row for row in rows if words in row]


@pytest.mark.parametrize("job", [SweepJob.REJECT, SweepJob.VERIFY, SweepJob.PIN, SweepJob.ANNOTATE])
def test_a_reason_that_quotes_what_is_erased_goes_with_it(store: Memories, tmp_path: Path, job: SweepJob) -> None:
    secret, other = note(store, PHRASE), note(store, COINS)
    later(store)
    decided(store, job, f"no, since {PHRASE}", other)
    later(store)
    forget(store, tmp_path, secret)
    assert rows_with(store, "marigold") == []


def test_a_rejection_is_undone_also_when_its_reason_was_erased(store: Memories, tmp_path: Path) -> None:
    secret, other = note(store, PHRASE), note(store, COINS)
    later(store)
    rejected = decided(store, SweepJob.REJECT, f"no, since {PHRASE}", other)
    later(store)
    forget(store, tmp_path, secret)
    later(store)
    take_back(store, rejected)
    (now,) = stored(store, COINS)
    assert now.standing is Standing.ACTIVE
    assert broken(store) == []


def test_what_another_tenant_s_people_said_of_the_same_words_stays(store: Memories, tmp_path: Path) -> None:
    secret = note(store, PHRASE)
    (theirs, _) = store.add_note(Note(text=PHRASE, tenant="other", by=SourceClass.PERSON))
    store.projector.drain()
    decided(store, SweepJob.ANNOTATE, f"asked: {PHRASE}", theirs, tenant="other")
    decided(store, SweepJob.REJECT, f"bad: {PHRASE}", theirs, tenant="other")
    with store.ledger.read() as tx:
        before = tx.sweeps.of_memory(theirs.id)
    assert before
    later(store)
    forget(store, tmp_path, secret)
    with store.ledger.read() as tx:
        assert tx.sweeps.of_memory(theirs.id) == before


@pytest.mark.parametrize("job", [SweepJob.ROLLBACK, SweepJob.REJECT])
def test_what_was_decided_of_two_is_undone_for_the_one_that_was_not_erased(
    store: Memories, tmp_path: Path, job: SweepJob
) -> None:
    one, two = note(store, NINETY), note(store, COINS)
    later(store)
    is_rollback = job is SweepJob.ROLLBACK
    sweeps = roll_back(store, memories=(one.id, two.id)) if is_rollback else [decided(store, job, "no", one, two)]
    later(store)
    forget(store, tmp_path, one)
    later(store)
    take_back(store, *sweeps)
    (now,) = stored(store, COINS)
    assert now.standing is Standing.ACTIVE
    assert broken(store) == []


def test_what_was_rolled_back_stays_so_when_a_note_of_these_two_words_is_erased(
    store: Memories, tmp_path: Path
) -> None:
    """Why something stands as it does is a program's word: nobody's remark, and not to be silenced."""
    bad = note(store, NINETY)
    sweeps = roll_back(store, memories=(bad.id,))
    later(store)
    forget(store, tmp_path, note(store, "Rolled back."))
    (now,) = stored(store, NINETY)
    assert is_rolled_back(now)
    assert broken(store) == []
    later(store)
    take_back(store, *sweeps)
    (now,) = stored(store, NINETY)
    assert now.standing is Standing.ACTIVE


def test_what_was_superseded_still_says_why_when_a_note_of_these_words_is_erased(
    store: Memories, folder: Path, tmp_path: Path
) -> None:
    poison(store, folder)
    forget(store, tmp_path, note(store, "Newer version"))
    assert broken(store) == []


def test_the_report_of_an_answer_that_stays_does_not_name_what_was_erased(store: Memories, tmp_path: Path) -> None:
    """An id is a digest of the words: who has a guess could prove it."""
    note(store, NINETY)
    secret = note(store, KEEPER, by=SourceClass.AGENT)
    later(store)
    asked(store, tmp_path, "How many tons does the Anping bridge carry?")
    assert rows_with(store, secret.id)
    later(store)
    forget(store, tmp_path, secret)
    assert rows_with(store, secret.id) == []


@pytest.mark.parametrize("has_faded", [False, True])
def test_a_living_document_that_says_the_same_is_read_again(
    store: Memories, folder: Path, tmp_path: Path, *, has_faded: bool
) -> None:
    more = tmp_path / "more"
    write(more, copy_md=guide())
    sync(store, more)
    if has_faded:  # then it waits to be read again, and gc has taken a part of it
        later(store, 900)
        swept(store, SweepJob.PRUNE)
        later(store, 60)
        swept(store, SweepJob.GC)
    write(folder, guide_md=guide())
    sync(store, folder)
    theirs = {m.id for m in stored(store, "") if "more/" in m.source}
    forget(store, tmp_path, *[m for m in stored(store, "") if "docs/" in m.source])
    later(store)
    report = sync(store, more)
    assert not report.failures
    assert not report.skipped, "it is a living document"
    living = [m for m in stored(store, "") if m.id in theirs and m.standing is Standing.ACTIVE]
    assert len(living) == (1 if has_faded else 2)
    assert broken(store) == []
