"""Ingestion beside LangChain's `index()` and LlamaIndex's `IngestionPipeline`: same documents, same embedder, one run.

    python -m bench.ingest [FOLDER] [--docs 250] [--embedder local|hashing] [--out .kb/bench/ingest.json]

Reports parse+chunk documents per second; seconds of a first run and of a run with no change, as ratios; and how many
texts each system embeds again after (a) nothing, (b) a change of metadata, (c) an edit of one paragraph. The others get
our chunk size and their own in-memory stores, which favours them: ours writes a ledger and a Milvus index.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.ahead import ahead
from ingest.parse.raw import ParseLimits
from ingest.parse.worker import ParserWorker
from ingest.pipeline import Sync
from ingest.prepare import Preparer
from ingest.prior import Given
from ingest.survey import SyncOptions
from ingest.target import target_of
from kb.clock import SystemClock
from kb.embedders import open_embedder
from kb.index.generations import Generations
from kb.index.milvus import open_server
from kb.ledger import open_ledger
from kb.memories import Memories
from kb.settings import Settings
from kb.tokens import cl100k_count, encode
from tests.fakes.embedder import HashingEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.ports import Embedder, Vector

CORPUS = Path("../shared/corpora/handbook/milvus-docs")
SAMPLE = Path("sample")
CHUNK_TOKENS = 400
STEPS = ("first", "nothing", "metadata", "one paragraph")


class Counted:
    """An embedder that counts the passages it is asked for."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.max_tokens = inner.max_tokens
        self.passages_embedded = 0

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Pass on."""
        return self.inner.count_tokens(texts)

    def passages(self, texts: Sequence[str]) -> Vector:
        """Count and pass on."""
        self.passages_embedded += len(texts)
        return self.inner.passages(texts)

    def queries(self, texts: Sequence[str]) -> Vector:
        """Pass on."""
        return self.inner.queries(texts)


class Quiet:
    """Progress that nobody watches."""

    def stage(self, name: str, total: int) -> None:
        """Nothing to show."""

    def advance(self, steps: int = 1) -> None:
        """Nothing to show."""


def sample(folder: Path, count: int, into: Path) -> list[Path]:
    """Copy a fixed random sample of Markdown files; return their copies."""
    files = sorted(folder.rglob("*.md"))
    chosen = sorted(random.Random(7).sample(files, min(count, len(files))))
    for n, file in enumerate(chosen):
        shutil.copy(file, into / f"{n:03d}-{file.name}")
    return sorted(into.glob("*.md"))


def touch_metadata(file: Path) -> None:
    """Add a tag, and nothing else."""
    text = file.read_text(encoding="utf-8")
    if text.startswith("---\n"):
        file.write_text(text.replace("---\n", "---\ntags: [bench]\n", 1), encoding="utf-8")
    else:
        file.write_text(f"---\ntags: [bench]\n---\n{text}", encoding="utf-8")


def edit_paragraph(file: Path) -> None:
    """Change one sentence in the middle of the longest paragraph."""
    text = file.read_text(encoding="utf-8")
    paragraph = max((p for p in text.split("\n\n") if not p.startswith(("#", "```", "|", "-", " "))), key=len)
    words = paragraph.split(" ")
    words.insert(len(words) // 2, "henceforth")
    file.write_text(text.replace(paragraph, " ".join(words), 1), encoding="utf-8")


def steps(
    run: Callable[[], None], embedder: Counted, files: list[Path], metadata: Callable[[], None]
) -> dict[str, Any]:
    """Return seconds and embedded texts of each step."""
    result: dict[str, Any] = {}
    edited = files[len(files) // 2]
    for step in STEPS:
        if step == "metadata":
            metadata()
        if step == "one paragraph":
            edit_paragraph(edited)
        embedder.passages_embedded = 0
        began = time.perf_counter()
        run()
        result[step] = {"seconds": round(time.perf_counter() - began, 3), "embedded": embedder.passages_embedded}
    return result


def of_kb(folder: Path, files: list[Path], embedder: Counted, data: Path) -> dict[str, Any]:
    """Ours: ledger and Milvus Lite on disk."""
    settings = Settings(data_dir=data)
    with open_ledger(None, data_dir=data) as ledger:
        generations = Generations(open_server(settings), ledger)
        memories = Memories(
            ledger=ledger, generations=generations, embedder=embedder, settings=settings, clock=SystemClock()
        )
        target = target_of(folder.resolve(), "bench", [])
        options = SyncOptions(tenant="default", given=Given())

        def run() -> None:
            limits = ParseLimits()
            Sync(memories, target, options, settings, open_parser=lambda: ParserWorker(limits), progress=Quiet()).run()

        try:
            return steps(run, embedder, files, lambda: [touch_metadata(f) for f in files] and None)
        finally:
            generations.close()


def of_langchain(files: list[Path], embedder: Counted) -> dict[str, Any]:
    """LangChain's index(), cleanup full: the mode that follows deletions."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.indexing import InMemoryRecordManager, index
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    class Bridge(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embedder.passages(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return embedder.queries([text])[0].tolist()

    splitter = RecursiveCharacterTextSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=0, length_function=cl100k_count)
    records, store, extra = InMemoryRecordManager("bench"), InMemoryVectorStore(Bridge()), {}
    records.create_schema()

    def run() -> None:
        documents = [
            Document(page_content=f.read_text(encoding="utf-8"), metadata={"source": f.name, **extra}) for f in files
        ]
        index(
            splitter.split_documents(documents),
            records,
            store,
            cleanup="full",
            source_id_key="source",
            key_encoder="sha256",
        )

    return steps(run, embedder, files, lambda: extra.update(tags="bench"))


def of_llamaindex(files: list[Path], embedder: Counted) -> dict[str, Any]:
    """LlamaIndex's IngestionPipeline with a docstore, UPSERTS_AND_DELETE."""
    from llama_index.core.schema import Document

    pipeline = llamaindex_pipeline(embedder)
    extra: dict[str, str] = {}

    def run() -> None:
        pipeline.run(
            documents=[
                Document(
                    text=f.read_text(encoding="utf-8"),
                    id_=f.name,
                    metadata={"source": f.name, **extra},
                    excluded_embed_metadata_keys=["source", "tags"],
                )
                for f in files
            ]
        )

    return steps(run, embedder, files, lambda: extra.update(tags="bench"))


def llamaindex_pipeline(embedder: Counted) -> Any:  # noqa: ANN401 - the vendor's
    """Return a pipeline with our chunk size and our embedder."""
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.core.vector_stores import SimpleVectorStore

    class Bridge(BaseEmbedding):
        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return embedder.passages(texts).tolist()

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_query_embedding(self, query: str) -> list[float]:
            return embedder.queries([query])[0].tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    splitter = SentenceSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=0, tokenizer=encode, include_metadata=False)
    return IngestionPipeline(
        transformations=[splitter, Bridge(embed_batch_size=64)],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        vector_store=SimpleVectorStore(),
    )


