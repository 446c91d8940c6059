"""Jobs follow no policy that would empty a tenant, and decay is done to its end however small the cap of one sweep."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from jobs.context import JobContext
from jobs.names import JobName
from jobs.registry import run
from jobs.turn import Outcome
from kb.errors import ExitCode
from kb.memories import Note
from kb.model import Standing
from kb.settings import Settings
from kb.trust import DAY_MS
from tests.stores import FakeClock, InProcessServer, open_store, split_into_sections, sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories

DEADLY = {"gate": 0.95, "trust": {"document": {"half_life_days": 1.0}, "person": {"half_life_days": 1.0}}}


def context_of(memories: Memories, home: Path, **settings: object) -> JobContext:
    @contextmanager
    def opened() -> Iterator[Memories]:
        yield memories

    made = Settings(data_dir=home / "data", **settings)  # type: ignore[arg-type]
    return JobContext(settings=made, open_memories=opened, clock=memories.clock)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memories(tmp_path: Path, clock: FakeClock) -> Iterator[Memories]:
    with open_store(tmp_path / "data", clock=clock, server=InProcessServer()) as store:
        folder = tmp_path / "docs"
        folder.mkdir()
        split_into_sections(folder)
        sync(store, folder)
        yield store


@pytest.mark.parametrize("job", [JobName.PRUNE, JobName.DECAY, JobName.GC])
def test_a_policy_that_would_empty_the_tenant_is_refused_before_anything_is_done(
    memories: Memories, tmp_path: Path, job: JobName
) -> None:
    tally = run(job, context_of(memories, tmp_path, **DEADLY))
    assert tally.outcome is Outcome.REFUSED
    assert tally.exit_code == (ExitCode.PARTIAL if job is JobName.GC else ExitCode.REFUSED)  # gc also tidies caches
    assert any("gate" in str(t.error) for t in tally.troubles)
    with memories.ledger.read() as tx:
        assert tx.sweeps.list(10) == []
    assert {m.standing for m in memories.page("default")} == {Standing.ACTIVE}


def test_a_policy_is_checked_when_it_changes_and_not_again(
    memories: Memories, tmp_path: Path, clock: FakeClock
) -> None:
    assert run(JobName.PRUNE, context_of(memories, tmp_path)).exit_code == ExitCode.DONE
    clock.advance(DAY_MS)
    assert run(JobName.PRUNE, context_of(memories, tmp_path)).exit_code == ExitCode.DONE
    assert run(JobName.PRUNE, context_of(memories, tmp_path, **DEADLY)).exit_code == ExitCode.REFUSED
    assert run(JobName.PRUNE, context_of(memories, tmp_path)).exit_code == ExitCode.DONE


def test_decay_is_done_to_its_end_in_as_many_sweeps_as_its_cap_asks_for(
    memories: Memories, tmp_path: Path, clock: FakeClock
) -> None:
    for n in range(7):
        memories.add_note(Note(text=f"Note {n} of seven.", tenant="default"))
    clock.advance(20 * DAY_MS)
    context = context_of(memories, tmp_path, govern={"cap": 3})
    assert run(JobName.DECAY, context).exit_code == ExitCode.DONE
    with memories.ledger.read() as tx:
        sweeps = tx.sweeps.list(50)
    stored = len(memories.page("default"))
    assert sum(s.counts["show"] for s in sweeps) == stored
    assert len(sweeps) == -(-stored // 3)
    assert run(JobName.DECAY, context).counts.get("show", 0) == 0
