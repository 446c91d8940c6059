"""kill -9 in the middle of an erasure: whoever comes next finishes it, and no byte is left."""

from __future__ import annotations

import random
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.context import JobContext
from jobs.names import JobName
from jobs.registry import run
from tests.crash import killing
from tests.erasing import fill, needles, open_vault, vectors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories
    from tests.erasing import Vault

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A store to be copied, what must not be left of it, and how long an erasure takes that nobody interrupts."""

    home: Path
    secrets: list[str]
    traces: list[bytes]
    seconds: float


def erased(home: Path, secrets: list[str], *, kill_after: float | None = None) -> tuple[bool, float]:
    """Erase in a process of its own; return whether it ended by itself, and how long it took."""
    return killing.run("tests.crash.eraser", str(home), *secrets, kill_after=kill_after)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    home = tmp_path_factory.mktemp("filled")
    with open_vault(home) as vault:
        fill(vault)
        secrets = vault.secrets
        traces = [*needles(), *vectors(vault.memories, secrets), *(id_.encode() for id_ in secrets)]
    trial = tmp_path_factory.mktemp("trial")
    shutil.copytree(home, trial, dirs_exist_ok=True)
    is_done, seconds = erased(trial, secrets)
    assert is_done
    return Filled(home=home, secrets=secrets, traces=traces, seconds=seconds)


def finished_by_gc(vault: Vault) -> None:
    @contextmanager
    def opened() -> Iterator[Memories]:
        yield vault.memories

    tally = run(JobName.GC, JobContext(settings=vault.settings, open_memories=opened, clock=vault.memories.clock))
    assert tally.troubles == []


def killed_story(filled: Filled, home: Path, late: float, *, by_gc: bool) -> tuple[bool, float]:
    """Kill an erasure, let the next command or gc finish it, and look for traces; return whether it ended, and when."""
    shutil.copytree(filled.home, home, dirs_exist_ok=True)
    is_done, seconds = erased(home, filled.secrets, kill_after=late)
    with open_vault(home) as vault:
        with vault.memories.ledger.read() as tx:
            has_begun = bool(tx.erasure.pending()) or len(vault.secrets) < len(filled.secrets)
        if by_gc and has_begun:
            finished_by_gc(vault)
        else:
            assert vault.forget(*filled.secrets).is_complete
        assert vault.secrets == []
        assert vault.found(filled.traces) == []
    return is_done, seconds


def test_a_killed_erasure_is_finished_by_the_command_and_by_gc(filled: Filled, tmp_path: Path) -> None:
    numbers = random.Random(4)
    for n in range(4):
        late = (n + numbers.random()) / 4 * filled.seconds
        killed_story(filled, tmp_path / str(n), late, by_gc=n % 2 == 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_forty_kills_leave_no_trace(filled: Filled, tmp_path: Path) -> None:
    hits, n, whole = 0, 0, filled.seconds
    while hits < 40:
        late = random.Random(100 + n).random() * whole
        is_done, seconds = killed_story(filled, tmp_path / str(n), late, by_gc=n % 2 == 1)
        hits += not is_done
        whole = min(whole, seconds) if is_done else whole  # the machine may be quicker than when it was measured
        shutil.rmtree(tmp_path / str(n))
        n += 1
