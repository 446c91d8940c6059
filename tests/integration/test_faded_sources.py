"""What faded while nobody synced: its source brings it back, as long as it still holds it, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from governance.planning import planned
from governance.policy import policy_of
from governance.sweep import apply
from kb.model import Standing
from kb.settings import Settings
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from tests.stores import FakeClock, ids, open_store, search, split_into_sections, sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from kb.sweeps import Sweep

POLICY = policy_of(Settings.model_construct(), "default")
UNSEEN = 70  # days without a sync: all of it has faded


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memories(tmp_path: Path, clock: FakeClock) -> Iterator[Memories]:
    with open_store(tmp_path / "data", clock=clock) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    made.mkdir()
    split_into_sections(made)
    return made


def run(memories: Memories, job: SweepJob) -> Sweep:
    plan = planned(memories, job, POLICY, memories.clock.now())
    return apply(memories, plan, policy=POLICY, actor="test", allow_mass=True)


def faded(memories: Memories, folder: Path, clock: FakeClock) -> dict[str, str]:
    """Ingest, let everything fade, prune; return what was retired."""
    sync(memories, folder)
    clock.advance(UNSEEN * DAY_MS)
    run(memories, SweepJob.PRUNE)
    retired = ids(memories, Standing.RETIRED)
    assert retired
    return retired


def test_a_source_that_still_holds_what_was_pruned_brings_it_back(
    memories: Memories, folder: Path, clock: FakeClock
) -> None:
    retired = faded(memories, folder, clock)
    report = sync(memories, folder)
    assert ids(memories, Standing.RETIRED) == {}
    assert retired.items() <= ids(memories).items()
    assert report.memories["renewed"] >= len(retired)
    assert len(search(memories, "bridge", k=20).hits) == len(ids(memories))


def test_what_gc_has_erased_is_read_again_from_a_file_that_never_changed(
    memories: Memories, folder: Path, clock: FakeClock
) -> None:
    retired = faded(memories, folder, clock)
    clock.advance(31 * DAY_MS)
    run(memories, SweepJob.GC)
    assert not ids(memories, Standing.RETIRED)
    assert not retired.keys() & ids(memories).keys()
    sync(memories, folder)
    assert retired.items() <= ids(memories).items()
    again = sync(memories, folder)
    assert again.memories["added"] == 0


def test_what_was_pruned_in_quarantine_stays_out(memories: Memories, folder: Path, clock: FakeClock) -> None:
    sync(memories, folder)
    bad = next(iter(ids(memories)))
    with memories.ledger.write() as tx:
        (memory,) = tx.memories.get([bad]).values()  # type: ignore[list-item] # an id
        tx.memories.replace([replace(memory, standing=Standing.QUARANTINED, rev=memory.rev + 1)])
    clock.advance(UNSEEN * DAY_MS)
    run(memories, SweepJob.PRUNE)
    assert bad in ids(memories, Standing.RETIRED)
    sync(memories, folder)
    assert set(ids(memories, Standing.RETIRED)) == {bad}