def parse_and_chunk(files: list[Path], embedder: Embedder, data: Path) -> dict[str, Any]:
    """Return documents per second of parsing in the worker and chunking here, as a run does; median of three, warm."""
    settings = Settings(data_dir=data)
    contents = [(f.name, f.read_bytes()) for f in files]
    rates = []
    with open_ledger(None, data_dir=data) as ledger, ParserWorker(ParseLimits()) as parser:
        memories = Memories(
            ledger=ledger,
            generations=Generations(open_server(settings), ledger),
            embedder=embedder,
            settings=settings,
            clock=SystemClock(),
        )
        preparer = Preparer(
            memories=memories,
            parser=parser,
            given=Given(),
            policies=memories.policies,
            limits=settings.ingest,
            tenant="default",
            root="bench",
            gate=0.7,
        )
        chunks = 0
        for _ in range(4):
            began = time.perf_counter()
            parsed = ahead(contents, lambda content: parser.parse(*content))
            chunks = sum(len(preparer.chunks(document)) for _, document in parsed)
            rates.append(len(files) / (time.perf_counter() - began))
    warm = sorted(rates[1:])
    megabytes = sum(len(d) for _, d in contents) / 1e6
    return {"docs_per_second": round(warm[1], 1), "chunks": chunks, "megabytes": round(megabytes, 2)}


def main() -> None:
    """Run the comparison and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, nargs="?", default=CORPUS if CORPUS.exists() else SAMPLE)
    arguments.add_argument("--docs", type=int, default=250)
    arguments.add_argument("--embedder", choices=("local", "hashing"), default="local")
    arguments.add_argument("--out", type=Path, default=Path(".kb/bench/ingest.json"))
    arguments.add_argument("--only-chunk", action="store_true", help="only parse and chunk")
    options = arguments.parse_args()
    result: dict[str, Any] = {"documents": options.docs, "embedder": options.embedder}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        embedder = open_embedder(Settings()) if options.embedder == "local" else HashingEmbedder()
        embedder.passages(["warm up"])
        systems: dict[str, Callable[[Path, list[Path], Counted], dict[str, Any]]] = {
            "kb": lambda folder, files, e: of_kb(folder, files, e, root / "data"),
            "langchain": lambda _, files, e: of_langchain(files, e),
            "llamaindex": lambda _, files, e: of_llamaindex(files, e),
        }
        (root / "chunked").mkdir()
        files = sample(options.folder, options.docs, root / "chunked")
        result["parse_and_chunk"] = parse_and_chunk(files, embedder, root / "chunk")
        print("parse+chunk", result["parse_and_chunk"], flush=True)
        if options.only_chunk:
            return
        for name, system in systems.items():
            folder = root / name
            folder.mkdir()
            files = sample(options.folder, options.docs, folder)
            result[name] = system(folder, files, Counted(embedder))
            print(name, result[name], flush=True)
    ours = result["kb"]
    for other in ("langchain", "llamaindex"):
        result[f"{other}_over_kb"] = {
            step: round(result[other][step]["seconds"] / max(ours[step]["seconds"], 1e-3), 2) for step in STEPS
        }
    result["rerun_share"] = round(ours["nothing"]["seconds"] / ours["first"]["seconds"], 4)
    print(table(result))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


def table(result: dict[str, Any]) -> str:
    """Return the figures as a table."""
    lines = [f"{'':12}" + "".join(f"{step:>24}" for step in STEPS)]
    for name in ("kb", "langchain", "llamaindex"):
        cells = (f"{result[name][s]['seconds']:.2f} s, {result[name][s]['embedded']} embedded" for s in STEPS)
        lines.append(f"{name:12}" + "".join(f"{c:>24}" for c in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
