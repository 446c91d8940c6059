"""The pollution benchmark on the product's own store.

    python -m bench.pollution [--world rgb|fixture] [--split dev|test] [--seeds 3] [--asked 20] [--only plain governed]
                              [--stress] [--out .kb/bench/pollution.json] [--plot .kb/bench/pollution.png]

Every policy answers the same questions from the same passages, with the same vectors, the same index and the same
reader. Runs on the test split are written into a public ledger, since each look at it wears it out.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.pollution.cells import grid, run, warmed
from bench.pollution.directions import directions
from bench.pollution.latency import interleaved
from bench.pollution.metrics import recovery, scored
from bench.pollution.roster import NAMES
from bench.pollution.schedule import Conditions
from bench.pollution.world import fixture, rgb
from bench.vectors import Vectors
from kb.ids import digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.pollution.simulate import Run
    from bench.pollution.world import Fact

LOOKS = Path(__file__).parents[1] / "results" / "pollution_looks.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the grid, print a table, write JSON; exit 1 when an expected direction does not hold."""
    given = _arguments().parse_args(argv)
    conditions = Conditions(asked_a_day=given.asked, days=given.days)
    facts = _facts(given.world, given.split)
    config = digest("pollution", given.world, given.split, json.dumps(asdict(conditions), sort_keys=True))[:16]
    if given.world == "rgb" and given.split == "test":
        _looked(config, given.only or list(NAMES))
    kept = given.resume / config if given.resume else None
    warmed(facts)
    runs: dict[str, list[Run]] = {}
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        cells = {
            (cell.name, seed): pool.submit(run, facts, seed, cell, kept)
            for cell in grid(given.only, conditions, is_stressed=given.stress)
            for seed in range(given.seeds)
        }
        for (name, seed), running in cells.items():
            runs.setdefault(name, []).append(running.result())
            if seed == given.seeds - 1:
                print(f"{len(runs)} of {len(cells) // given.seeds}: {name}", file=sys.stderr, flush=True)
                _written(given, config, facts, runs)  # what is done is kept, whatever comes
    result = _written(given, config, facts, runs, _latency(given, facts, conditions))
    _show(result)
    if given.plot:
        from bench.pollution.picture import drawn

        drawn(result, given.plot)
    return 0 if all(d["held"] for d in result["directions"]) else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.pollution", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--world", choices=("rgb", "fixture"), default="rgb")
    parser.add_argument("--split", choices=("dev", "test", "all"), default="dev")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--asked", type=int, default=20, help="questions a day")
    parser.add_argument("--days", type=int, default=120)
    parser.add_argument("--only", nargs="*", choices=NAMES, help="these policies alone")
    parser.add_argument("--stress", action="store_true", help="other conditions too: attackers, errors, readers")
    parser.add_argument("--out", type=Path, default=Path(".kb/bench/pollution.json"))
    parser.add_argument("--resume", type=Path, help="folder that keeps every run, so that a repeat goes on there")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--latency", type=Path, help="file for retrieval times of plain and governed, measured in turn")
    return parser


def _facts(world: str, split: str) -> list[Fact]:
    facts = fixture() if world == "fixture" else rgb()
    return [f for f in facts if split == "all" or f.is_dev is (split == "dev")]


def _latency(
    given: argparse.Namespace, facts: Sequence[Fact], conditions: Conditions
) -> dict[str, dict[str, float]] | None:
    """Return retrieval times of plain and governed, measured in turn; what the file has is not measured again."""
    if given.latency is None:
        return None
    if given.latency.exists():
        found: dict[str, dict[str, float]] = json.loads(given.latency.read_text(encoding="utf-8"))
        return found
    pair = interleaved(facts, 0, conditions, Vectors(), ("plain", "governed"))
    given.latency.parent.mkdir(parents=True, exist_ok=True)
    given.latency.write_text(json.dumps(pair, indent=1) + "\n", encoding="utf-8")
    return pair


def _written(
    given: argparse.Namespace,
    config: str,
    facts: Sequence[Fact],
    runs: dict[str, list[Run]],
    pair: dict[str, dict[str, float]] | None = None,
) -> dict[str, Any]:
    asked = {name: [a for run in own for a in run.asked] for name, own in runs.items()}
    costs = {name: _costs(own) for name, own in runs.items()}
    result = {
        "world": given.world,
        "split": given.split,
        "facts": len(facts),
        "seeds": given.seeds,
        "asked_a_day": given.asked,
        "days": given.days,
        "config": config,
        "policies": {name: {**scored(own), "recovery": recovery(own), **costs[name]} for name, own in asked.items()},
        "latency": pair,
        "directions": [asdict(d) for d in directions(asked, costs, pair)],
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def _costs(runs: Sequence[Run]) -> dict[str, float]:
    asked = sum(len(r.asked) for r in runs)
    seconds = sorted(s for r in runs for s in r.seconds)
    return {
        "checks_a_question": sum(r.checks for r in runs) / asked,
        "p50_ms": 1000 * seconds[len(seconds) // 2],
        "p95_ms": 1000 * seconds[int(0.95 * len(seconds))],
        "live": sum(r.live for r in runs) / len(runs),
        "rows": sum(r.rows for r in runs) / len(runs),
    }


def _show(result: dict[str, Any]) -> None:
    shown = ("accuracy", "abstained", "polluted_known", "polluted_cold", "polluted_late", "stale", "evergreen_late")
    print(f"{'policy':26}" + "".join(f"{name:>16}" for name in shown) + f"{'checks':>9}{'live':>8}")
    for name, own in result["policies"].items():
        cells = "".join(f"{_cell(own[metric]):>16}" for metric in shown)
        print(f"{name:26}{cells}{own['checks_a_question']:>9.3f}{own['live']:>8.0f}")
    for d in result["directions"]:
        figures = ", ".join(f"{k} {v:.3f}" for k, v in d["figures"].items() if v is not None)
        print(f"{'held  ' if d['held'] else 'FAILED'}  {d['id']:4}{d['said']}  ({figures})")


def _cell(metric: dict[str, Any]) -> str:
    return "-" if metric["value"] is None else f"{metric['value']:.3f} ±{(metric['high'] - metric['low']) / 2:.3f}"


def _looked(config: str, names: Sequence[str]) -> None:
    """Note a look at the test split: who tunes on it sees here how often it was done."""
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "config": config, "policies": list(names)}
    with LOOKS.open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())
