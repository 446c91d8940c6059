"""What will become of a tenant's memories under a policy, day by day and source by source, before anyone turns it on.

Pure, and streamed: rows in, counts out, memory flat in the number of rows. A day's measure is taken before that
night's jobs: what is above the gate then; then the sources that are synced renew what is due; then prune and gc run.
No evidence comes, nobody verifies, and no document changes. Answer-keys are left out: nothing about them fades.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import add, sub
from typing import TYPE_CHECKING

from governance.decide import falls_at, last_to_fall, lines_of, pruned
from kb.model import FOREVER, Standing, Trust
from kb.trust import DAY_MS, NEVER_BORN, birth_of, is_renewal_due, renewed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from governance.policy import Policy
    from kb.ledger.governed import GovernedRow
    from kb.model import Instant, Json

_RENEWAL = math.exp2(-0.25)  # what never passes the gate is renewed below this share of its c0
_SLACK = 1 + 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceForecast:
    """What becomes of one source. Every tuple has one count a day, the first of them tomorrow's.

    Args:
        source: root of its documents, or the kind of memory that has no document.
        live: active and quarantined now.
        active: of these.
        passing: above the gate now.
        due: verified ones whose hold has ended already.
        above: above the gate, before the night's jobs.
        leave: that left the gate since the night before.
        fall_due: verified ones whose hold has ended since the day before.
        pruned: retired that night.
        erased: erased that night.
    """

    source: str
    live: int
    active: int
    passing: int
    due: int
    above: tuple[int, ...]
    leave: tuple[int, ...]
    fall_due: tuple[int, ...]
    pruned: tuple[int, ...]
    erased: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What becomes of a tenant's memories under a policy.

    Args:
        tenant: whose.
        policy: hash of the policy.
        at: now.
        days: how far it looks.
        sources: by name.
        kept: active memories that no night has retired yet, one count a day.
    """

    tenant: str
    policy: str
    at: Instant
    days: int
    sources: tuple[SourceForecast, ...]
    kept: tuple[int, ...]

    def total(self, of: str) -> tuple[int, ...]:
        """Return the sum over all sources of a daily count: above, leave, fall_due, pruned or erased."""
        return tuple(sum(day) for day in zip(*(getattr(s, of) for s in self.sources), strict=True)) or (0,) * self.days

    def now(self, of: str) -> int:
        """Return the sum over all sources of a count of now: live, active, passing or due."""
        return sum(getattr(s, of) for s in self.sources)

    def as_json(self) -> dict[str, Json]:
        """Return the forecast under the stable keys of docs/reference/json.md."""
        now, daily = ("live", "active", "passing", "due"), ("above", "leave", "fall_due", "pruned", "erased")
        return {
            "tenant": self.tenant,
            "policy": self.policy,
            "at": self.at,
            "days": self.days,
            "kept": list(self.kept),
            "total": {**{k: self.now(k) for k in now}, **{k: list(self.total(k)) for k in daily}},
            "sources": [
                {"source": s.source, **{k: getattr(s, k) for k in now}, **{k: list(getattr(s, k)) for k in daily}}
                for s in self.sources
            ],
        }


def forecasts(
    rows: Iterable[tuple[str, GovernedRow]],
    policies: Sequence[Policy],
    now: Instant,
    days: int,
    *,
    synced: Container[str] = (),
) -> list[Forecast]:
    """Return the forecast under each policy, from one reading of the rows.

    Args:
        rows: with the root of each one's document, "" without; those of one document together.
        policies: what to forecast under; births are computed anew from confidence and anchor under each.
        now: the instant to look ahead from.
        days: how far, at least 1.
        synced: roots whose sources are synced nightly and do not change.
    """
    seers = [_Seer(policy, now, days) for policy in policies]
    for doc_id, group in groupby(rows, key=lambda pair: pair[1].doc_id):
        for root, document in _documents(doc_id, group):
            is_synced = root != "" and root in synced
            for seer in seers:
                seer.feed(root or document[0].kind.value, document, is_synced=is_synced)
    return [seer.forecast() for seer in seers]


def forecast(
    rows: Iterable[tuple[str, GovernedRow]], policy: Policy, now: Instant, days: int, *, synced: Container[str] = ()
) -> Forecast:
    """Return the forecast under one policy; arguments as of `forecasts`."""
    return forecasts(rows, [policy], now, days, synced=synced)[0]


