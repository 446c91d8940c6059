"""Checks what asking needs beyond the store: only what is configured, each with a way to mend it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from kb.doctor import Check, tried
from kb.errors import DependencyError, KbError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.ports import GradeCache
    from kb.chat.openai import OpenAIChat
    from kb.ports import Clock
    from kb.settings import Settings

FORMS = {  # of structured replies, the best first; what a weaker one means for grades
    "schema": "strict json_schema",
    "tool": "tool calls; json_schema is refused",
    "words": "instructions in the prompt; expect more grades that are unknown",
}


def examined(settings: Settings, clock: Clock) -> Iterator[Check]:
    """Yield a check for each part of the runtime that the settings name.

    The chat model is called once; a web search only where it costs nothing.
    """
    from crag_runtime.policy import applied  # noqa: PLC0415 - import what is used

    settings = applied(settings)
    if settings.chat.model is not None:
        yield tried("chat model", lambda: asyncio.run(_chat(settings)), "see KB_CHAT__*; is the model served there?")
    if settings.search.provider != "none":
        yield tried("web search", lambda: asyncio.run(_search(settings)), "see KB_SEARCH__*")
    if settings.ask.evaluator in ("auto", "reader", "cascade"):
        yield tried("reader", lambda: _reader(settings), "the cache folder must be writable, and 50 MB free")
    if settings.ask.grade_cache.strip() not in ("memory", "none"):
        yield tried("grade cache", lambda: _cache(settings, clock), "see KB_ASK__GRADE_CACHE")
    if settings.ask.checkpointer != "none":
        yield tried("checkpointer", lambda: asyncio.run(_checkpointer(settings)), "see KB_ASK__CHECKPOINT_URL")
    yield _spool(settings)


async def _chat(settings: Settings) -> str:
    """Ask for one structured reply, as grading does."""
    from crag_runtime.planning.rewriters import RewrittenQuery  # noqa: PLC0415 - import what is used
    from kb.chat import Message  # noqa: PLC0415
    from kb.chat.openai import OpenAIChat  # noqa: PLC0415

    chat: OpenAIChat = OpenAIChat.from_settings(settings)
    said = 'Rewrite this search query in other words: "opening hours". Reply with the query alone.'
    try:
        began = time.perf_counter()
        reply = await chat.structured([Message(role="user", content=said)], RewrittenQuery)
        seconds = time.perf_counter() - began
    finally:
        await chat.aclose()
    calls = f", {reply.spent.calls} calls to find out" if reply.spent.calls > 1 else ""
    return f"{chat.model}: {seconds:.1f} s, structured replies by {FORMS[chat.form]}{calls}"


async def _search(settings: Settings) -> str:
    """Search once where it costs nothing; a paid search is only opened."""
    from crag_runtime.searchers import open_search  # noqa: PLC0415 - import what is used
    from crag_runtime.threads import Threads  # noqa: PLC0415

    threads = Threads(1)
    try:
        search = open_search(settings, threads)
        assert search is not None
        if search.is_paid:
            return f"{search.name}: key present, not tried since a search is paid; approve is {settings.search.approve}"
        began = time.perf_counter()
        findings = await search.search("open source software", limit=1)
    finally:
        await threads.aclose()
    if not findings:
        raise KbError(f"{search.name} answers, but finds nothing", hint="are its engines enabled, and JSON allowed?")
    return f"{search.name}: {time.perf_counter() - began:.1f} s"


def _reader(settings: Settings) -> str:
    from crag_runtime.evaluators.reader_model import ReaderModel  # noqa: PLC0415 - loads a model

    began = time.perf_counter()
    model = ReaderModel.open(settings.cache_dir)
    loaded = time.perf_counter() - began
    model.read("How long are logs kept?", "Logs are kept for 90 days.")
    return f"loaded in {loaded:.1f} s from {settings.cache_dir}"


def _cache(settings: Settings, clock: Clock) -> str:
    """Put an entry and take it out again: a cache that is away says nothing by itself."""
    from crag_runtime.caches import open_cache  # noqa: PLC0415 - import what is used
    from crag_runtime.ports import GradeKey  # noqa: PLC0415

    cache: GradeCache | None = open_cache(settings, clock)
    assert cache is not None
    key = GradeKey(tenant="kb doctor", question="", memory_id="0", rev=0, evaluator="")
    began = time.perf_counter()
    try:
        cache.put({key: "{}"})
        is_back = cache.get([key]) == {key: "{}"}
        cache.purge(key.tenant, [key.memory_id])
    finally:
        cache.close()
    if not is_back:
        raise DependencyError(f"{_kind(settings.ask.grade_cache)}: what is put is not there after; grades are not kept")
    return f"{_kind(settings.ask.grade_cache)}: {(time.perf_counter() - began) * 1000:.0f} ms"


def _kind(cache: str) -> str:
    return cache.partition("://")[0].strip()  # never the URL: it may hold a password


async def _checkpointer(settings: Settings) -> str:
    from crag_runtime.checkpoints import open_checkpointer  # noqa: PLC0415 - a graph library of 2 s

    async with open_checkpointer(settings, needs_one=False):
        return f"{settings.ask.checkpointer}, written {_when(settings.ask.durability)}"


def _when(durability: str) -> str:
    return "after every step" if durability == "sync" else "when a question ends or waits"


def _spool(settings: Settings) -> Check:
    from crag_runtime.recording.spool import Spool  # noqa: PLC0415 - import what is used

    waiting = Spool(settings.data_dir).count()
    detail = f"answers that wait for the ledger: {waiting}" if waiting else "no answer waits"
    fix = "check the ledger; the next `kb ask` writes them" if waiting else ""
    return Check(name="write-back", ok=not waiting, detail=detail, fix=fix)
