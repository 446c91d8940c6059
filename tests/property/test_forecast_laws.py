"""A forecast says what a simulation finds that looks at every memory every night, by the formulas alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from governance.decide import last_to_fall, lines_of
from governance.forecast import forecast, forecasts
from kb.ledger.governed import GovernedRow, governed_row
from kb.model import Memory, SourceClass, Standing, Trust
from kb.trust import DAY_MS, birth_of, effective, is_renewal_due, passes, renewed
from tests.governing import a_policy, governed, policies, stored
from tests.stores import T0

if TYPE_CHECKING:
    from collections.abc import Iterable

    from governance.policy import Policy

DAYS = 12
ROOTS = {"d0": "synced", "d1": "left", "d2": "synced", "d3": ""}


@dataclass
class Fate:
    """One memory as a simulation follows it."""

    row: GovernedRow
    trust: Trust
    standing: Standing
    retired_at: int
    is_passing: bool = False


@given(st.data())
def test_a_forecast_agrees_day_by_day_with_a_simulation(data: st.DataObject) -> None:
    policy = data.draw(policies())
    rows = ordered(data.draw(stored(policy, most=10)))
    said = forecast(rows, policy, T0, DAYS, synced={"synced"})
    found = simulated(rows, policy)
    assert {s.source: (s.passing, s.above, s.leave, s.fall_due, s.pruned, s.erased) for s in said.sources} == {
        source: (days[0][0], *(tuple(day[n] for day in days[1:]) for n in range(5))) for source, days in found.items()
    }


@given(st.data())
def test_a_proposed_half_life_is_forecast_as_if_the_births_had_been_written_under_it(data: st.DataObject) -> None:
    stood, proposed = data.draw(policies()), data.draw(policies())
    held = data.draw(stored(stood, most=8))
    reborn = [
        replace(
            m,
            trust=replace(
                m.trust,
                birth=birth_of(m.trust.confidence, m.trust.anchor, proposed.trust[m.source_class].half_life),
            ),
        )
        for m in held
    ]
    now, then = (forecast(ordered(x), proposed, T0, DAYS, synced={"synced"}) for x in (held, reborn))
    assert now == then


@given(st.data())
def test_policies_forecast_together_are_forecast_as_each_by_itself(data: st.DataObject) -> None:
    several = [data.draw(policies()) for _ in range(3)]
    rows = ordered(data.draw(stored(several[0], most=8)))
    assert forecasts(rows, several, T0, DAYS, synced={"synced"}) == [
        forecast(rows, policy, T0, DAYS, synced={"synced"}) for policy in several
    ]


def test_a_synced_document_never_leaves_the_gate_and_one_that_is_not_leaves_it_on_the_eleventh_day() -> None:
    policy = a_policy()
    rows = [(root, governed_row(governed(root, policy=policy, doc_id=f"d-{root}"))) for root in ("left", "synced")]
    said = {s.source: s for s in forecast(rows, policy, T0, 60, synced={"synced"}).sources}
    assert said["synced"].above == (1,) * 60
    assert said["left"].above == (1,) * 10 + (0,) * 50
    assert said["left"].leave.index(1) == 10


def test_a_curated_memory_falls_due_after_its_hold_and_an_unverified_note_is_pruned_and_erased() -> None:
    policy = a_policy()
    held = governed("c", SourceClass.CURATED, policy=policy, verified=True, anchor=T0 + 180 * DAY_MS)
    note = governed("n", SourceClass.PERSON, policy=policy)
    said = forecast(ordered([held, note]), policy, T0, 200)
    assert said.total("fall_due").index(1) == 180  # the first night after the hold
    assert said.total("pruned").index(1) == 59  # 30 d · log2(0.8 / 0.2): on day 60
    assert said.total("erased").index(1) == 89
    assert (said.kept[58], said.kept[59]) == (2, 1)


def ordered(held: Iterable[Memory]) -> list[tuple[str, GovernedRow]]:
    """Return what the ledger would give to a forecast, by document and id."""
    live = (Standing.ACTIVE, Standing.QUARANTINED, Standing.RETIRED)
    rows = [governed_row(m) for m in held if m.standing in live]
    return [
        (ROOTS[row.doc_id.rsplit("-", 1)[-1]] if row.doc_id else "", row)
        for row in sorted(rows, key=lambda r: (r.doc_id or "", r.id))
    ]


def simulated(rows: list[tuple[str, GovernedRow]], policy: Policy) -> dict[str, list[list[int]]]:
    """Return by source, for now and each day: above, left, fell due, pruned, erased."""
    fates: dict[str, list[Fate]] = {}
    for root, row in rows:
        born = birth_of(row.confidence, row.anchor, policy.trust[row.source_class].half_life)
        trust = Trust(confidence=row.confidence, anchor=row.anchor, birth=born, verified=row.verified)
        fate = Fate(row=row, trust=trust, standing=row.standing, retired_at=row.updated_at)
        fates.setdefault(root or row.kind.value, []).append(fate)
    found: dict[str, list[list[int]]] = {}
    for source, own in fates.items():
        days = [[sum(is_above(f, policy, T0) for f in own), 0, 0, 0, 0]]
        for fate in own:
            fate.is_passing = is_above(fate, policy, T0)
        days += [night(own, policy, T0 + n * DAY_MS, is_synced=source == "synced") for n in range(1, DAYS + 1)]
        found[source] = days
    return found


def night(own: list[Fate], policy: Policy, at: int, *, is_synced: bool) -> list[int]:
    above = [is_above(f, policy, at) for f in own]
    left = sum(f.is_passing and not is_now for f, is_now in zip(own, above, strict=True))
    due = sum(at - DAY_MS <= f.row.anchor < at for f in own if f.standing is Standing.ACTIVE and f.row.verified)
    for fate in own:
        h = policy.trust[fate.row.source_class].half_life
        if is_synced and fate.standing is Standing.ACTIVE and is_renewal_due(fate.trust, policy.gate, at, h):
            fate.trust = renewed(fate.trust, at, h)
    falling = [f for f in own if falls(f, own, policy, at)]
    for fate in falling:
        fate.standing, fate.retired_at = Standing.RETIRED, at
    erased = [f for f in own if f.standing is Standing.RETIRED and is_erased(f, policy, at)]
    for fate in erased:
        fate.standing = Standing.STAGED  # gone
    for fate in own:
        fate.is_passing = is_above(fate, policy, at)
    return [sum(above), left, due, len(falling), len(erased)]


def is_above(fate: Fate, policy: Policy, at: int) -> bool:
    h = policy.trust[fate.row.source_class].half_life
    return fate.standing is Standing.ACTIVE and passes(fate.trust, policy.gate, at, h)


def is_erased(fate: Fate, policy: Policy, at: int) -> bool:
    is_guarded = fate.row.pinned or fate.row.contested
    return not is_guarded and at - fate.retired_at >= policy.rules[fate.row.source_class].restore


def falls(fate: Fate, own: list[Fate], policy: Policy, at: int) -> bool:
    if not is_due(fate, policy, at):
        return False
    neighbours = [f for f in own if f.row.doc_id == fate.row.doc_id and f.standing is Standing.ACTIVE]
    if fate.row.doc_id is None or fate not in neighbours or not all(is_due(f, policy, at) for f in neighbours):
        return True
    now = [f.row._replace(anchor=f.trust.anchor, birth=f.trust.birth) for f in neighbours]
    return last_to_fall(now, lines_of(policy)).id != fate.row.id


def is_due(fate: Fate, policy: Policy, at: int) -> bool:
    row, rules = fate.row, policy.rules[fate.row.source_class]
    is_guarded = row.verified or row.pinned or row.contested
    is_open = fate.standing in (Standing.ACTIVE, Standing.QUARANTINED)
    believed = effective(fate.trust, at, policy.trust[row.source_class].half_life)
    return is_open and not is_guarded and believed < rules.prune_below and at - row.created_at >= rules.prune_after