def _documents(doc_id: str | None, group: Iterable[tuple[str, GovernedRow]]) -> Iterator[tuple[str, list[GovernedRow]]]:
    if doc_id is None:
        yield from ((root, [row]) for root, row in group)
    else:
        pairs = list(group)
        yield pairs[0][0], [row for _, row in pairs]


@dataclass(slots=True)
class _Counts:
    """Changes of one source's counts; index 0 is now, d is day d."""

    days: int
    live: int = 0
    active: int = 0
    due: int = 0
    above: list[int] = field(init=False)  # differences
    flicker: list[int] = field(init=False)  # differences: renewed every night, out again before the next
    leave: list[int] = field(init=False)
    fall_due: list[int] = field(init=False)
    pruned: list[int] = field(init=False)
    retired: list[int] = field(init=False)  # active ones among the pruned
    erased: list[int] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("above", "flicker", "leave", "fall_due", "pruned", "retired", "erased"):
            setattr(self, name, [0] * (self.days + 2))  # the last one: never within the horizon

    def summed(self, source: str) -> SourceForecast:
        above, flicker = list(accumulate(self.above)), accumulate(self.flicker)
        return SourceForecast(
            source=source,
            live=self.live,
            active=self.active,
            passing=above[0],
            due=self.due,
            above=self._days(above),
            leave=self._days(list(map(add, self.leave, flicker))),
            fall_due=self._days(self.fall_due),
            pruned=self._days(self.pruned),
            erased=self._days(self.erased),
        )

    def _days(self, counts: list[int]) -> tuple[int, ...]:
        return tuple(counts[1 : self.days + 1])


