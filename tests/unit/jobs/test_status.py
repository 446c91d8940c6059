"""Whether a daemon lives is told by its last heartbeat, to whoever asks: by the status, and by the health page."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from jobs.health import EVERY as EVERY_KEY
from jobs.health import MISSED, STOPPED, Pulse, health_page
from jobs.status import status_of
from kb.ledger import open_ledger
from kb.ledger.slots import DaemonBeat
from kb.settings_governance import JobsSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.ledger import Ledger

NOW = 1_800_000_000_000
SETTINGS = JobsSettings(heartbeat_seconds=10)
EVERY = 10_000
LAST = MISSED * EVERY  # milliseconds after its last heartbeat at which it still counts as alive


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(None, data_dir=tmp_path / "kb") as ledger:
        yield ledger


def beat(ledger: Ledger, id_: str, *, at: int = NOW, state: str = "leading", is_leader: bool = True) -> None:
    own = DaemonBeat(
        id=id_,
        host="here",
        pid=1,
        version="1",
        is_leader=is_leader,
        state=state,
        started_at=at,
        heartbeat_at=at,
    )
    with ledger.write() as tx:
        tx.slots.beat(own)


def healths(ledger: Ledger, at: int) -> tuple[str | None, dict[str, str]]:
    shown = status_of(ledger, SETTINGS, at)
    return shown.leader, {d.beat.id: d.health for d in shown.daemons}


def asked(pulse: Pulse, now: int) -> tuple[int, dict[str, Any]]:
    """Return status and body of the page of a daemon with this pulse."""
    with health_page(0, lambda: (pulse.is_alive(now), pulse.as_json(now))) as port:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


def test_a_daemon_that_says_nothing_for_three_heartbeats_is_stale_and_leads_nothing(kept: Ledger) -> None:
    beat(kept, "one")
    assert healths(kept, NOW + LAST) == ("one", {"one": "alive"})
    assert healths(kept, NOW + LAST + 1) == (None, {"one": "stale"})
    beat(kept, "two", at=NOW + LAST)
    assert healths(kept, NOW + LAST + 1) == ("two", {"one": "stale", "two": "alive"})
    shown = status_of(kept, SETTINGS, NOW + LAST + 1).as_json()
    daemons = {d["id"]: d for d in shown["daemons"]}  # type: ignore[union-attr, index, call-overload]
    assert (shown["alive"], daemons["one"]["is_leader"]) == (1, False)


def test_a_daemon_that_ended_is_stopped_and_not_stale(kept: Ledger) -> None:
    beat(kept, "one", state="stopped", is_leader=False)
    for later in (0, LAST, 100 * LAST):
        assert healths(kept, NOW + later) == (None, {"one": "stopped"})


def test_a_heartbeat_from_far_in_the_future_is_no_sign_of_life(kept: Ledger) -> None:
    beat(kept, "one", at=NOW + LAST + 1)
    assert healths(kept, NOW) == (None, {"one": "stale"})


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"at": NOW}, 200),
        ({"at": NOW - LAST}, 200),
        ({"at": NOW - LAST - 1}, 503),
        ({"at": 0}, 503),
        ({"at": NOW, "problem": "the ledger is away"}, 503),
    ],
)
def test_the_page_says_503_unless_the_heart_beats_and_the_ledger_hears_it(changes: dict[str, Any], status: int) -> None:
    found, said = asked(Pulse(id="one", state="leading", is_leader=True, every=EVERY, **changes), NOW)
    assert (found, said["ok"], said["problem"]) == (status, status == 200, changes.get("problem", ""))


@pytest.mark.parametrize("is_leader", [True, False])
def test_the_page_of_a_standby_is_well_and_says_that_it_does_not_lead(is_leader: bool) -> None:  # noqa: FBT001 - a parameter
    found, said = asked(Pulse(id="one", state="waiting", is_leader=is_leader, at=NOW), NOW)
    assert (found, said["is_leader"]) == (200, is_leader)


def test_how_often_a_heart_beats_is_said_by_its_daemon_not_by_who_looks(kept: Ledger) -> None:
    beat(kept, "quick")
    slow = DaemonBeat(
        id="slow",
        host="there",
        pid=2,
        version="1",
        is_leader=False,
        state="waiting",
        started_at=NOW,
        heartbeat_at=NOW,
        report={EVERY_KEY: 6 * EVERY},
    )
    with kept.write() as tx:
        tx.slots.beat(slow)
    assert healths(kept, NOW + LAST + 1)[1] == {"quick": "stale", "slow": "alive"}
    assert healths(kept, NOW + 6 * LAST + 1)[1]["slow"] == "stale"


def test_a_daemon_that_has_ended_is_not_well_however_lately_it_did() -> None:
    assert Pulse(id="a", state="draining", at=NOW).is_alive(NOW)
    assert not Pulse(id="a", state=STOPPED, at=NOW).is_alive(NOW)
