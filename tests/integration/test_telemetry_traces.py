"""One connected trace for an ask, one for a sync, one for a job with its sweep, and links between cause and effect.

All is real but the chat model's and the search engine's words: graph, Milvus Lite, embedder, HTTP, OTLP receiver.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.result import Answer, AskRequest
from crag_runtime.wiring import build_runtime
from jobs.context import JobContext
from jobs.names import JobName
from jobs.registry import run
from kb import log, telemetry
from kb.history import AnswerId
from kb.memories import Note, open_memories
from kb.model import SourceClass, Standing
from kb.settings import Settings
from kb.telemetry import KEPT_AS, Span, span
from tests.chatting import Teller
from tests.disputing import keep
from tests.disputing import said as verified
from tests.fakes.search_server import SearchServer
from tests.stores import FakeClock, sync, write
from tests.tracing import collecting, lines, logged, named, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories
    from tests.fakes.chat_server import ChatServer
    from tests.fakes.collector import Collector

ROOT = Path(__file__).parents[2]
QUESTION = "How many tons does the Anping bridge carry?"
BRIDGE = "The Anping bridge carries 40 tons on a dry day."
PAINT = "The Anping bridge is painted green every spring."
CHAT_KEY = "sk-never-to-be-seen-anywhere"

_tenants = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Memories]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("traces"), cache_dir=model_cache, index_idle_seconds=5)
    with open_memories(settings, FakeClock()) as memories:
        yield memories


@pytest.fixture
def tenant() -> str:
    return f"traced{next(_tenants)}"


@pytest.fixture
def web() -> Iterator[SearchServer]:
    with SearchServer() as server:
        server.results = [{"url": "https://bridges.example/anping", "title": "Anping", "content": BRIDGE}]
        yield server


def note(memories: Memories, tenant: str, text: str, **given: Any) -> str:
    return str(memories.add_note(Note(text=text, tenant=tenant, **given))[0].id)


def asked(memories: Memories, folder: Path, chat: ChatServer, web: SearchServer, tenant: str) -> Answer:
    """Ask a question that the store does not cover, by the real wiring."""
    chat.respond = Teller(grades={"tons": 0.9})
    settings = Settings(
        data_dir=folder,
        chat={"model": chat.model, "base_url": chat.url, "api_key": CHAT_KEY},
        ask={"evaluator": "llm", "grade_cache": "none"},
        search={"provider": "searxng", "url": web.base},
    )

    async def story() -> Answer:
        async with build_runtime(settings, memories) as runtime:
            answer = await runtime.ask(AskRequest(question=QUESTION, tenant=tenant, thread="t1"))
            assert isinstance(answer, Answer)
            return answer

    return asyncio.run(story())


def job_context(memories: Memories, tenant: str) -> JobContext:
    @contextmanager
    def opened() -> Iterator[Memories]:
        yield memories

    return JobContext(settings=Settings(), open_memories=opened, clock=memories.clock, tenant=tenant)


def test_an_ask_is_one_trace_from_the_caller_to_the_write_back(
    shared: Memories, chat_server: ChatServer, web: SearchServer, tenant: str, tmp_path: Path
) -> None:
    note(shared, tenant, PAINT)
    caller = "0af7651916cd43dd8448eb211c80319c"
    with (
        collecting() as collector,
        telemetry.continued({"traceparent": f"00-{caller}-b7ad6b7169203331-01"}),
        span(Span.HTTP),
    ):
        answer = asked(shared, tmp_path, chat_server, web, tenant)
    assert {s.trace_id.hex() for s in collector.spans} == {caller}
    (http,) = named(collector, Span.HTTP)
    http.ClearField("parent_span_id")  # it is the caller's
    found = set(lines(collector, bytes.fromhex(caller)))
    top = (Span.HTTP, Span.ASK, Span.NODE)
    for inside in (
        (Span.CHAT,),
        (Span.EMBED,),
        (Span.SEARCH, Span.INDEX_SEARCH),
        (Span.SEARCH, Span.LEDGER_READ),
        (Span.WEB_SEARCH,),
        (Span.WRITE_BACK, Span.LEDGER_WRITE),
        (Span.WRITE_BACK, Span.INDEX_DRAIN, Span.INDEX_UPSERT),
    ):
        assert (*top, *inside) in found, sorted(found)
    (ask,) = named(collector, Span.ASK)
    told = said(ask)
    assert told["kb.answer.id"] == answer.answer_id
    assert (told["kb.outcome"], told["kb.verdict"], told["kb.searches"]) == ("answered", "correct", 1)
    assert (told["gen_ai.operation.name"], told["gen_ai.conversation.id"]) == ("invoke_workflow", "t1")
    _conventions_are_kept(collector, chat_server.model)
    _nothing_private_left(collector)


def _conventions_are_kept(collector: Collector, model: str) -> None:
    chat = said(named(collector, Span.CHAT)[0])
    assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", model)
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert chat["gen_ai.response.model"]
    embed = said(named(collector, Span.EMBED)[0])
    assert embed["gen_ai.operation.name"] == "embeddings"
    search = said(named(collector, Span.INDEX_SEARCH)[0])
    assert (search["db.system.name"], search["db.operation.name"]) == ("milvus", "search")
    assert search["db.collection.name"].startswith("kb_")
    upsert = said(named(collector, Span.INDEX_UPSERT)[0])
    assert upsert["db.operation.batch.size"] > 0
    retrieval = said(named(collector, Span.SEARCH)[0])
    assert retrieval["gen_ai.operation.name"] == "retrieval"
    assert retrieval["gen_ai.retrieval.top_k"] >= 5
    grades = [e for s in named(collector, Span.NODE) for e in s.events]
    assert {e.name for e in grades} == {"gen_ai.evaluation.result"}
    labels = {said(e)["gen_ai.evaluation.score.label"] for e in grades}
    assert labels == {"relevant", "irrelevant"}
    assert {said(s)["kb.node"] for s in named(collector, Span.NODE)} >= {
        "plan",
        "retrieve",
        "grade",
        "web",
        "write_back",
    }


def _nothing_private_left(collector: Collector) -> None:
    everything = " ".join(map(str, collector.spans))
    for private in ("Anping", "40 tons", "green", CHAT_KEY, "bridges.example"):
        assert private not in everything, private


def test_content_is_there_once_it_is_asked_for_and_the_key_never(
    shared: Memories, chat_server: ChatServer, web: SearchServer, tenant: str, tmp_path: Path
) -> None:
    note(shared, tenant, PAINT)
    with collecting(capture_content=True) as collector:
        asked(shared, tmp_path, chat_server, web, tenant)
    ask, search, chat = (said(named(collector, s)[0]) for s in (Span.ASK, Span.SEARCH, Span.CHAT))
    assert json.loads(ask["gen_ai.input.messages"])[0]["parts"][0]["content"] == QUESTION
    assert "40 tons" in ask["gen_ai.output.messages"]
    assert PAINT in search["gen_ai.retrieval.documents"]
    assert "gen_ai.input.messages" in chat
    assert CHAT_KEY not in " ".join(map(str, collector.spans))


def test_no_line_of_the_log_holds_a_question_or_a_passage_or_a_key_and_each_leads_to_its_trace(
    shared: Memories, chat_server: ChatServer, web: SearchServer, tenant: str, tmp_path: Path
) -> None:
    note(shared, tenant, PAINT)
    with logged("debug") as written, collecting() as collector, log.request("r1"), span(Span.HTTP):
        asked(shared, tmp_path, chat_server, web, tenant)
        run(JobName.PROMOTE, job_context(shared, tenant))
        log.get_logger().info("told")
    for private in ("Anping", "40 tons", "green", CHAT_KEY):
        assert private not in written.getvalue()
    told = [json.loads(line) for line in written.getvalue().splitlines()]
    (http,) = named(collector, Span.HTTP)
    assert told
    assert {(line["request_id"], line["trace_id"]) for line in told} == {("r1", http.trace_id.hex())}


def test_a_sync_is_one_trace(shared: Memories, folder: Path) -> None:
    write(folder, a_md=f"# A\n\n{BRIDGE}\n", b_md=f"# B\n\n{PAINT}\n")
    with collecting() as collector:
        sync(shared, folder)
    (ingest,) = named(collector, Span.INGEST_RUN)
    found = set(lines(collector, ingest.trace_id))
    assert len({s.trace_id for s in collector.spans}) == 1
    for inside in (
        (Span.INGEST_WALK,),
        (Span.INGEST_PARSE,),
        (Span.INGEST_EMBED, Span.EMBED),
        (Span.INGEST_SWITCH, Span.LEDGER_WRITE),
        (Span.INDEX_UPSERT,),
    ):
        assert any(line[0] == Span.INGEST_RUN and line[-len(inside) :] == inside for line in found), (inside, found)


def test_a_job_is_one_trace_and_its_sweep_and_the_write_back_that_caused_it_lead_to_each_other(
    shared: Memories, chat_server: ChatServer, web: SearchServer, tenant: str, tmp_path: Path
) -> None:
    note(shared, tenant, PAINT)
    with collecting() as before:
        answer = asked(shared, tmp_path, chat_server, web, tenant)
    (back,) = named(before, Span.WRITE_BACK)
    with shared.ledger.read() as tx:
        record = tx.answers.get(AnswerId(answer.answer_id), tenant)
    assert record is not None
    assert str(record.report[KEPT_AS]).split("-")[1:3] == [back.trace_id.hex(), back.span_id.hex()]
    (finding,) = [m for m in shared.page(tenant) if m.source_class is SourceClass.WEB]
    witnesses = ("On a dry day the Anping bridge carries 40 tons.", "The Anping bridge carries 40 tons on dry days.")
    keep(shared, *(verified(f"{tenant}-{n}", text, verified=True, tenant=tenant) for n, text in enumerate(witnesses)))
    with collecting() as collector:
        tally = run(JobName.PROMOTE, job_context(shared, tenant))
    assert not tally.troubles
    (job,) = named(collector, Span.JOB)
    (sweep,) = named(collector, Span.SWEEP)
    assert sweep.trace_id == job.trace_id
    assert (Span.JOB, Span.SWEEP, Span.SWEEP_BATCH, Span.LEDGER_WRITE) in lines(collector, job.trace_id)
    assert finding.standing is Standing.QUARANTINED
    assert [(link.trace_id, link.span_id) for link in sweep.links] == [(back.trace_id, back.span_id)]
    (left,) = named(collector, Span.FOLLOWED)
    assert (left.trace_id, left.parent_span_id) == (back.trace_id, back.span_id)
    assert [(link.trace_id, link.span_id) for link in left.links] == [(sweep.trace_id, sweep.span_id)]
    assert said(sweep)["kb.job"] == "promote"


def test_a_command_is_the_root_of_its_trace_or_a_part_of_its_callers(tmp_path: Path, model_cache: Path) -> None:
    caller = "4bf92f3577b34da6a3ce929d0e0e4736"
    with collecting() as collector:
        environment = {
            "PATH": "/usr/bin:/bin",
            "KB_DATA_DIR": str(tmp_path / "data"),
            "KB_CACHE_DIR": str(model_cache),
            "KB_TELEMETRY_ENDPOINT": collector.endpoint,
            "TRACEPARENT": f"00-{caller}-00f067aa0ba902b7-01",
        }
        command = [sys.executable, "-c", "from kb_cli.main import main; main()", "memory", "list", "--json"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True
        )
    assert done.stderr == ""
    (root,) = named(collector, Span.COMMAND)
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (caller, "00f067aa0ba902b7")
    assert said(root)["kb.command"] == "memory"
    assert {s.trace_id.hex() for s in collector.spans} == {caller}
