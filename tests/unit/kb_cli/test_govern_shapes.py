"""What governance tells programs has the keys of its page in docs/reference/json.md; what it tells people is whole."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from governance import objects
from governance.actor import Actor
from governance.candidates import foreseen
from governance.check import checked
from governance.explain import explain
from governance.planning import planned
from governance.queue import Waits, review_queue
from governance.review import decide
from governance.sweep import apply
from kb.model import Standing
from kb.objects import memory_object
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from kb_cli import review, sweeps
from tests.architecture.tree import ROOT
from tests.disputing import FIFTY, FORTY, keep, recheck, said
from tests.stores import open_store
from tests.swept import policy, stocked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
ADA = Actor(name="ada")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memories]:
    with open_store(tmp_path) as store:
        stocked(store, count=16, seed=3)
        yield store


def documented(command: str) -> set[str]:
    """Return the keys that a command's section names."""
    (section,) = re.findall(rf"^## [^\n]*`{command} --json`[^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`(\w+)`", section))


def undocumented(command: str, *shown: dict[str, Any]) -> set[str]:
    return {key for one in shown for key in one} - documented(command)


def pruned(store: Memories) -> Any:
    plan = planned(store, SweepJob.PRUNE, policy(), store.clock.now())
    assert plan.actions
    return plan


def test_a_plan_and_its_sweep_show_what_their_page_says(store: Memories) -> None:
    plan = pruned(store)
    whole = plan.as_json()
    assert undocumented("kb govern plan", whole, whole["actions"][0]) == set()
    sweep = apply(store, plan, policy=policy(), actor="ada", reason="spring", allow_mass=True)
    journal = objects.journal_of(store, sweep)
    actions = [objects.journaled_json(j) for j in journal]
    beside = documented("kb govern plan")  # "as in a plan"
    assert undocumented("kb govern apply", objects.sweep_json(sweep), *actions) - beside == set()
    assert [a["memory_id"] for a in actions] == [a.memory_id for a in plan.actions]
    told = "\n".join(sweeps.history_lines([sweep]))
    assert all(part in told for part in (sweep.id, "prune", "ada", "spring", "retire"))
    assert f"{len(plan.actions)} retire" in "\n".join(sweeps.plan_lines(plan))


def test_of_many_actions_a_person_sees_the_first_and_is_told_where_the_rest_is(store: Memories) -> None:
    stocked(store, count=200, seed=5, tenant="many")
    plan = planned(store, SweepJob.DECAY, policy("many"), store.clock.now())
    lines = sweeps.plan_lines(plan)
    assert len(plan.actions) > sweeps.SHOWN
    assert len(lines) < sweeps.SHOWN + 5
    assert f"… and {len(plan.actions) - sweeps.SHOWN} more" in lines[-1]
    assert sweeps.history_lines([]) == ["no sweep has changed anything yet"]


def test_an_explanation_and_the_queue_show_what_their_pages_say(store: Memories) -> None:
    one, other = said("a", FORTY), said("b", FIFTY)
    keep(store, one, other, said("v", "A bell rings at noon.", verified=True))
    recheck(store)
    store.clock.advance(1_000)  # type: ignore[attr-defined] # the fake's
    decide(store, [one.id], SweepJob.ANNOTATE, policy=policy(), actor=ADA, reason="which is it?")
    shown = objects.explanation_object(store, explain(store, one.id, policy(), store.clock.now()))
    parts: Any = [shown, *(shown[name][0] for name in ("contradictions", "next", "decisions"))]  # type: ignore[index]
    beside = documented("kb govern plan") | documented("kb govern apply")
    assert undocumented("kb govern explain", *parts) - beside == set()
    assert (parts[1]["value"], parts[1]["other_value"]) == ("40 tons", "55 tons")
    assert shown["decisions"][-1]["detail"]["note"] == "which is it?"  # type: ignore[index,call-overload]

    later = store.clock.now() + 200 * DAY_MS
    queue = review_queue(store, "default", later)
    items: Any = [item.as_json() for item in queue]
    assert undocumented("kb govern review", *items, items[0]["contradiction"]) == set()
    assert items[0]["since"].endswith("Z")
    assert {i.why for i in queue} == set(Waits)
    quarantined = {i.memory.id for i in queue if i.why is Waits.QUARANTINED}
    with store.ledger.read() as tx:
        waits = tx.memories.page("", 100, tenant="default", standings=(Standing.QUARANTINED,))
    assert quarantined == {m.id for m in waits if not m.contested or m.id not in {one.id, other.id}} - {
        i.memory.id for i in queue if i.why is Waits.CONTESTED
    }
    told = review._lines("default", queue, is_more=False)
    assert sum("differ in a number" in line for line in told) == 1, "each contradiction once, with both sides"
    assert any("says “40 tons”" in line for line in told)
    assert any("says “55 tons”" in line for line in told)


def test_a_memory_shows_what_its_page_says_and_whether_it_is_pinned(store: Memories) -> None:
    memory = said("a", FORTY)
    keep(store, memory)
    before: Any = memory_object(store, store.get(memory.id, "default"))
    assert undocumented("kb memory get", before) == set()
    decide(store, [memory.id], SweepJob.PIN, policy=policy(), actor=ADA)
    after = memory_object(store, store.get(memory.id, "default"))
    assert (before["pinned"], after["pinned"]) == (False, True)


def test_policy_forecast_and_check_show_what_their_pages_say(store: Memories) -> None:
    now = store.clock.now()
    (seen,) = foreseen(store, [policy()], now, 30)
    whole: Any = seen.as_json()
    assert undocumented("kb govern forecast", whole, whole["total"], *whole["sources"]) == set()
    own: Any = policy().as_json()
    beside = documented("kb govern explain")  # "as prior above"
    assert undocumented("kb govern policy show", own, own["trust"]["web"], own["rules"]["web"]) - beside == set()
    found: Any = checked(store, policy(gate=0.96), now).as_json()
    assert undocumented("kb govern policy check", found, *found["findings"]) == set()


def test_a_decision_shows_what_its_page_says_and_names_what_was_refused(store: Memories) -> None:
    with store.ledger.read() as tx:
        ids = [m.id for m in tx.memories.page("", 100, tenant="default")]
    done = decide(store, ids, SweepJob.VERIFY, policy=policy(), actor=ADA)
    shown: Any = objects.decided_object(store, done)
    assert undocumented("kb memory verify", shown, *shown["refused"]) == set()
    assert [m["id"] for m in shown["memories"]] == ids
    assert {r["memory_id"] for r in shown["refused"]} == set(done.refused) != set()
