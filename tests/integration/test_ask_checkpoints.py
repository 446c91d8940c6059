"""What is kept of an unfinished question: plain values, no texts of memories, no longer than it is of use."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys

import aiosqlite
import ormsgpack
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Interrupt, Overwrite, Send

from crag_runtime.checkpoints import FILE, Kept, open_checkpointer, strict
from crag_runtime.evidence import Outcome
from crag_runtime.result import Answer, AskRequest, Waiting
from kb.errors import ConfigError, IntegrityError, KbError, LedgerUnavailable
from kb.settings import Settings
from tests.asking import ask, open_runtime, path_of
from tests.durable import COLOUR, FOUND, NOON, OPENS, Place, answers, graded, kept, remember, until
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.generator import FakeGenerator
from tests.fakes.search import FakeSearch

PLAIN = (dict, list, str, int, float, bool, type(None))
HIDDEN = "Zanzibar"  # stands in a memory that is graded and used, outside of what is quoted of it
LONG = f"{NOON} Nobody may photograph the {HIDDEN} vault beneath its northern pier."


class Hoarder(AsyncSqliteSaver):
    """Drops nothing, for a test to see all that was ever kept."""

    async def adelete_thread(self, thread_id: str) -> None:
        """Stay."""


def not_plain(value, where="state"):
    """Return where something else than plain JSON stands; the graph library's own wrappers are looked into."""
    if isinstance(value, Send):
        value = [value.node, value.arg]
    elif isinstance(value, (Interrupt, Overwrite)):
        value = value.value
    if type(value) not in PLAIN:
        return [f"{where}: {type(value).__name__}"]
    if isinstance(value, dict):
        return [w for k, v in value.items() for w in not_plain(k, f"{where}.key") + not_plain(v, f"{where}.{k}")]
    return [w for n, v in enumerate(value) for w in not_plain(v, f"{where}[{n}]")] if isinstance(value, list) else []


def test_all_that_is_kept_is_plain_and_holds_no_memory(store, tmp_path):
    file = tmp_path / "all.sqlite"

    async def story():
        search = FakeSearch([FOUND])
        async with aiosqlite.connect(file) as connection:
            saver = Hoarder(connection, serde=strict())
            await saver.setup()
            parts = {"search": search, "evaluator": FakeEvaluator(graded)}
            saving = {"checkpointer": saver, "durability": "sync", "is_lasting": True}
            async with open_runtime(store, tmp_path, **parts, **saving) as runtime:
                question = f"{OPENS[:-1]} and what colour is the tower painted?"
                waiting = await runtime.ask(AskRequest(question=question, tenant="default", thread="t"))
                assert isinstance(waiting, Waiting)
                answer = await runtime.resume("t", "default", decision="approve")
                assert answer.outcome is Outcome.ANSWERED
                assert {c.url for c in answer.citations} == {"", FOUND.url}
            kept_ones = [c async for c in saver.alist(None)]
            assert len(kept_ones) > 12
            for one in kept_ones:
                for channel, value in one.checkpoint["channel_values"].items():
                    if not channel.startswith("branch:"):
                        assert not_plain(value, channel) == []
                for _task, channel, value in one.pending_writes or ():
                    assert not_plain(value, channel) == []
            return b"".join(path.read_bytes() for path in tmp_path.glob("all.sqlite*"))

    remember(store, LONG)
    everything = asyncio.run(story())
    assert FOUND.text.encode() in everything  # findings travel whole
    assert NOON.encode() in everything  # what the draft quotes
    assert HIDDEN.encode() not in everything


def test_nothing_stays_of_a_question_that_has_ended(store, tmp_path, any_place):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(any_place, store, tmp_path, search=search, durability="sync") as runtime:
            saver = runtime._graph.checkpointer
            config = {"configurable": {"thread_id": runtime_key(any_place)}}
            await runtime.ask(AskRequest(question=COLOUR, tenant="default", thread=any_place.thread))
            assert await saver.aget_tuple(config) is not None
            await runtime.resume(any_place.thread, "default", decision="approve")
            assert await saver.aget_tuple(config) is None

    asyncio.run(story())


