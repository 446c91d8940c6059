"""Secrets that leave traces everywhere, and a search for them in every byte."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from crag_runtime.caches.sqlite import FILE as GRADES
from crag_runtime.caches.sqlite import SqliteCache
from crag_runtime.checkpoints import open_checkpointer
from crag_runtime.ports import GradeKey
from crag_runtime.recording.feedback import give_feedback
from crag_runtime.recording.spool import Spool
from crag_runtime.result import AskRequest, Waiting
from governance.actor import Actor
from governance.policy import policy_of
from governance.reach import Wanted
from governance.review import decide
from governance.selection import Selection
from jobs.erasure import Erased
from jobs.erasure import forget as forgotten
from kb.index.milvus import open_server
from kb.memories import Note
from kb.model import Failure, MemoryId, SourceClass
from kb.settings import Settings
from kb.sweeps import Contradiction, SweepJob
from tests.asking import ask, open_runtime
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.stores import T0, FakeClock, ids, open_store, sync, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.result import Answer
    from kb.memories import Memories

ENGLISH = (
    "The Halcyon vault opens with the phrase marigold-otter-seven every Tuesday. "
    "Its spare key hangs behind the copper astrolabe in room Quixtar."
)
CHINESE = "青鸾库房的备用口令是紫檀渡口三百二十七号。库房管理员把备用钥匙藏在琉璃灯座下面。"
HARMLESS = "The bridge carries forty tons on a dry day and opens at noon for tall ships."
WORDS = ("marigold-otter-seven", "astrolabe", "Quixtar", "Halcyon", "青鸾库房", "紫檀渡口", "琉璃灯座")
BY = Actor(name="ada")
ABOUT = {
    "Halcyon": ("phrase", "key"),
    "青鸾": ("青鸾",),
    "bridge": ("bridge",),
}  # questions by texts


def graded(asked: Asked, evidence: Evidence) -> float:
    """Return the relevance of a passage: high for questions about it."""
    words = next((own for said, own in ABOUT.items() if said in evidence.text), ())
    return 0.9 if any(word in asked.question for word in words) else 0.05


def spellings(word: str) -> dict[str, bytes]:
    """Return the bytes that a word may be kept as."""
    escaped = json.dumps(word)[1:-1]
    return {
        "utf-8": word.encode(),
        "utf-16-le": word.encode("utf-16-le"),
        "utf-16-be": word.encode("utf-16-be"),
        "escaped": escaped.encode(),
        "ESCAPED": escaped.upper().replace("\\U", "\\u").encode(),
    }


@dataclass(kw_only=True)
class Vault:
    """A store that holds secrets, and everything that has seen them."""

    memories: Memories
    settings: Settings
    folder: Path
    url: str = ""  # of PostgreSQL, if that is the ledger

    @property
    def secrets(self) -> list[str]:
        return [id_ for id_, text in ids(self.memories).items() if "Halcyon" in text or "青鸾" in text]

    def forget(self, *named: str, source: str = "", **wanted: Any) -> Erased:
        """Erase for good, by ids or by source."""
        return forgotten(
            self.memories,
            self.settings,
            Wanted(selection=Selection(memories=named, source=source), **wanted),
            policy=policy_of(self.settings, "default"),
            actor=BY,
            consent=lambda _reach: None,
        )

    def found(self, needles: Iterable[bytes]) -> list[str]:
        """Return where any of the needles is: files of data and cache, and rows of PostgreSQL."""
        wanted = list(needles)
        places = [*files(self.settings.data_dir), *files(self.settings.cache_dir)]
        held = [(str(path), path.read_bytes()) for path in places]
        if self.url:
            held += rows(self.url)
        return sorted({f"{n!r} in {where}" for where, data in held for n in wanted if n in data})


def needles() -> list[bytes]:
    """Return every spelling of every secret word."""
    return [spelled for word in WORDS for spelled in spellings(word).values()]


def vectors(memories: Memories, named: Iterable[str]) -> list[bytes]:
    """Return the vectors of memories as they are stored."""
    with memories.ledger.read() as tx:
        found = tx.memories.get(map(MemoryId, named))
        model = memories.embedder.identity.model
        kept = tx.embeddings.get(model, [m.embed_hash for m in found.values()])
    return [vector.astype("<f4").tobytes() for vector in kept.values()]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def rows(url: str) -> list[tuple[str, bytes]]:
    """Return every row of every table as text, and the bytes that are in it."""
    held = []
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table))
            for (text,) in connection.execute(query):
                held.append((f"table {table}", text.encode() + b"\n" + _unhexed(text)))
    return held


def _unhexed(text: str) -> bytes:
    parts = text.split("\\\\x") + text.split("\\x")
    found = b""
    for part in parts[1:]:
        digits = "".join(c for c in part.split(",")[0] if c in "0123456789abcdef")
        found += bytes.fromhex(digits[: len(digits) // 2 * 2])
    return found


@contextmanager
def open_vault(home: Path, *, ledger_url: str = "", checkpoint_url: str = "", clock: Any = None) -> Iterator[Vault]:
    """Open a store on a Milvus Lite of its own, with durable checkpoints and a durable grade cache."""
    ask_settings: dict[str, Any] = {"grade_cache": "sqlite", "checkpointer": "postgres" if checkpoint_url else "sqlite"}
    if checkpoint_url:
        ask_settings["checkpoint_url"] = checkpoint_url
    given: dict[str, Any] = {"ledger_url": ledger_url} if ledger_url else {}
    settings = Settings(
        data_dir=home / "data", cache_dir=home / "cache", index_idle_seconds=20, ask=ask_settings, **given
    )
    server = open_server(settings)
    try:
        with open_store(
            settings.data_dir, server=server, embedder=HashingEmbedder(), clock=clock or FakeClock(), **given
        ) as memories:
            yield Vault(memories=memories, settings=settings, folder=home / "docs", url=ledger_url)
    finally:
        server.close()
        from kb.index.lite import lite_server

        lite_server(settings).stop()


def fill(vault: Vault) -> None:
    """Bring secrets in, and let everything see them that keeps anything."""
    write(
        vault.folder,
        vault_md=f"# Vault\n\n{ENGLISH}\n",
        kufang_md=f"# 库房\n\n{CHINESE}\n",
        bridge_md=f"# Bridge\n\n{HARMLESS}\n",
    )
    sync(vault.memories, vault.folder, settings=vault.settings)
    asyncio.run(_asked(vault))
    _decided(vault)
    _remarked(vault)


async def _asked(vault: Vault) -> None:
    """Ask for the secrets: an answer in each language, a follow-up, and a question that waits for a person."""
    evaluator = FakeEvaluator(graded)
    async with (
        open_checkpointer(vault.settings, needs_one=True) as saver,
        open_runtime(
            vault.memories,
            vault.settings.data_dir,
            evaluator=evaluator,
            search=FakeSearch([]),
            checkpointer=saver,
            durability="sync",
            is_lasting=True,
        ) as runtime,
    ):
        first = await ask(runtime, "With which phrase does the Halcyon vault open?", thread="t")
        assert first.citations
        assert (await ask(runtime, "青鸾库房的备用口令是什么？", thread="z")).citations
        assert (await ask(runtime, "How many tons does the bridge carry?", thread="b")).citations
        await ask(runtime, "Where does its spare key hang?", thread="t")
        question = "When does the Halcyon vault key hang there and what colour is the tower painted?"
        waiting = await runtime.ask(AskRequest(question=question, tenant="default", thread="w"))
        assert isinstance(waiting, Waiting)
        _fed_back(vault, first)


def _fed_back(vault: Vault, answer: Answer) -> None:
    assert give_feedback(vault.memories, answer.answer_id, "default", is_good=True, by="ada").events


def _decided(vault: Vault) -> None:
    """Let people decide on the secrets, in words that quote them."""
    policy, one = policy_of(vault.settings, "default"), [MemoryId(vault.secrets[0])]
    for job in (SweepJob.VERIFY, SweepJob.PIN, SweepJob.ANNOTATE):
        decide(vault.memories, one, job, policy=policy, actor=BY, reason=f"they say: {ENGLISH}")


def _remarked(vault: Vault) -> None:
    """Leave traces that other parts of the product, and other processes, would leave."""
    memories, secrets = vault.memories, vault.secrets
    one, other = sorted([secrets[0], next(id_ for id_ in ids(memories) if id_ not in secrets)])
    with memories.ledger.write() as tx:
        tx.contradictions.add(
            [
                Contradiction(
                    tenant="default", one=one, other=other, kind="number", one_value="Quixtar", other_value="紫檀渡口"
                )
            ]
        )
        tx.failures.record(
            Failure(
                tenant="default",
                root="docs",
                source="file://docs/x.md",
                raw="",
                pipeline="",
                code="corrupt",
                message=ENGLISH,
            )
        )
        tx.runs.start("r1", kind="ingest", tenant="default", root="docs", at=T0)
        tx.runs.finish("r1", _done(), T0, report={"failures": [{"message": CHINESE}], "documents": {"failed": 1}})
    Spool(vault.settings.data_dir).put("a1", {"text": ENGLISH, "citations": [{"id": secrets[0], "quote": CHINESE}]})
    Spool(vault.settings.data_dir).put("a2", {"text": HARMLESS, "citations": []})
    cache = SqliteCache(vault.settings.data_dir / GRADES, ttl_seconds=1e6, clock=memories.clock)
    for id_ in secrets:
        key = GradeKey(tenant="default", question="q", memory_id=id_, rev=1, evaluator="llm")
        cache.put({key: json.dumps({"reason": f"it says {ENGLISH} {CHINESE}"})})
    cache.close()


def _done() -> Any:
    from kb.ledger.runs import RunStatus

    return RunStatus.DONE


def add_note(memories: Memories, text: str, *parents: str) -> str:
    """Store a person's note and return its id."""
    note = Note(text=text, tenant="default", by=SourceClass.PERSON, derived_from=parents)
    return memories.add_note(note)[0].id
