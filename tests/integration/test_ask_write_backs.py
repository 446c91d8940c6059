"""Writing back never costs an answer, and is made up for exactly once, whoever gets to it first."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from crag_runtime.codec import plain, restored
from crag_runtime.evidence import Outcome
from crag_runtime.recording.learned import Learned
from crag_runtime.recording.recorder import CAUGHT_UP, Recorder
from crag_runtime.recording.spool import ASIDE, FOLDER, Spool
from crag_runtime.store import Store
from kb.errors import EmbedderChanged, IntegrityError, LedgerUnavailable, StaleRevision
from kb.search import SearchRequest
from tests.asking import ask, open_runtime
from tests.durable import COLOUR, FOUND, NOON, OPENS, answers, graded, remember
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch


class Refused(Recorder):
    """A recorder whose writes fail as told."""

    error: Exception | None = LedgerUnavailable("told to be away")
    learned: Learned | None = None

    def _write(self, learned):
        self.learned = learned
        if self.error is not None:
            raise self.error
        return super()._write(learned)


@pytest.fixture
def recorder(store, tmp_path):
    return Refused(Store(store), Spool(tmp_path), "fake")


def spooled(tmp_path, pattern="*.json"):
    return sorted((tmp_path / FOLDER).glob(pattern))


def asked(memories, tmp_path, question=OPENS, **parts):
    async def story():
        async with open_runtime(memories, tmp_path, **{"evaluator": FakeEvaluator(graded), **parts}) as runtime:
            return await ask(runtime, question, approve="always")

    return asyncio.run(story())


@pytest.mark.parametrize("error", [LedgerUnavailable("away"), IntegrityError("broken"), StaleRevision("changed")])
def test_an_answer_is_given_out_although_it_cannot_be_written_back(store, tmp_path, recorder, error):
    remember(store, NOON)
    recorder.error = error
    answer = asked(store, tmp_path, recorder=recorder)
    assert (answer.outcome, answers(store)) == (Outcome.ANSWERED, 0)
    assert "noon" in answer.text
    assert [d for d in answer.degraded if d.startswith("write_back:") and "kept for later" in d]
    assert [path.stem for path in spooled(tmp_path)] == [answer.answer_id]
    assert {path.stat().st_mode & 0o077 for path in spooled(tmp_path)} == {0}  # questions are nobody else's affair


def test_the_next_answer_writes_what_the_last_could_not(store, tmp_path, recorder):
    remember(store, NOON)
    search = FakeSearch([FOUND])
    first = asked(store, tmp_path, COLOUR, recorder=recorder, search=search)
    assert first.citations[0].url == FOUND.url
    recorder.error = None
    second = asked(store, tmp_path, recorder=recorder)
    assert (second.degraded, answers(store), spooled(tmp_path)) == ((), 2, [])
    with store.ledger.read() as tx:
        record = tx.answers.get(first.answer_id, "default")
        assert (record.text, len(record.citations)) == (first.text, 1)
        assert tx.memories.get([record.citations[0].memory_id])  # the finding, with its lineage, in quarantine
        assert len(tx.evaluations.of_answer(first.answer_id)) == 2
    hits = store.search(SearchRequest(question="tower painted green", tenant="default", explain=False)).hits
    assert all(h.memory.text != FOUND.text for h in hits)


def test_a_write_back_survives_the_way_through_a_file(store, tmp_path, recorder):
    remember(store, NOON, "The bridge opens at dawn for tall ships.")
    asked(store, tmp_path, COLOUR, recorder=recorder, search=FakeSearch([FOUND]))
    assert restored(Learned, json.loads(json.dumps(plain(recorder.learned)))) == recorder.learned
    assert recorder.learned.findings
    assert recorder.learned.evaluations


def test_a_write_back_whose_file_outlived_it_is_written_once(store, tmp_path, recorder):
    """As after a crash between the ledger's commit and the file's end."""
    remember(store, NOON)
    asked(store, tmp_path, COLOUR, recorder=recorder, search=FakeSearch([FOUND]))
    shutil.copytree(tmp_path / FOLDER, tmp_path / "copy")
    recorder.error = None
    assert recorder.catch_up() == 0
    with store.ledger.read() as tx:
        before = tx.utility.get([m.id for m in store.page("default", limit=100)])
    store.clock.advance(60_000)
    shutil.copytree(tmp_path / "copy", tmp_path / FOLDER, dirs_exist_ok=True)
    assert recorder.catch_up() == 0
    with store.ledger.read() as tx:
        assert tx.utility.get([m.id for m in store.page("default", limit=100)]) == before
    assert (answers(store), spooled(tmp_path), spooled(tmp_path, f"*{ASIDE}")) == (1, [], [])


BROKEN = {
    "cut": '{"answer_id": "x',
    "empty": "",
    "list": "[]",
    "null": "null",
    "other": '{"answer_id": 5}',
    "bytes": "\xff",
}


def test_what_cannot_be_read_is_put_aside_and_holds_nothing_up(store, tmp_path, recorder):
    remember(store, NOON)
    asked(store, tmp_path, recorder=recorder)
    for name, content in BROKEN.items():
        path = tmp_path / FOLDER / f"{name}.json"
        path.write_bytes(content.encode("latin-1"))
    recorder.error = None
    answer = asked(store, tmp_path, recorder=recorder)
    assert (answer.degraded, answers(store), spooled(tmp_path)) == ((), 2, [])
    assert {path.stem for path in spooled(tmp_path, f"*{ASIDE}")} == set(BROKEN)


@pytest.mark.parametrize(
    ("error", "waiting", "aside"),
    [(LedgerUnavailable("away"), 2, 0), (StaleRevision("changed"), 2, 0), (EmbedderChanged("other"), 2, 0),
     (IntegrityError("never to be written"), 0, 2)],
)  # fmt: skip
def test_what_may_be_written_later_waits_and_what_never_can_does_not(store, tmp_path, recorder, error, waiting, aside):
    remember(store, NOON)
    asked(store, tmp_path, recorder=recorder)
    asked(store, tmp_path, COLOUR, recorder=recorder)
    recorder.error = error
    assert recorder.catch_up() == waiting
    assert len(spooled(tmp_path, f"*{ASIDE}")) == aside


def test_an_answer_makes_up_for_a_bounded_row(store, tmp_path, recorder):
    remember(store, NOON)
    asked(store, tmp_path, recorder=recorder)
    (first,) = spooled(tmp_path)
    data = json.loads(first.read_text())
    spool = Spool(tmp_path)
    for n in range(CAUGHT_UP + 5):
        spool.put(f"{n:032x}", {**data, "answer_id": f"{n:032x}", "evaluations": []})
    recorder.error = None
    assert recorder.catch_up() == 6
    assert recorder.catch_up() == 0
    assert answers(store) == CAUGHT_UP + 6


def test_many_who_make_up_for_the_same_write_once(store, tmp_path, recorder):
    """As processes do: each has a spool of its own on the same folder, and none fails because another was quicker."""
    remember(store, NOON)
    asked(store, tmp_path, recorder=recorder)
    (first,) = spooled(tmp_path)
    data, spool = json.loads(first.read_text()), Spool(tmp_path)
    for n in range(20):
        spool.put(f"{n:032x}", {**data, "answer_id": f"{n:032x}", "evaluations": []})
    start = threading.Barrier(4)

    def made_up():
        own = Recorder(Store(store), Spool(tmp_path), "fake")
        start.wait()
        return own.catch_up()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(made_up) for _ in range(4)]:
            future.result()
    recorder.error = None
    recorder.catch_up()
    assert (answers(store), spooled(tmp_path), spooled(tmp_path, f"*{ASIDE}")) == (21, [], [])
    with store.ledger.read() as tx:
        assert set(tx.answers.page("default")[0].report) >= {"path", "usage"}


def test_a_disk_that_refuses_too_is_said(store, tmp_path, recorder):
    remember(store, NOON)
    (tmp_path / FOLDER).write_text("in the way")
    answer = asked(store, tmp_path, recorder=recorder)
    assert answer.outcome is Outcome.ANSWERED
    assert [d for d in answer.degraded if "lost" in d]


def test_a_ledger_that_goes_away_at_the_very_end_costs_no_answer(store, tmp_path):
    """Citations are looked up once more when all is done; then they say less, and are still there."""
    remember(store, NOON)

    class Leaving(Store):
        """Reads until the answer was written back."""

        def evidence(self, *args, **kwargs):
            if answers(self.memories):
                raise LedgerUnavailable("gone")
            return super().evidence(*args, **kwargs)

    answer = asked(store, tmp_path, store=Leaving(store))
    assert (answer.outcome, answers(store)) == (Outcome.ANSWERED, 1)
    assert [c.quote for c in answer.citations] == [NOON]
    assert [d for d in answer.degraded if d.startswith("citations:")]
