"""How well retrieval ranks: dense, BM25, RRF and the weighted sum, on real questions over their whole collections.

    python -m bench.retrieval [--questions 400] [--out .kb/bench/retrieval.json]

Recall@5 and nDCG@10 on XQuAD en and zh (240 paragraphs each) and CMRC2018 (windows of its articles), through the
product's own search on its default index, gate open. One passage is right per question, so nDCG@10 is 1/log2(1+rank).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.pairs import cmrc, cmrc_windows, digest, xquad
from kb.clock import SystemClock
from kb.memories import Note, note_memory, open_memories
from kb.passages import embedded_as
from kb.ranking import Fusion, Mode
from kb.search import SearchRequest
from kb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.pairs import Reading
    from kb.memories import Memories
    from kb.model import MemoryId

K = 10
ARMS = {
    "dense": (Mode.DENSE, Fusion.MINMAX),
    "bm25": (Mode.TEXT, Fusion.MINMAX),
    "rrf": (Mode.HYBRID, Fusion.RRF),
    "weighted": (Mode.HYBRID, Fusion.MINMAX),
}


def filled(memories: Memories, tenant: str, passages: Sequence[str]) -> dict[str, MemoryId]:
    """Store the passages as notes of a tenant in one transaction; return the id of each."""
    now = memories.clock.now()
    made = {p: note_memory(Note(text=p, tenant=tenant), memories.policies, now) for p in dict.fromkeys(passages)}
    memories.generations.ensured(memories.embedder.identity, now)
    memories.embed({m.embed_hash: embedded_as(m) for m in made.values()})
    with memories.ledger.write() as tx:
        tx.memories.add(list(made.values()))
        tx.outbox.mark([m.id for m in made.values()], now)
    memories.projector.drain()
    return {p: m.id for p, m in made.items()}


def measured(memories: Memories, tenant: str, readings: Sequence[Reading], ids: dict[str, MemoryId]) -> dict[str, dict]:
    """Return recall@5 and nDCG@10 of each arm."""
    shown = {}
    for name, (mode, fusion) in ARMS.items():
        ranks = []
        for r in readings:
            request = SearchRequest(
                question=r.question, tenant=tenant, k=K, gate=0.0, mode=mode, fusion=fusion, explain=False
            )
            found = [h.memory.id for h in memories.search(request).hits]
            ranks.append(found.index(ids[r.passage]) + 1 if ids[r.passage] in found else None)
        recall = statistics.fmean(rank is not None and rank <= 5 for rank in ranks)
        ndcg = statistics.fmean(0.0 if rank is None else 1 / math.log2(1 + rank) for rank in ranks)
        shown[name] = {"recall_at_5": round(recall, 4), "ndcg_at_10": round(ndcg, 4)}
    return shown


def collections(limit: int) -> dict[str, tuple[list[str], list[Reading]]]:
    """Return each set's passages and a sample of its questions, chosen by hash."""
    windows = cmrc_windows()
    sets = {
        "xquad-en": ([r.passage for r in xquad("en")], xquad("en")),
        "xquad-zh": ([r.passage for r in xquad("zh")], xquad("zh")),
        "cmrc2018": ([w for parts in list(windows.values())[:300] for w in parts], cmrc()),
    }
    chosen = {}
    for name, (passages, readings) in sets.items():
        known = set(passages)
        own = sorted((r for r in readings if r.passage in known), key=lambda r: digest(r.question))[:limit]
        chosen[name] = (passages, own)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path(".kb/bench/retrieval.json"))
    given = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory(prefix="kb-bench-") as folder:
        settings = Settings(data_dir=Path(folder))
        with open_memories(settings, SystemClock()) as memories:
            for name, (passages, readings) in collections(given.questions).items():
                ids = filled(memories, name, passages)
                result[name] = {"passages": len(ids), "questions": len(readings)}
                result[name] |= measured(memories, name, readings, ids)
                print(name, len(ids), "passages,", len(readings), "questions")
                for arm in ARMS:
                    print(f"   {arm:9} {result[name][arm]}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