def runtime_key(place):
    from crag_runtime.runtime import _thread_key
    from kb.model import Scope

    return _thread_key("default", Scope(), place.thread)


def test_a_process_holds_nothing_of_two_hundred_questions(store, tmp_path):
    async def story():
        saver = InMemorySaver(serde=strict())
        evaluator = FakeEvaluator(graded)
        async with open_runtime(
            store, tmp_path, search=FakeSearch([FOUND]), evaluator=evaluator, checkpointer=saver
        ) as runtime:
            for n in range(40):
                thread = f"t{n}"
                assert isinstance(await ask(runtime, OPENS, thread=thread if n % 2 else ""), Answer)
                await runtime.ask(AskRequest(question=COLOUR, tenant="default", thread=thread))
                await runtime.resume(thread, "default", decision="decline")
                evaluator.error = RuntimeError("a defect")
                with pytest.raises(RuntimeError, match="a defect"):
                    await ask(runtime, OPENS, thread=thread)
                evaluator.error, evaluator.hangs = None, True
                cut = asyncio.create_task(ask(runtime, OPENS, thread=thread))
                await evaluator.entered.wait()
                cut.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cut
                evaluator.hangs = False
                evaluator.entered.clear()
                events = runtime.stream(AskRequest(question=OPENS, tenant="default"))
                await anext(events)
                await events.aclose()  # a reader who leaves
            assert (len(runtime._runs), len(runtime._turns._locks)) == (0, 0)
        return len(saver.storage), len(saver.writes), len(saver.blobs)

    remember(store, NOON)
    assert asyncio.run(story()) == (0, 0, 0)


def test_the_longest_waiting_gives_way_when_too_many_wait_in_a_process():
    class Dropped(InMemorySaver):
        """Says what it drops."""

        def __init__(self):
            super().__init__()
            self.dropped = []

        async def adelete_thread(self, thread_id):
            self.dropped.append(thread_id)

    async def story():
        saver = Dropped()
        few = Kept(saver, is_lasting=False, most=2)
        for key in "abacbd":
            await few.left(key, is_waiting=True, is_broken=False)
        assert saver.dropped == ["b", "a", "c"]
        await few.left("b", is_waiting=False, is_broken=True)
        await few.left("e", is_waiting=True, is_broken=False)
        assert saver.dropped == ["b", "a", "c", "b"]

    asyncio.run(story())


EVIL = "evil_module_of_a_checkpoint"


def foreign(kind):
    """Return a value, as a checkpoint holds it, that names a type of a module which must not be imported."""
    named, by_name = (EVIL, "Evil"), {"x": 1}
    parts = [(*named, "x"), (*named, ("x",)), (*named, by_name), (*named, "x", "make"), (*named, by_name, "construct")]
    parts.append((*named, by_name, "model_construct"))
    return ormsgpack.packb(ormsgpack.Ext(kind, ormsgpack.packb(parts[kind])))


@pytest.fixture
def evil(tmp_path, monkeypatch):
    (tmp_path / f"{EVIL}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\nEvil = dict\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "imported"
    sys.modules.pop(EVIL, None)


@pytest.mark.parametrize("kind", range(6))
def test_a_foreign_type_is_not_imported(evil, kind):
    strict().loads_typed(("msgpack", foreign(kind)))
    assert not evil.exists()
    assert EVIL not in sys.modules


@pytest.mark.parametrize("form", ["json", "pickle", "yaml", ""])
def test_a_form_that_is_never_written_is_not_read(evil, form):
    data = b'{"lc": 2, "type": "constructor", "id": ["evil_module_of_a_checkpoint", "Evil"]}'
    with pytest.raises(IntegrityError, match="never writes"):
        strict().loads_typed((form, data))
    assert not evil.exists()


@pytest.mark.parametrize("form", ["msgpack", "pickle"])
def test_a_tampered_question_imports_nothing_and_pays_nothing(store, tmp_path, evil, form):
    async def story():
        place, search = Place(kind="sqlite"), FakeSearch([FOUND])
        async with kept(place, store, tmp_path, search=search) as runtime:
            await runtime.ask(AskRequest(question=COLOUR, tenant="default", thread="t"))
        with sqlite3.connect(tmp_path / FILE) as connection:
            connection.execute("UPDATE writes SET type = ?, value = ?", (form, foreign(0)))
            connection.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (form, foreign(0)))
        connection.close()
        async with kept(place, store, tmp_path, search=search) as runtime:
            with pytest.raises((KbError, TypeError, AttributeError, KeyError)):
                await runtime.resume("t", "default", decision="approve")
        assert search.calls == 0

    asyncio.run(story())
    assert not evil.exists()


