"""What a sweep costs in a large ledger, against writing every memory's decayed confidence anew.

    python -m bench.sweep [--rows 100000 1000000] [--share 0.001] [--out .kb/bench/sweep.json]

At each size, on SQLite and on a private PostgreSQL: a store on the morning after last night's sweeps, of which a share
has crossed the pruning line since, and as many shown confidences are off by more than 0.05. Measured in one run: the
plans (in a process of its own, for its peak memory), the sweeps with their whole journal, and then two ways of
rewriting everything, as systems do that accumulate decay: one UPDATE of every row, and reading every row to write it
back in batches. The index is away throughout: what is measured is the ledger, and a rewritten row would have to be
written there too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import re
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from bench.private_postgres import Server, binaries, private_server
from governance.candidates import foreseen
from governance.check import default_policy
from governance.decide import shown_target
from governance.planning import planned
from governance.sweep import apply
from kb.errors import IndexUnavailable
from kb.index.generations import Generations
from kb.ledger import open_ledger
from kb.ledger.governed import governed_row
from kb.ledger.rows import row_of_memory
from kb.ledger.schema import memories as table
from kb.memories import Memories
from kb.model import DocumentId, Kind, Memory, MemoryId, SourceClass, SourceRoot
from kb.ports import EmbedderIdentity
from kb.settings import Settings
from kb.sweeps import SweepJob
from kb.trust import DAY_MS, trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.ledger import Ledger
    from kb.model import Instant
    from kb.sweeps import Sweep

NOW = 1_800_000_000_000
TENANT = "bench"
POLICY = default_policy(TENANT)
PER_DOCUMENT = 10
BATCH = 5_000
SENTENCE = "The bridge carries forty tons on a dry day and is painted green every spring by the same two men. "


class Still:
    """A clock that stands, an embedder that is not asked, and an index server that is away."""

    identity = EmbedderIdentity(model="none", dim=8, engine="none")

    def now(self) -> Instant:
        return NOW

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def away(*_: object) -> None:
            raise IndexUnavailable(f"{name}: the index is away")

        return away


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What something cost: client and database together."""

    seconds: float
    cpu_seconds: float


def memory(n: int, share: float) -> Memory:
    """Return one memory of the store: nine in ten are passages of documents, the rest notes by people.

    Every 1/share-th has faded to below the pruning line since last night; as many others show more than they should.
    """
    every = round(1 / share)
    is_faded, is_off = n % every == 0, n % every == 1
    is_note = n % PER_DOCUMENT == 9
    source_class = SourceClass.PERSON if is_note else SourceClass.DOCUMENT
    own = POLICY.trust[source_class]
    age = 100.0 if is_faded else 10.0 if is_off else (n * 7919 % 5000) / 1000  # days; others are up to 5 days old
    created = NOW - round(age * DAY_MS)
    made = Memory(
        id=MemoryId(hashlib.blake2b(str(n).encode(), digest_size=16).hexdigest()),
        tenant=TENANT,
        kind=Kind.NOTE if is_note else Kind.DOCUMENT,
        source_class=source_class,
        source=f"note://person/{n}" if is_note else f"file://docs/{n // PER_DOCUMENT}.md",
        text=SENTENCE * 4 + str(n),
        trust=trusted(own.confidence, created, own.half_life),
        doc_id=None if is_note else DocumentId(f"d{n // PER_DOCUMENT}"),
        embed_hash=f"{n:064x}",
        valid_from=created,
        created_at=created,
        updated_at=created,
    )
    if is_off:
        return made
    level = shown_target(governed_row(made), own.half_life, NOW)
    return replace(made, trust=replace(made.trust, shown=level / 1000))


def fill(ledger: Ledger, rows: int, share: float) -> None:
    """Put the store into the ledger, in transactions of some thousands."""
    with ledger.write() as tx:
        tx.sources.put(SourceRoot(name="docs", tenant=TENANT, location="/docs", source_class=SourceClass.DOCUMENT))
    for start in range(0, rows, BATCH):
        with ledger.write() as tx:
            connection = tx.governed._connection  # noqa: SLF001 - filled as fast as can be
            part = [row_of_memory(memory(n, share)) for n in range(start, min(rows, start + BATCH))]
            connection.execute(sa.insert(table), part)
    if ledger.dialect == "postgresql":
        with ledger.engines.writes.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM ANALYZE memories")


@contextmanager
def opened(url: str | None, data_dir: Path) -> Iterator[Memories]:
    """Open the store without an index."""
    still: Any = Still()
    settings = Settings.model_construct()
    with open_ledger(url, data_dir=data_dir) as ledger:
        yield Memories(
            ledger=ledger, generations=Generations(still, ledger), embedder=still, settings=settings, clock=still
        )


def spent(doing: Callable[[], object], server: Server | None) -> Spent:
    """Return what doing something cost."""
    cpu, theirs, began = time.process_time(), server.cpu_seconds() if server else 0.0, time.perf_counter()
    doing()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Spent(seconds=seconds, cpu_seconds=cpu + (server.cpu_seconds() - theirs if server else 0.0))


def figures(cost: Spent, **others: object) -> dict[str, object]:
    return {"seconds": round(cost.seconds, 3), "cpu_seconds": round(cost.cpu_seconds, 3), **others}


