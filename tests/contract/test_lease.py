"""The leader's lease and the fence behind it, on both databases: one holder, and who has lost it knows."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from jobs.lease import LEADER, Lease
from kb.errors import Locked
from kb.ledger import open_ledger
from kb.ledger.locks import safe_name
from tests.contract.test_ledger_locks import holder

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ledger import Ledger


def lose(ledger_url: str | None, data_dir: Path, name: str = LEADER) -> None:
    """Take a lock away from whoever holds it: its database session ends, or its file is removed."""
    if ledger_url is None:
        (data_dir / "locks" / f"{safe_name(name)}.lock").unlink()
        return
    with psycopg.connect(ledger_url, autocommit=True) as connection:
        holders = connection.execute(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()
        pids = [row[0] for row in holders]
        while connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", [pids]).fetchone():
            time.sleep(0.01)  # until they have ended


def test_one_of_many_leads_and_another_takes_over_when_it_gives_back(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as other:
        one, two = Lease(ledger), Lease(other)
        assert not one.is_held()
        assert (one.take(), two.take()) == (True, False)
        assert one.take(), "taking what is held keeps it"
        assert (one.is_held(), two.is_held()) == (True, False)
        one.give_back()
        one.give_back()
        assert (one.is_held(), two.take()) == (False, True)
        two.give_back()


def test_who_loses_the_lease_knows_at_the_next_question_and_another_leads(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    with open_ledger(ledger_url, data_dir=tmp_path / "kb") as other:
        one, two = Lease(ledger), Lease(other)
        assert one.take()
        lose(ledger_url, tmp_path / "kb")
        assert not one.is_held()
        assert two.take()
        assert not one.take()
        assert not one.is_held(), "what was lost is never held again by itself"
        two.give_back()
        assert one.take()
        one.give_back()


def test_a_lock_answers_from_any_thread_while_it_is_given_back(ledger: Ledger) -> None:
    answers: list[bool] = []
    lease = Lease(ledger)
    assert lease.take()
    asking = [threading.Thread(target=lambda: answers.extend(lease.is_held() for _ in range(50))) for _ in range(4)]
    for thread in asking:
        thread.start()
    lease.give_back()
    for thread in asking:
        thread.join()
    assert len(answers) == 200
    assert not lease.is_held()


def test_a_lock_is_held_inside_its_context_and_not_after(ledger: Ledger) -> None:
    with ledger.lock("run") as lock:
        assert lock.is_held()
    assert not lock.is_held()


def test_a_forked_child_does_not_hold_its_parents_lock(ledger: Ledger) -> None:
    with ledger.lock("run") as lock:
        child = os.fork()
        if child == 0:
            os._exit(int(lock.is_held()))
        assert os.waitpid(child, 0)[1] == 0
        assert lock.is_held()


def test_the_lease_of_a_killed_process_is_free_at_once(ledger: Ledger, ledger_url: str | None, tmp_path: Path) -> None:
    process = holder(ledger_url, tmp_path / "kb", LEADER)
    lease = Lease(ledger)
    assert not lease.take()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with ledger.lock(LEADER, wait_seconds=30):
        pass
    assert lease.take()
    lease.give_back()


def test_a_lost_lock_still_lets_its_context_end_in_order(
    ledger: Ledger, ledger_url: str | None, tmp_path: Path
) -> None:
    with ledger.lock("run") as lock:
        lose(ledger_url, tmp_path / "kb", "run")
        assert not lock.is_held()
        with ledger.lock("run") as second, pytest.raises(Locked), ledger.lock("run"):
            assert second.is_held()
