"""What the gate costs, and what it finds, inside a hybrid search on Milvus Lite.

    python -m bench.gate [--rows 10000 100000] [--rounds 60] [--out .kb/bench/gate.json]

Compares, interleaved in one run, at each size: hybrid search without a gate; with the typed gate (ours); with the JSON
path filter `metadata["confidence"] > 0.7` that other clients write; and with over-fetching ×3 and filtering afterwards,
as peers do. Recall is against exact brute force over the rows that pass, at several shares of rows that pass.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.index.milvus import open_server
from kb.model import FOREVER, MemoryId, Scope, Standing
from kb.ports import Candidate, Criteria, IndexRow
from kb.ranking import Fusion, ranked
from kb.settings import Settings
from kb.trust import DAY_MS, birth_of, gate_clauses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kb.ports import Index, Vector

DIM, K, POOL, BATCH = 384, 10, 50, 1000
NOW = 1_800_000_000_000
GATE = 0.7
HALF_LIFE = 30 * DAY_MS
PASSING = (0.5, 0.02, 0.001)  # shares of rows that pass, for recall
WORDS = 4000


@dataclass(frozen=True, kw_only=True)
class World:
    """Random rows: unit vectors in clusters, texts of 40 words, and for each share of passing rows a tenant."""

    vectors: NDArray[np.float32]
    tenants: NDArray[np.int64]
    passes: NDArray[np.bool_]
    rows: list[IndexRow]


def world(n: int, rng: np.random.Generator) -> World:
    """Make n rows; a third belong to each tenant, of which the tenant's share passes the gate."""
    centres = rng.normal(size=(64, DIM))
    vectors = (centres[rng.integers(0, 64, n)] + 0.7 * rng.normal(size=(n, DIM))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    tenants = rng.integers(0, len(PASSING), n)
    passes = rng.random(n) < np.array(PASSING)[tenants]
    rows = [_row(i, vectors[i], int(tenants[i]), bool(passes[i]), rng) for i in range(n)]
    return World(vectors=vectors, tenants=tenants, passes=passes, rows=rows)


def _row(i: int, vector: Vector, tenant: int, passes: bool, rng: np.random.Generator) -> IndexRow:  # noqa: FBT001
    confidence = 0.9
    age = rng.uniform(0, 10) if passes else rng.uniform(12, 60)
    words = " ".join(f"w{w}" for w in rng.zipf(1.3, 40) % WORDS)
    effective = confidence * 2 ** (-age / 30)
    return IndexRow(
        id=MemoryId(f"{i:032x}"),
        tenant=f"t{tenant}",
        scope=Scope(),
        text=words,
        terms=words,
        dense=vector,
        birth=birth_of(confidence, NOW - round(age * DAY_MS), HALF_LIFE),
        confidence=confidence,
        verified=False,
        standing=Standing.ACTIVE.number,
        valid_from=0,
        valid_to=FOREVER,
        kind="document",
        source_class="document",
        policy=2,
        doc_id=f"d{i // 10}",
        source=f"file://docs/{i // 10}.md",
        rev=1,
        metadata={"confidence": effective, "verified": False, "source": f"file://docs/{i // 10}.md"},
    )


def hybrid(index: Index, vector: Vector, words: str, criteria: Criteria, k: int) -> list[MemoryId]:
    """Return the fused top k of two arms, as the product asks them."""
    dense, text = index.dense(vector, criteria, POOL), index.sparse(words, criteria, POOL)
    return [id_ for id_, _ in ranked(dense, text, Fusion.MINMAX)[:k]]


def by_json(client: Any, name: str, vector: Vector, words: str, tenant: str) -> list[MemoryId]:  # noqa: ANN401
    """Return the fused top k with the filter of other clients."""
    where = f'tenant == "{tenant}" and standing == 0 and metadata["confidence"] > {GATE}'
    arms = []
    for field, data in (("dense", vector.tolist()), ("sparse", words)):
        (hits,) = client.search(name, data=[data], anns_field=field, filter=where, limit=POOL, timeout=30)
        arms.append([Candidate(id=MemoryId(h["id"]), score=h["distance"]) for h in hits])
    return [id_ for id_, _ in ranked(arms[0], arms[1], Fusion.MINMAX)[:K]]


def over_fetched(index: Index, vector: Vector, words: str, tenant: str, passing: set[MemoryId]) -> list[MemoryId]:
    """Return what is left of 3k ungated results after filtering: what peers do."""
    return [i for i in hybrid(index, vector, words, Criteria(tenant=tenant), 3 * K) if i in passing][:K]


def measured(ways: dict[str, Callable[[int], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Return p50 and p95 milliseconds of each way, called in turns so that noise falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for r in range(rounds + 5):
        for name, way in ways.items():
            began = time.perf_counter()
            way(r)
            times[name].append((time.perf_counter() - began) * 1000)
    return {
        name: {"p50_ms": round(statistics.median(t[5:]), 2), "p95_ms": round(sorted(t[5:])[int(0.95 * rounds)], 2)}
        for name, t in times.items()
    }


def recalls(w: World, index: Index, queries: NDArray[np.float32], gate: Criteria) -> dict[str, dict[str, float]]:
    """Return recall@k of the dense arm against brute force, for each share of passing rows."""
    result = {}
    for t, share in enumerate(PASSING):
        allowed = np.flatnonzero((w.tenants == t) & w.passes)
        passing = {w.rows[i].id for i in allowed}
        tenant = f"t{t}"
        ours, theirs = [], []
        for q in queries[:30]:
            best = allowed[np.argsort(-(w.vectors[allowed] @ q), kind="stable")[:K]]
            truth = {w.rows[i].id for i in best}
            found = index.dense(q, Criteria(tenant=tenant, gate=gate.gate), K)
            fetched = index.dense(q, Criteria(tenant=tenant), 3 * K)
            ours.append(_share({c.id for c in found}, truth))
            theirs.append(_share({c.id for c in fetched if c.id in passing}, truth))
        result[f"{share:.1%}"] = {
            "rows_passing": len(allowed),
            "gate_in_search": round(statistics.fmean(ours), 4),
            "over_fetch_x3": round(statistics.fmean(theirs), 4),
        }
    return result


def _share(found: set[MemoryId], truth: set[MemoryId]) -> float:
    return len(found & truth) / len(truth) if truth else 1.0


def at_size(n: int, rounds: int, scratch: Path) -> dict[str, Any]:
    """Fill a Lite collection with n rows and measure every way."""
    rng = np.random.default_rng(n)
    w = world(n, rng)
    queries = (w.vectors[rng.integers(0, n, 256)] + 0.3 * rng.normal(size=(256, DIM)) / np.sqrt(DIM)).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    words = [" ".join(f"w{x}" for x in rng.zipf(1.3, 6) % WORDS) for _ in range(256)]
    settings = Settings(data_dir=scratch / str(n), index_timeout=60)
    server = open_server(settings)
    name = "kb_bench"
    try:
        server.create(name, DIM)
        index = server.open(name, DIM)
        began = time.perf_counter()
        for start in range(0, n, BATCH):
            index.upsert(w.rows[start : start + BATCH])
        insert = n / (time.perf_counter() - began)
        gated = Criteria(tenant="t0", gate=gate_clauses(GATE, NOW, settings.policies))
        passing = {r.id for r, p in zip(w.rows, w.passes, strict=True) if p}
        client = raw_client(settings)
        ways: dict[str, Callable[[int], object]] = {
            "hybrid_ungated": partial(_at, hybrid, index, queries, words, Criteria(tenant="t0"), K),
            "hybrid_gated": partial(_at, hybrid, index, queries, words, gated, K),
            "hybrid_json_gate": lambda r: by_json(client, name, queries[r % 256], words[r % 256], "t0"),
            "over_fetch_x3": lambda r: over_fetched(index, queries[r % 256], words[r % 256], "t0", passing),
        }
        times = measured(ways, rounds)
        base = times["hybrid_ungated"]["p50_ms"]
        return {
            "rows": n,
            "insert_rows_per_second": round(insert),
            "times": times,
            "ratio_to_ungated": {k: round(v["p50_ms"] / base, 3) for k, v in times.items()},
            "recall": recalls(w, index, queries, gated),
        }
    finally:
        server.close()
        from kb.index.lite import lite_server

        lite_server(settings).stop()


def _at(
    search: Callable[..., object],
    index: Index,
    queries: NDArray[np.float32],
    words: Sequence[str],
    criteria: Criteria,
    k: int,
    r: int,
) -> object:
    return search(index, queries[r % 256], words[r % 256], criteria, k)


def raw_client(settings: Settings) -> Any:  # noqa: ANN401 - the vendor's
    """Return a client as another program would open it."""
    from pymilvus import MilvusClient

    from kb.index.lite import lite_server

    return MilvusClient(lite_server(settings).endpoint(), timeout=60)


def main() -> None:
    """Run every size and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    arguments.add_argument("--rounds", type=int, default=60)
    arguments.add_argument("--out", type=Path, default=Path(".kb/bench/gate.json"))
    options = arguments.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for n in options.rows:
            results.append(at_size(n, options.rounds, Path(scratch)))
            print(json.dumps(results[-1], indent=1), flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
