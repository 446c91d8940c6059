"""The grid: which policy runs under which conditions; and one run of it, in a process of its own."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.pollution.outside import spoken, statement
from bench.pollution.reader import read, read_first
from bench.pollution.roster import FIRST, NAMES, maker
from bench.pollution.simulate import simulate
from bench.vectors import Vectors
from kb.log import configure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.pollution.schedule import Conditions
    from bench.pollution.simulate import Run
    from bench.pollution.world import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One policy under one set of conditions."""

    name: str
    policy: str
    conditions: Conditions
    rollback: str = "none"
    is_permuted: bool = False
    reads_first: bool = False


def run(facts: Sequence[Fact], seed: int, cell: Cell, kept: Path | None = None) -> Run:
    """Return what one cell comes to with one seed; what `kept` holds of it is not run again."""
    configure("error")
    file = None if kept is None else kept / f"{cell.name.replace('/', '-')}-{seed}.pickle"
    if file is not None and file.exists():
        found: Run = pickle.loads(file.read_bytes())  # noqa: S301 - written by this program below .kb
        return found
    done = _run(facts, seed, cell)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(done))
    return done


def _run(facts: Sequence[Fact], seed: int, cell: Cell) -> Run:
    return simulate(
        facts,
        seed,
        cell.conditions,
        maker(cell.policy),
        Vectors(),
        rollback=cell.rollback,
        reader=read_first if cell.reads_first else read,
        is_permuted=cell.is_permuted,
    )


def warmed(facts: Sequence[Fact]) -> None:
    """Embed everything that any run will ask for, once."""
    vectors = Vectors()
    said = [text for f in facts for text in (*f.says_true, *f.says_false, *f.says_neither)]
    stated = [s for f in facts for value in ("true", "false") for s in (statement(f, value), *spoken(f, value))]
    vectors.passages([*said, *stated])
    vectors.queries([f.question for f in facts])


def grid(only: Sequence[str] | None, conditions: Conditions, *, is_stressed: bool = False) -> list[Cell]:
    """Return every cell: each policy as it is, and some of them under other conditions."""
    wanted = list(only or NAMES)
    alone = [Cell(name=name, policy=name, conditions=conditions) for name in wanted]
    null = replace(conditions, is_null=True)
    cells = alone[: len(FIRST)]  # what most is said about comes first
    for name in ("plain", "governed", "governed_reviewed"):
        if name in wanted:
            cells.append(Cell(name=f"null/{name}", policy=name, conditions=null))
    for name in ("plain", "governed"):
        if name in wanted:
            cells.append(Cell(name=f"permuted/{name}", policy=name, conditions=conditions, is_permuted=True))
    for name in ("append", "governed"):
        if name in wanted:
            cells += [
                Cell(name=f"{how}/{name}", policy=name, conditions=conditions, rollback=how)
                for how in ("docs", "lineage")
            ]
    return [*cells, *alone[len(FIRST) :], *(_stress(wanted, conditions) if is_stressed else [])]


def _stress(wanted: Sequence[str], conditions: Conditions) -> list[Cell]:
    changed = {
        "attackers_1": replace(conditions, attackers=1),
        "attackers_5": replace(conditions, attackers=5),
        "compromised_0": replace(conditions, compromised=0.0),
        "compromised_1": replace(conditions, compromised=1.0),
        "check_60": replace(conditions, check_right=0.6),
        "feedback_30": replace(conditions, feedback=0.3),
        "feedback_error_30": replace(conditions, feedback_error=0.3),
    }
    cells = []
    for name in ("plain", "governed"):
        if name in wanted:
            cells += [Cell(name=f"{how}/{name}", policy=name, conditions=own) for how, own in changed.items()]
            cells.append(Cell(name=f"first_hit/{name}", policy=name, conditions=conditions, reads_first=True))
    return cells
