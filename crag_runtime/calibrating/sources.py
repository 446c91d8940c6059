"""How many independent sources a correct verdict should need, learned from answers known to be right or wrong: pure.

Asking for more sources keeps fewer answers, of which more should be right. The smallest number that keeps the target
with 95 % confidence (Wilson's lower bound) is learned, if enough answers support it; else one source stays enough.
What is learned is written into the settings by a person: the runtime never changes it by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crag_runtime.calibrating.significance import wilson_lower
from crag_runtime.evidence import QuestionType
from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import Instant, Json

TARGET = 0.9  # share of right answers
NEED = 20  # kept answers below which nothing is learned
MOST = 10  # sources; the largest number that the settings take
DIGITS = 4
MARK = 12  # hex digits of a log's hash in a comment


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An answer of which it is known whether it was right.

    Args:
        type: of its question.
        sources: independent sources of its evidence, at least 0.
        right: whether it was.
    """

    type: QuestionType
    sources: int
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesRow:
    """What asking for `sources` independent sources does.

    Args:
        sources: asked for.
        kept: answers with as many or more.
        right: of these.
        bound: that the share of right ones exceeds with 95 % confidence.
        coverage: share of all answers that is kept.
    """

    sources: int
    kept: int
    right: int
    bound: float
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesFit:
    """What is learned for one type of question.

    Args:
        type: of question.
        n: its answers.
        min_sources: that a correct verdict should need.
        rows: by number of sources, those numbers that answers have.
        why: why nothing could be learned, and one stays enough; "" where it was learned.
    """

    type: QuestionType
    n: int
    min_sources: int
    rows: tuple[SourcesRow, ...]
    why: str = ""

    def as_json(self) -> dict[str, Json]:
        """Return the fit as plain JSON; numbers of four digits."""
        return {
            "n": self.n,
            "min_sources": self.min_sources,
            "learned": not self.why,
            "why": self.why,
            "rows": [
                {
                    "sources": row.sources,
                    "kept": row.kept,
                    "right": row.right,
                    "bound": round(row.bound, DIGITS),
                    "coverage": round(row.coverage, DIGITS),
                }
                for row in self.rows
            ],
        }


def learned_sources(judged: Sequence[Judged], *, target: float = TARGET, need: int = NEED) -> tuple[SourcesFit, ...]:
    """Return what is learned for each type of question that has answers, in the order of the types.

    Args:
        judged: answers, in any order.
        target: share of right answers to reach, above 0 and below 1.
        need: answers that a number of sources must keep to be believed, at least 1.

    Raises:
        InputError: there are no answers, or target or need are out of range.
    """
    if not 0.0 < target < 1.0:
        raise InputError(f"the target is {target}; it must be between 0 and 1")
    if need < 1:
        raise InputError(f"{need} kept answers support nothing; at least 1 is needed")
    if not judged:
        raise InputError("there are no answers of which it is known whether they were right")
    by_type = {kind: [j for j in judged if j.type is kind] for kind in QuestionType}
    return tuple(_fit(kind, own, target, need) for kind, own in by_type.items() if own)


def rows_of(judged: Sequence[Judged]) -> tuple[SourcesRow, ...]:
    """Return what asking for each number of sources does that answers have, from 1 to `MOST`.

    A number that no answer has exactly keeps the same answers as the next one, and is not told apart from it.
    """
    counts = Counter(min(j.sources, MOST) for j in judged)
    rights = Counter(min(j.sources, MOST) for j in judged if j.right)
    rows = []
    for sources in sorted(n for n in counts if n > 0):
        kept = sum(c for n, c in counts.items() if n >= sources)
        right = sum(c for n, c in rights.items() if n >= sources)
        bound = wilson_lower(right, kept)
        rows.append(SourcesRow(sources=sources, kept=kept, right=right, bound=bound, coverage=kept / len(judged)))
    return tuple(rows)


def toml_lines(fits: Sequence[SourcesFit], *, name: str, log: str, now: Instant) -> str:
    """Return the lines for kb.toml that freeze what was learned; what was not is a comment.

    Args:
        fits: by type.
        name: of the log, for people; one line.
        log: the log's hash, hex.
        now: when it was learned.
    """
    day = datetime.fromtimestamp(now / 1000, UTC).date().isoformat()
    head = f"# learned by `kb eval sources` on {day} from {_line(name)} ({log[:MARK]}); frozen until it is learned anew"
    tables = (
        f"# {fit.type.value}: not learned: {fit.why}"
        if fit.why
        else f"[ask.thresholds.{fit.type.value}]\nmin_sources = {fit.min_sources}"
        for fit in fits
    )
    return "\n".join((head, *tables)) + "\n"


def _fit(kind: QuestionType, judged: Sequence[Judged], target: float, need: int) -> SourcesFit:
    rows = rows_of(judged)
    for row in rows:
        if row.kept >= need and row.bound >= target:
            return SourcesFit(type=kind, n=len(judged), min_sources=row.sources, rows=rows)
    return SourcesFit(type=kind, n=len(judged), min_sources=1, rows=rows, why=_why(rows, target, need))


def _why(rows: Sequence[SourcesRow], target: float, need: int) -> str:
    believed = [row for row in rows if row.kept >= need]
    if not believed:
        most = max((row.kept for row in rows), default=0)
        return f"{most} answers with a source are too few; {need} are needed"
    best = max(believed, key=lambda row: row.bound)
    share = f"{best.right} of {best.kept} right"
    return f"at best {share}, with {best.sources} or more sources: surely above {best.bound:.3f}, not {target:g}"


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
