"""The doctor's checks of the runtime: only what is configured, each failing with a way to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crag_runtime.doctor import examined
from crag_runtime.recording.spool import Spool
from kb.clock import SystemClock
from kb.settings import load_settings
from tests.fakes.search_server import SearchServer

if TYPE_CHECKING:
    from pathlib import Path

    from kb.doctor import Check

NOWHERE = "http://127.0.0.1:9"


def checks(tmp_path: Path, *, evaluator: str = "fast", chat=None, search=None, **ask) -> dict[str, Check]:
    settings = load_settings(data_dir=tmp_path, chat=chat, search=search, ask={"evaluator": evaluator, **ask})
    return {check.name: check for check in examined(settings, SystemClock())}


def test_nothing_that_is_not_configured_is_checked(tmp_path):
    (check,) = checks(tmp_path).values()
    assert (check.name, check.ok) == ("write-back", True)


def test_the_reader_is_loaded_and_asked(tmp_path, reader_model):
    check = checks(tmp_path, evaluator="reader")["reader"]
    assert check.ok, check.detail
    assert check.detail.startswith("loaded in ")


def test_what_is_away_fails_with_a_way_to_mend_it_and_stops_no_other(tmp_path):
    chat = {"model": "m", "base_url": NOWHERE, "retries": 0, "timeout_seconds": 2}
    search = {"provider": "searxng", "url": NOWHERE}
    found = checks(tmp_path, chat=chat, search=search, grade_cache="redis://:secret@127.0.0.1:9/0")
    assert {name for name, check in found.items() if not check.ok} == {"chat model", "web search", "grade cache"}
    assert all(check.fix and "kb doctor" not in check.fix for check in found.values() if not check.ok)
    assert "secret" not in str(found)


def test_a_free_search_is_tried_and_a_paid_one_is_not(tmp_path):
    with SearchServer() as server:
        server.results = [{"url": "https://a.example/", "title": "A", "content": "Something."}]
        free = checks(tmp_path, search={"provider": "searxng", "url": server.base})["web search"]
        assert (free.ok, len(server.asked)) == (True, 1)
        paid = checks(tmp_path, search={"provider": "tavily", "url": server.base, "api_key": "k"})["web search"]
        assert (paid.ok, len(server.asked)) == (True, 1)
        server.results = []
        assert not checks(tmp_path, search={"provider": "searxng", "url": server.base})["web search"].ok


def test_a_cache_and_a_checkpointer_that_work_pass(tmp_path, redis_server):
    kept = checks(tmp_path, grade_cache=redis_server.url, checkpointer="sqlite", durability="sync")
    assert {name: check.ok for name, check in kept.items()} == {
        "grade cache": True,
        "checkpointer": True,
        "write-back": True,
    }
    assert kept["checkpointer"].detail == "sqlite, written after every step"
    assert checks(tmp_path, grade_cache="sqlite")["grade cache"].ok


def test_answers_that_wait_to_be_written_are_told(tmp_path):
    Spool(tmp_path).put("a1", {})
    check = checks(tmp_path)["write-back"]
    assert (check.ok, check.detail) == (False, "answers that wait for the ledger: 1")


@pytest.mark.parametrize("provider", ["tavily", "searxng"])
def test_a_search_that_lacks_what_it_needs_says_which(tmp_path, provider):
    check = checks(tmp_path, search={"provider": provider})["web search"]
    assert not check.ok
    assert "KB_SEARCH__" in check.fix