def test_the_file_is_the_owners_alone(tmp_path):
    async def story():
        async with open_checkpointer(Place(kind="sqlite").settings(tmp_path), needs_one=False):
            return {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob(f"{FILE}*")}

    assert asyncio.run(story()) == {0o600}


def test_many_may_open_a_new_place_at_once(tmp_path, postgres, place):
    """Creating the tables excludes; who comes second finds them."""
    url = postgres.url(postgres.create()) if place.url else ""
    settings = Place(kind=place.kind, url=url).settings(tmp_path)

    async def opened():
        async with open_checkpointer(settings, needs_one=False) as saver:
            return await saver.aget_tuple({"configurable": {"thread_id": "none"}})

    async def story():
        return await asyncio.gather(*(opened() for _ in range(6)))

    assert asyncio.run(story()) == [None] * 6


def test_a_question_waits_for_nobody_when_nothing_could(tmp_path):
    async def story(needs_one):
        async with open_checkpointer(Settings(data_dir=tmp_path), needs_one=needs_one) as saver:
            return type(saver).__name__

    assert [asyncio.run(story(needs_one)) for needs_one in (True, False)] == ["InMemorySaver", "NoneType"]


def test_a_place_that_cannot_be_reached_is_said(tmp_path):
    async def opened(**ask):
        async with open_checkpointer(Settings(data_dir=tmp_path, ask=ask), needs_one=False):
            pass

    with pytest.raises(ConfigError, match="checkpoint_url"):
        asyncio.run(opened(checkpointer="postgres"))
    (tmp_path / FILE).mkdir()
    with pytest.raises(LedgerUnavailable, match="cannot be opened"):
        asyncio.run(opened(checkpointer="sqlite"))


def test_an_answer_does_not_wait_for_a_place_that_broke(store, tmp_path):
    """With a checkpoint at the end only, the answer is there before anything could be kept of it."""

    async def story():
        generator = FakeGenerator()
        generator.hold.clear()
        async with kept(Place(kind="sqlite"), store, tmp_path, generator=generator) as runtime:
            asking = asyncio.create_task(ask(runtime, OPENS, thread="t"))
            await until(lambda: generator.calls)
            with sqlite3.connect(tmp_path / FILE) as connection:
                connection.execute("DROP TABLE checkpoints")
            connection.close()
            generator.hold.set()
            answer = await asking
        assert (answer.outcome, answers(store), path_of(answer)[-1]) == (Outcome.ANSWERED, 1, "write_back")

    remember(store, NOON)
    asyncio.run(story())


def test_a_question_that_cannot_be_kept_does_not_wait_in_vain(store, tmp_path):
    async def story():
        search = FakeSearch([FOUND])
        async with kept(Place(kind="sqlite"), store, tmp_path, search=search) as runtime:
            with sqlite3.connect(tmp_path / FILE) as connection:
                connection.execute("DROP TABLE writes")
            connection.close()
            with pytest.raises(LedgerUnavailable, match="checkpoints"):
                await ask(runtime, COLOUR, thread="t")
        assert search.calls == 0

    asyncio.run(story())


def test_a_database_that_came_back_is_used_again(store, tmp_path, postgres):
    name = postgres.create()

    async def story():
        search = FakeSearch([FOUND])
        place = Place(kind="postgres", url=postgres.url(name))
        async with kept(place, store, tmp_path, search=search) as runtime:
            await runtime.ask(AskRequest(question=COLOUR, tenant="default", thread="t"))
            with postgres.admin() as connection:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            return await runtime.resume("t", "default", decision="approve")

    assert asyncio.run(story()).outcome is Outcome.ANSWERED
