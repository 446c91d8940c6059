"""Two daemons on one ledger, real processes on either database: the leader is killed in the middle of a sweep."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from jobs.schedule import parsed
from jobs.status import status_of
from kb.clock import SystemClock
from kb.ledger.slots import SlotStatus
from kb.settings_governance import JobsSettings
from kb.sweeps import SweepStatus
from tests.daemons import each_was_applied_once, faded, fleet, leader, retired, seed, until
from tests.shell import KB

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ledger import Ledger

MANY = 240


def is_midway(ledger: Ledger, before: int, after: int) -> bool:
    with ledger.read() as tx:
        is_sweeping = bool(tx.sweeps.list(1, status=SweepStatus.RUNNING))
    return is_sweeping and before < retired(ledger) < after


def test_a_killed_leader_is_replaced_within_seconds_and_nothing_is_done_twice_or_left_undone(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    memories = faded(MANY)
    with fleet(tmp_path, ledger_url, KB_JOBS__PRUNE="every 2s") as daemons:
        processes = {p.pid: p for p in (daemons.start(), daemons.start())}
        until(lambda: leader(ledger), "one leads")
        until(lambda: len(_daemons(ledger)) == 2, "the other stands by")
        assert sum(d.is_leader for d in _daemons(ledger)) == 1
        seed(ledger, memories)
        until(lambda: is_midway(ledger, 8, MANY - 40), "it is in the middle of a sweep")
        killed = leader(ledger)
        os.kill(killed, signal.SIGKILL)
        died = time.monotonic()
        at_death = retired(ledger)
        assert at_death < MANY
        until(lambda: retired(ledger) > at_death, "the standby goes on with the sweep")
        took = time.monotonic() - died
        assert took < 20, "the standby takes over within seconds"
        until(lambda: retired(ledger) == MANY, "all of it is done")
        until(lambda: not _running(ledger), "the sweep is closed")
        each_was_applied_once(ledger, memories)
        _slots_are_in_order(ledger)
        (heir,) = [p for pid, p in processes.items() if pid != killed]
        heir.send_signal(signal.SIGTERM)
        assert heir.wait(60) == 0, daemons.log(heir)
        assert "lease_taken" in daemons.log(heir)


@pytest.mark.parametrize("ledger_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)], indirect=True)
def test_a_daemon_that_is_told_to_end_finishes_its_batch_and_the_next_one_the_sweep(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    memories = faded(MANY)
    with fleet(tmp_path, ledger_url, KB_JOBS__PRUNE="every 1s") as daemons:
        first = daemons.start()
        until(lambda: leader(ledger), "it leads")
        seed(ledger, memories)
        until(lambda: is_midway(ledger, 8, MANY - 40), "it is in the middle of a sweep")
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0, daemons.log(first)
        at_end = retired(ledger)
        assert at_end < MANY
        events = [json.loads(line)["event"] for line in daemons.log(first).splitlines()]
        assert "daemon_draining" in events
        assert events[-1] == "daemon_stopped"
        assert [d.state for d in _daemons(ledger)] == ["stopped"]
        with ledger.read() as tx:
            assert [s.report["outcome"] for s in tx.slots.latest("prune")] == ["stopped"]
            (sweep,) = tx.sweeps.list(10, status=SweepStatus.RUNNING)
            assert len(tx.sweeps.waiting(sweep.id, MANY)) == MANY - at_end
        second = daemons.start()
        until(lambda: retired(ledger) == MANY, "the next one goes on")
        until(lambda: not _running(ledger), "the sweep is closed")
        second.send_signal(signal.SIGINT)
        assert second.wait(60) == 0, daemons.log(second)
    each_was_applied_once(ledger, memories)
    _slots_are_in_order(ledger)


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_a_daemon_tells_how_it_is_by_its_page_its_file_and_its_status(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    health = tmp_path / "health"
    own = {"KB_JOBS__PRUNE": "every 1s", "KB_JOBS__HEALTH_PORT": "0", "KB_JOBS__HEALTH_FILE": str(health)}
    with fleet(tmp_path, ledger_url, **own) as daemons:
        process = daemons.start()
        until(lambda: leader(ledger) and health.exists(), "it leads")
        until(lambda: json.loads(health.read_text())["is_leader"], "the file says so, too")
        found = re.search(r'"health_port": (\d+)', daemons.log(process))
        assert found is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/", timeout=30) as answer:
            said = json.loads(answer.read())
        assert (answer.status, said["ok"], said["is_leader"]) == (200, True, True)
        until(lambda: _done(ledger), "a slot is done")
        shown = _status(daemons.environment)
        assert shown["alive"] == 1
        assert shown["leader"] == said["id"]
        prune = next(j for j in shown["jobs"] if j["job"] == "prune")
        assert prune["schedule"] == "every 1s"
        assert prune["next"]
        assert prune["last"]["outcome"] in {"done", "running"}
        assert [j["next"] for j in shown["jobs"] if j["job"] == "sync"] == [None]
        os.kill(process.pid, signal.SIGSTOP)  # it hangs
        every = JobsSettings(heartbeat_seconds=0.3)
        until(lambda: status_of(ledger, every, SystemClock().now()).leader is None, "its silence is noticed")
        os.kill(process.pid, signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_leaders_killed_again_and_again_leave_nothing_undone_or_done_twice(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    chance = random.Random()
    memories = faded(3 * MANY)
    own = {"KB_JOBS__PRUNE": "every 2s", "KB_GOVERN__BATCH": "3"}
    with fleet(tmp_path, ledger_url, **own) as daemons:
        seed(ledger, memories)
        for _ in range(3):
            daemons.start()
        for _ in range(8):
            before = retired(ledger)
            until(lambda before=before: retired(ledger) > before or before == len(memories), "a daemon works")
            time.sleep(chance.uniform(0.0, 1.0))
            os.kill(leader(ledger) or daemons.running[-1].pid, signal.SIGKILL)
            for process in daemons.running:
                process.poll()  # take leave of the dead
            daemons.start()
        until(lambda: retired(ledger) == len(memories) and not _running(ledger), "all of it is done", seconds=600)
        for process in daemons.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(120) == 0, daemons.log(process)
    each_was_applied_once(ledger, memories)
    with ledger.read() as tx:
        assert all(s.status is not SlotStatus.RUNNING for s in tx.slots.latest("prune", 1_000)[1:])


def _daemons(ledger: Ledger) -> list:
    with ledger.read() as tx:
        return tx.slots.daemons()


def _running(ledger: Ledger) -> bool:
    with ledger.read() as tx:
        return bool(tx.sweeps.list(1, status=SweepStatus.RUNNING))


def _done(ledger: Ledger) -> bool:
    with ledger.read() as tx:
        return bool(tx.slots.latest("prune", status=SlotStatus.DONE))


def _status(environment: dict[str, str]) -> dict:
    done = subprocess.run(
        [*KB, "daemon", "status", "--json"], env=environment, capture_output=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


def _slots_are_in_order(ledger: Ledger) -> None:
    """Check that each slot was begun once, and the one of the dead or stopped leader closed or done by its heir."""
    with ledger.read() as tx:
        slots = tx.slots.latest("prune", 1_000)
    schedule = parsed("every 1s", setting="jobs.prune")
    assert slots
    for slot in slots:
        assert schedule.latest(slot.slot) == slot.slot
        is_settled = slot.status is SlotStatus.DONE or slot.report.get("outcome") in {"interrupted", "stopped"}
        assert is_settled or slot is slots[0]
        assert slot.attempts <= 2
    assert sum(slot.status is not SlotStatus.DONE for slot in slots[1:]) <= 1