def planning(url: str | None, data_dir: Path, what: str, server: Server | None, to: Any) -> None:  # noqa: ANN401 - a pipe
    """In a process of its own: make one plan or forecast, and send what it cost and how far its memory grew."""
    greedy = replace(POLICY.rules[SourceClass.DOCUMENT], prune_below=1.0, prune_after_days=0.0)
    everything = replace(POLICY, rules=dict.fromkeys(SourceClass, greedy))
    with opened(url, data_dir) as store:
        ways: dict[str, Callable[[], object]] = {
            "prune": lambda: planned(store, SweepJob.PRUNE, POLICY, NOW),
            "decay": lambda: planned(store, SweepJob.DECAY, POLICY, NOW),
            "prune_of_everything": lambda: planned(store, SweepJob.PRUNE, everything, NOW),
            "forecast_30_days": lambda: foreseen(store, [POLICY], NOW, 30),
        }
        planned(store, SweepJob.GC, POLICY, NOW)  # what is loaded and compiled once
        before = peak_mb(reset=True)
        found: list[Any] = []
        cost = spent(lambda: found.append(ways[what]()), server)
        grown = peak_mb() - before
    counted = {"actions": len(found[0].actions), "left": found[0].left} if hasattr(found[0], "actions") else {}
    to.send(figures(cost, peak_mb=round(grown, 1), **counted))


def peak_mb(*, reset: bool = False) -> float:
    """Return the most memory this process has held, in megabytes; since now, when reset. Linux only."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def alone(url: str | None, data_dir: Path, what: str, server: Server | None) -> dict[str, object]:
    """Return what `planning` found in its own process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=planning, args=(url, data_dir, what, server, theirs))
    process.start()
    theirs.close()
    found: dict[str, object] = ours.recv()
    process.join()
    return found


def swept(store: Memories, job: SweepJob, server: Server | None) -> dict[str, object]:
    """Plan and apply a sweep; return its cost and how many rows of memories it wrote."""
    done: list[Sweep] = []
    before = changed(store.ledger)
    cost = spent(
        lambda: done.append(
            apply(store, planned(store, job, POLICY, NOW), policy=POLICY, actor="bench", allow_mass=True)
        ),
        server,
    )
    return figures(cost, rows_written=changed(store.ledger) - before, counts=dict(done[0].counts))


def changed(ledger: Ledger) -> int:
    """Return how many times rows of memories were written since the store was filled."""
    with ledger.read() as tx:
        total = sa.select(sa.func.sum(table.c.rev - 1))
        return int(tx.governed._connection.execute(total).scalar_one())  # noqa: SLF001


def rewritten_at_once(ledger: Ledger) -> None:
    """Let the database decay every row by a day in one statement."""
    with ledger.write() as tx:
        decayed = table.c.confidence * 2 ** (-1 / 30)
        tx.governed._connection.execute(sa.update(table).values(confidence=decayed, rev=table.c.rev + 1))  # noqa: SLF001


def rewritten_by_rows(ledger: Ledger) -> None:
    """Read every row, decay it by a day, and write it back, some thousands to a transaction."""
    one = (
        sa.update(table)
        .where(table.c.id == sa.bindparam("at"))
        .values(confidence=sa.bindparam("new"), rev=table.c.rev + 1)
    )
    after = ""
    while True:
        with ledger.write() as tx:
            connection = tx.governed._connection  # noqa: SLF001
            page = sa.select(table.c.id, table.c.confidence).where(table.c.id > after).order_by(table.c.id).limit(BATCH)
            rows = connection.execute(page).all()
            if not rows:
                return
            connection.execute(one, [{"at": id_, "new": confidence * 2 ** (-1 / 30)} for id_, confidence in rows])
            after = rows[-1][0]


def at_size(rows: int, share: float, url: str | None, data_dir: Path, server: Server | None) -> dict[str, Any]:
    """Fill a ledger and measure everything on it."""
    with opened(url, data_dir) as store:
        filling = spent(lambda: fill(store.ledger, rows, share), server)
        plans = {
            what: alone(url, data_dir, what, server)
            for what in ("prune", "decay", "prune_of_everything", "forecast_30_days")
        }
        sweeps = {job.value: swept(store, job, server) for job in (SweepJob.PRUNE, SweepJob.DECAY)}
        rewrites = {}
        for name, rewrite in (("one_update", rewritten_at_once), ("row_by_row", rewritten_by_rows)):
            before = changed(store.ledger)
            cost = spent(lambda rewrite=rewrite: rewrite(store.ledger), server)  # type: ignore[misc]
            rewrites[name] = figures(cost, rows_written=changed(store.ledger) - before)
    result = {
        "database": "postgresql" if server else "sqlite",
        "rows": rows,
        "crossing": plans["prune"]["actions"],
        "filling": figures(filling),
        "plans": plans,
        "sweeps": sweeps,
        "rewrites": rewrites,
    }
    return {**result, "ratios": ratios(sweeps, rewrites)}


def ratios(sweeps: dict[str, Any], rewrites: dict[str, Any]) -> dict[str, Any]:
    """Return how many times more each rewrite writes, and takes, than each sweep."""
    return {
        f"{rewrite}_to_{job}": {
            "rows": round(rewrites[rewrite]["rows_written"] / sweeps[job]["rows_written"], 1),
            "seconds": round(rewrites[rewrite]["seconds"] / sweeps[job]["seconds"], 1),
        }
        for rewrite in rewrites
        for job in sweeps
    }


def main() -> None:
    """Run every size on both databases and print the figures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments.add_argument("--share", type=float, default=0.001)
    arguments.add_argument("--out", type=Path, default=Path(".kb/bench/sweep.json"))
    options = arguments.parse_args()
    results = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as scratch:
            results.append(at_size(rows, options.share, None, Path(scratch), None))
            print(json.dumps(results[-1], indent=1), flush=True)
        if binaries() is None:
            continue
        with tempfile.TemporaryDirectory() as scratch, private_server() as server:
            results.append(at_size(rows, options.share, server.url, Path(scratch), server))
            print(json.dumps(results[-1], indent=1), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
