"""A policy that would empty a tenant, or cannot work, is found out before it runs; one that would not is let be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from governance.check import Checked, checked, default_policy, ensure_safe, faults
from governance.policy import ClassRules
from kb.errors import ExitCode, UnsafePolicy
from kb.model import SourceClass, SourceRoot
from kb.trust import DAY_MS
from tests.governing import DEFAULTS, a_policy, all_of, fill, governed
from tests.ledger_samples import a_document
from tests.stores import T0, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from governance.policy import Policy
    from kb.memories import Memories

DEADLY: dict[str, Any] = {"half_life": 1.0, "gate": 0.95}


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[Memories]:
    """Forty synced passages a day old, ten notes by persons, and a curated page that nobody syncs."""
    policy = a_policy()
    with open_store(tmp_path / "kb") as opened:
        pages = [governed(f"p{n}", policy=policy, age=1, doc_id="d1") for n in range(40)]
        notes = [governed(f"n{n}", SourceClass.PERSON, policy=policy, age=1) for n in range(10)]
        curated = governed(
            "c", SourceClass.CURATED, policy=policy, age=1, verified=True, anchor=T0 + 179 * DAY_MS, doc_id="d2"
        )
        fill(opened, [*pages, *notes, curated])
        with opened.ledger.write() as tx:
            tx.documents.put(a_document("d1", tenant="default"))
            tx.sources.put(
                SourceRoot(name="handbook", tenant="default", location="/", source_class=SourceClass.DOCUMENT)
            )
        yield opened


def codes(check: Checked, *, refusals: bool = True) -> set[str]:
    return {f.code for f in check.findings if f.is_refusal is refusals}


def test_the_default_policy_is_safe_for_a_synced_store(memories: Memories) -> None:
    check = ensure_safe(memories, default_policy("default"), T0)
    assert check.is_safe
    assert check.forecast.total("above")[-1] == 41  # the notes fade under any policy
    assert codes(check, refusals=False) == set()


def test_a_day_of_half_life_with_a_gate_of_95_is_refused_before_it_runs_and_the_message_says_when(
    memories: Memories,
) -> None:
    before = all_of(memories, "default")
    with pytest.raises(
        UnsafePolicy, match=r"by 2027-01-16 \(day 1\) it leaves tenant default 0 memories above"
    ) as said:
        ensure_safe(memories, a_policy(**DEADLY), T0)
    assert said.value.exit_code is ExitCode.REFUSED
    assert "where 51 would be left" in str(said.value)
    assert all_of(memories, "default") == before


@pytest.mark.parametrize("deadly", [{"half_life": 1.0}, {"gate": 0.92}, {"half_life": 0.3, "gate": 0.5}])
def test_whatever_leaves_next_to_nothing_above_the_gate_is_refused(memories: Memories, deadly: dict[str, Any]) -> None:
    check = checked(memories, a_policy(**deadly), T0)
    assert set(check.forecast.total("above")) == {1}  # the curated page
    assert "empties_gate" in codes(check)


def test_a_policy_that_is_only_stricter_is_let_be(memories: Memories) -> None:
    assert checked(memories, a_policy(half_life=7.0), T0).is_safe
    assert checked(memories, a_policy(gate=0.85), T0).is_safe


def test_a_policy_that_retires_nearly_all_is_refused(memories: Memories) -> None:
    with memories.ledger.write() as tx:
        tx.memories.remove([i for i in all_of(memories, "default") if "-n" not in i])  # nobody syncs notes
    greedy = a_policy(prune_below=0.7, prune_after=0.0)
    check = checked(memories, greedy, T0)
    assert codes(check) == {"retires_nearly_all"}
    assert "fades_unrenewed" in codes(check, refusals=False)


def test_neglect_is_no_fault_of_the_policy_but_is_said(memories: Memories) -> None:
    with memories.ledger.write() as tx:
        tx.memories.remove([i for i in all_of(memories, "default") if "-n" not in i])
    check = ensure_safe(memories, default_policy("default"), T0)
    assert codes(check, refusals=False) == {"fades_unrenewed"}


def test_a_proposal_is_measured_against_the_policy_in_force_too(memories: Memories) -> None:
    with memories.ledger.write() as tx:
        tx.memories.remove([i for i in all_of(memories, "default") if "-n" not in i])
    patient = a_policy(half_life=900.0)
    assert "empties_gate" in codes(checked(memories, default_policy("default"), T0, in_force=patient))
    assert checked(memories, patient, T0, in_force=default_policy("default")).is_safe


def test_an_empty_tenant_has_nothing_to_lose(memories: Memories) -> None:
    assert checked(memories, a_policy("nobody", half_life=1.0), T0).is_safe


def test_a_check_prints_as_one_object(memories: Memories) -> None:
    said = checked(memories, a_policy(**DEADLY), T0).as_json()
    assert said["is_safe"] is False
    assert said["findings"][0]["is_refusal"] is True  # type: ignore[index,call-overload]
    assert len(said["forecast"]["total"]["above"]) == 30  # type: ignore[index,call-overload,arg-type]


def found(policy: Policy) -> dict[str, bool]:
    return {f.code: f.is_refusal for f in faults(policy)}


def test_the_defaults_contradict_nothing() -> None:
    assert found(default_policy("default")) == {}
    assert default_policy("a").trust == DEFAULTS


def test_what_contradicts_itself_is_named() -> None:
    assert found(a_policy(prune_below=0.75)) == {"prune_above_gate": True, "pruned_in_waiting": False}
    assert found(a_policy(restore=0.0)) == {"erased_at_once": False}
    assert found(a_policy(restore=0.0, mass_share=1.0)) == {"no_way_back": True}
    assert found(a_policy(restore=0.0, prune_below=0.0)) == {}
    assert found(a_policy(gate=0.95)) == {
        "gate_above_verified": True,
        "nothing_passes": True,
        "class_never_passes": False,
    }
    assert found(a_policy(gate=0.85)) == {"class_never_passes": False}  # notes by persons begin at 0.8
    assert found(a_policy(half_life=0.5)) == {"gone_before_sync": False}
    assert found(a_policy(half_life=0.01)) == {"gone_within_the_hour": True}


def test_a_fault_of_one_class_is_found_there() -> None:
    policy = a_policy()
    rules = {**policy.rules, SourceClass.WEB: ClassRules(prune_below=0.9)}
    faulty = faults(replace(policy, rules=rules))
    assert {f.code for f in faulty} == {"prune_above_gate", "pruned_in_waiting"}
    assert all(f.said.startswith("web: ") for f in faulty)