class _Seer:
    """Follows documents under one policy; what has a formula is not simulated."""

    def __init__(self, policy: Policy, now: Instant, days: int) -> None:
        self._policy, self._now, self._days = policy, now, days
        self._lines = lines_of(policy)
        gate = policy.gate
        self._leave_after = {
            c: FOREVER if gate <= 0.0 else -math.floor(own.half_life * math.log2(gate))
            for c, own in self._lines.items()
        }
        self._counts: dict[str, _Counts] = {}

    def feed(self, source: str, document: Sequence[GovernedRow], *, is_synced: bool) -> None:
        """Follow the memories of one document."""
        counts = self._counts.get(source)
        if counts is None:
            counts = self._counts[source] = _Counts(self._days)
        active: list[GovernedRow] = []
        for row in document:
            lines = self._lines[row.source_class]
            if row.standing is Standing.RETIRED:
                if not row.pinned and not row.contested:
                    counts.erased[self._day(row.updated_at + lines.restore)] += 1
                continue
            birth = birth_of(row.confidence, row.anchor, lines.half_life)
            born = row if birth == row.birth else row._replace(birth=birth)
            counts.live += 1
            if born.standing is Standing.ACTIVE:
                active.append(born)
            else:
                self._retire(counts, born, self._day(falls_at(born, lines)))
        if active:
            self._follow(counts, active, is_synced=is_synced)

    def forecast(self) -> Forecast:
        """Return what was seen."""
        active = sum(c.active for c in self._counts.values())
        retired = [sum(day) for day in zip(*(c.retired for c in self._counts.values()), strict=True)]
        gone = list(accumulate(retired))[1 : self._days + 1] or [0] * self._days
        return Forecast(
            tenant=self._policy.tenant,
            policy=self._policy.hash,
            at=self._now,
            days=self._days,
            sources=tuple(counts.summed(source) for source, counts in sorted(self._counts.items())),
            kept=tuple(map(sub, [active] * self._days, gone)),
        )

    def _follow(self, counts: _Counts, active: list[GovernedRow], *, is_synced: bool) -> None:
        counts.active += len(active)
        for row in active:
            self._hold(counts, row)
        if not is_synced or self._policy.gate <= 0.0:  # at gate 0 nothing is ever due for renewal
            self._fade(counts, active)
        elif all(self._is_steady(row) for row in active):
            for row in active:
                self._renew(counts, row)
        else:
            self._simulate(counts, active)

    def _hold(self, counts: _Counts, row: GovernedRow) -> None:
        if row.verified and row.anchor < self._now:
            counts.due += 1
        elif row.verified:
            counts.fall_due[self._day(row.anchor + 1)] += 1

    def _fade(self, counts: _Counts, active: list[GovernedRow]) -> None:
        """Follow active memories that nobody renews."""
        falls = [falls_at(row, self._lines[row.source_class]) for row in active]
        spared = None
        if active[0].doc_id is not None and None not in falls:
            spared = last_to_fall(active, self._lines).id
        for row, at in zip(active, falls, strict=True):
            fall = self._day(None if row.id == spared else at)
            self._retire(counts, row, fall)
            out = self._day(self._leaves(row), first=0)
            if out > 0:
                counts.above[0] += 1
                counts.above[min(out, fall + 1)] -= 1
                counts.leave[out] += out <= fall

    def _renew(self, counts: _Counts, row: GovernedRow) -> None:
        """Follow an active memory that is renewed before it falls, though maybe not before it leaves the gate."""
        leaves = self._leaves(row)
        if leaves <= row.anchor:
            return  # never above the gate
        span = leaves - row.anchor  # the same after every renewal; the first one comes when less than half is left
        first = max(1, (2 * (leaves - self._now) - span) // (2 * DAY_MS) + 1)
        first = min(first, self._days + 1)
        out = self._day(leaves, first=0)
        counts.above[0] += out > 0
        if 0 < out <= first:
            counts.above[first] -= 1
            counts.leave[first] += 1
        after = min(first + 1, self._days + 1)
        if span > DAY_MS:
            counts.above[after] += out <= first
        else:
            counts.above[after] -= out > first
            counts.flicker[after] += 1

    def _is_steady(self, row: GovernedRow) -> bool:
        """Return whether a nightly renewal keeps a memory from ever falling, and its course has a formula."""
        lines = self._lines[row.source_class]
        if row.confidence <= lines.gate:
            return row.confidence * _RENEWAL >= lines.prune_below * _SLACK
        return lines.prune_below <= lines.gate and self._leaves(row) - row.anchor != 2 * DAY_MS

    def _simulate(self, counts: _Counts, active: list[GovernedRow]) -> None:
        """Follow the memories of one document night by night."""
        passing = {row.id for row in active if self._passes(row, self._now)}
        counts.above[0] += len(passing)
        shown = len(passing)
        for day in range(1, self._days + 1):
            at = self._now + day * DAY_MS
            above = {row.id for row in active if self._passes(row, at)}
            counts.above[day] += len(above) - shown
            counts.leave[day] += len(passing - above)
            active = [self._synced(row, at) for row in active]
            doc_live = len(active) if active and active[0].doc_id is not None else 0
            gone = {a.memory_id for a in pruned(active, self._lines, at, live=doc_live)} if active else set()
            for row in active:
                if row.id in gone:
                    self._retire(counts, row, day)
            active = [row for row in active if row.id not in gone]
            passing = {row.id for row in active if self._passes(row, at)}
            shown = len(above)

    def _synced(self, row: GovernedRow, at: Instant) -> GovernedRow:
        lines = self._lines[row.source_class]
        trust = Trust(confidence=row.confidence, anchor=row.anchor, birth=row.birth)
        if not is_renewal_due(trust, lines.gate, at, lines.half_life):
            return row
        trust = renewed(trust, at, lines.half_life)
        return row._replace(anchor=trust.anchor, birth=trust.birth)

    def _passes(self, row: GovernedRow, at: Instant) -> bool:
        return self._leaves(row) > at

    def _leaves(self, row: GovernedRow) -> Instant:
        return row.birth + self._leave_after[row.source_class] if row.confidence > self._policy.gate else NEVER_BORN

    def _retire(self, counts: _Counts, row: GovernedRow, day: int) -> None:
        if day > self._days:
            return
        counts.pruned[day] += 1
        counts.retired[day] += row.standing is Standing.ACTIVE
        restore = self._lines[row.source_class].restore
        counts.erased[min(self._days + 1, day + -(-restore // DAY_MS))] += 1

    def _day(self, at: Instant | None, *, first: int = 1) -> int:
        """Return the first day, from `first` on, that has reached an instant; one past the horizon for never."""
        if at is None:
            return self._days + 1
        return min(self._days + 1, max(first, -((self._now - at) // DAY_MS)))
