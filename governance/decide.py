"""What time alone does to memories: shown confidence, pruning, erasure. Pure: rows and lines in, actions out.

A line is crossed once and for all unless evidence, a renewal or a person comes between, so that a sweep that was
skipped, or repeated, changes nothing in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.model import SourceClass, Standing, Trust
from kb.sweeps import Action, ActionKind
from kb.trust import NEVER_BORN, SHOWN_LEVELS, effective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from governance.policy import Policy
    from kb.ledger.governed import GovernedRow
    from kb.model import Instant, Json

STEP = 50  # thousandths that a shown confidence may be too high
LIVE = (Standing.ACTIVE, Standing.QUARANTINED)
SHOWN = (Standing.ACTIVE, Standing.QUARANTINED, Standing.SUPERSEDED)  # what other readers can see in the index

DECAYED = "decayed"
FADED = "faded"
LEADS_NOWHERE = "leads_nowhere"
RESTORE_WINDOW_ENDED = "restore_window_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """What the memories of one source class can cross. Durations in milliseconds.

    Args:
        half_life: of their confidence.
        gate: effective confidence to exceed for retrieval.
        prune_below: effective confidence under which an unverified one may be retired.
        prune_after: age before which none is retired.
        restore: how long a retired one is kept.
    """

    half_life: float
    gate: float
    prune_below: float
    prune_after: int
    restore: int


def lines_of(policy: Policy) -> dict[SourceClass, Lines]:
    """Return the lines of every source class under a policy."""
    return {
        c: Lines(
            half_life=policy.trust[c].half_life,
            gate=policy.gate,
            prune_below=policy.rules[c].prune_below,
            prune_after=policy.rules[c].prune_after,
            restore=policy.rules[c].restore,
        )
        for c in SourceClass
    }


def faded_cut(below: float, now: Instant, half_life: float) -> Instant:
    """Return the birth that tells what has faded: c(now) < below ⇔ confidence < below or birth < cut.

    Args:
        below: confidence in [0, 1]; nothing is below 0.
        now: the instant of the question.
        half_life: in milliseconds.
    """
    if below <= 0.0:
        return NEVER_BORN
    return max(NEVER_BORN, now + math.ceil(half_life * math.log2(below)))


def fades_after(below: float, half_life: float) -> int:
    """Return the milliseconds from a birth to the first instant below a confidence in (0, 1]."""
    return math.floor(-half_life * math.log2(below)) + 1


def falls_at(row: GovernedRow, lines: Lines) -> Instant | None:
    """Return the first instant at which a memory may be pruned; None when time alone never prunes it.

    Verified, pinned and contested memories and answer-keys are not pruned by time, nor what is not live.
    """
    is_kept = row.verified or row.pinned or row.contested
    if is_kept or row.source_class is SourceClass.ANSWER or row.standing not in LIVE or lines.prune_below <= 0.0:
        return None
    old_enough = row.created_at + lines.prune_after
    if row.confidence < lines.prune_below:
        return old_enough
    return max(old_enough, row.birth + fades_after(lines.prune_below, lines.half_life))


def last_to_fall(rows: Sequence[GovernedRow], lines: Mapping[SourceClass, Lines]) -> GovernedRow:
    """Return the memory that is kept of a document all of whose active memories fall: the one that falls last.

    Of several, the one believed longest, then the first in the document, then the least id. Who falls last does not
    depend on when anybody looks, so that a skipped sweep keeps the same one.

    Args:
        rows: at least one; all fall.
        lines: of the source classes.
    """
    return min(rows, key=lambda r: (-(falls_at(r, lines[r.source_class]) or 0), -r.birth, r.ordinal, r.id))


def pruned(rows: Sequence[GovernedRow], lines: Mapping[SourceClass, Lines], now: Instant, *, live: int) -> list[Action]:
    """Return what prune does to memories of one document, or to one memory of none.

    Args:
        rows: of one document; others of it may be left out if they cannot fall now.
        lines: of the source classes.
        now: the instant of the decision.
        live: active memories of the document, those not in `rows` included; 0 when there is no document.
    """
    falling = [r for r in rows if (at := falls_at(r, lines[r.source_class])) is not None and at <= now]
    active = [r for r in falling if r.standing is Standing.ACTIVE]
    spared = last_to_fall(active, lines).id if active and len(active) == live else None
    return [_faded(r, lines[r.source_class], now) for r in falling if r.id != spared]


def key_pruned(row: GovernedRow, lines: Lines, now: Instant) -> Action | None:
    """Return what prune does to an answer-key behind which no live memory is left.

    A key has no confidence that could fade: it is worth what it leads to.
    """
    if row.source_class is not SourceClass.ANSWER or row.standing not in LIVE or row.pinned:
        return None
    if row.created_at + lines.prune_after > now:
        return None
    return _action(row, ActionKind.RETIRE, LEADS_NOWHERE, {"was": row.standing.value})


def collected(row: GovernedRow, lines: Lines, now: Instant) -> Action | None:
    """Return what gc does to a memory: one that was retired for the whole restore window is erased.

    The window is counted from its last change, which is no earlier than its retirement.
    """
    if row.standing is not Standing.RETIRED or row.pinned or row.contested or row.updated_at + lines.restore > now:
        return None
    return _action(row, ActionKind.ERASE, RESTORE_WINDOW_ENDED, {"retired_at": row.updated_at})


def decayed(row: GovernedRow, lines: Lines, now: Instant) -> Action | None:
    """Return what decay does to a memory: a shown confidence that is too high by more than 0.05 is lowered."""
    if row.standing not in SHOWN:
        return None
    level = shown_target(row, lines.half_life, now)
    if level == row.shown:
        return None
    now_believed = round(_effective(row, lines.half_life, now), 6)
    return _action(row, ActionKind.SHOW, DECAYED, {"confidence": level / SHOWN_LEVELS, "effective": now_believed})


def shown_target(row: GovernedRow, half_life: float, now: Instant) -> int:
    """Return the confidence (thousandths) that a row should show: as now, or the next multiple of 0.05 above c(now).

    On these fixed steps it depends on c(now) alone, never on earlier sweeps; and for a gate that is a multiple of
    0.05, a reader that asks for more than the gate gets what passes it.
    """
    if row.shown <= STEP or not _is_below(row, row.shown - STEP, half_life, now):
        return row.shown
    level = (int(_effective(row, half_life, now) * SHOWN_LEVELS) // STEP + 1) * STEP
    while level > STEP and _is_below(row, level - STEP, half_life, now):  # at a step, the float may be off by one
        level -= STEP
    while not _is_below(row, level, half_life, now):
        level += STEP
    return min(level, row.shown)


def _is_below(row: GovernedRow, level: int, half_life: float, now: Instant) -> bool:
    below = level / SHOWN_LEVELS
    return row.confidence < below or row.birth < faded_cut(below, now, half_life)


def _effective(row: GovernedRow, half_life: float, now: Instant) -> float:
    return effective(Trust(confidence=row.confidence, anchor=row.anchor, birth=row.birth), now, half_life)


def _faded(row: GovernedRow, lines: Lines, now: Instant) -> Action:
    believed = round(_effective(row, lines.half_life, now), 6)
    return _action(row, ActionKind.RETIRE, FADED, {"effective": believed, "was": row.standing.value})


def _action(row: GovernedRow, kind: ActionKind, reason: str, detail: Mapping[str, Json]) -> Action:
    return Action(memory_id=row.id, kind=kind, reason=reason, rev=row.rev, detail=detail)
