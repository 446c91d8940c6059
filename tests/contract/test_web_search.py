"""The contract of `WebSearch`, held by the fake and by both adapters against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from crag_runtime.evidence import Finding
from crag_runtime.searchers.searxng import SearxngSearch
from crag_runtime.searchers.tavily import TavilyWebSearch
from crag_runtime.threads import Threads
from kb.errors import Fault, SearchUnavailable
from tests.fakes.search import FakeSearch
from tests.fakes.search_server import Reply, SearchServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.ports import WebSearch

KEY = "tvly-secret"
PAGES = [
    {"url": "https://a.example/1", "title": "One", "content": "The bridge opened in 1932.", "published_date": None},
    {
        "url": "https://b.example/2",
        "title": "Two",
        "content": "It is 1,149 metres long.",
        "published_date": "2024-05-03",
    },
    {"url": "https://c.example/3", "title": "三", "content": "大桥于1932年通车。", "published_date": None},
]
PLAIN = [
    Finding(url="https://a.example/1", title="One", text="The bridge opened in 1932."),
    Finding(url="https://b.example/2", title="Two", text="It is 1,149 metres long.", published=1_714_694_400_000),
    Finding(url="https://c.example/3", title="三", text="大桥于1932年通车。"),
]
FAULTS = {
    Fault.RATE_LIMITED: Reply(429, b'{"detail": {"error": "slow down"}}', {"Retry-After": "7"}),
    Fault.UNAUTHORISED: Reply(401, b'{"detail": {"error": "bad key"}}'),
    Fault.REJECTED: Reply(400, b'{"detail": {"error": "too long"}}'),
    Fault.SERVER: Reply(500, b"<html>oops</html>"),
    Fault.MALFORMED: Reply(200, b"<html>not JSON</html>"),
    Fault.CUT_OFF: Reply(200, b'{"results": [', cut=100),
}


@dataclass
class Case:
    """A search, and how to make what it searches misbehave."""

    search: WebSearch
    server: SearchServer | None

    def fail(self, fault: Fault) -> None:
        if self.server is not None:
            self.server.script.append(FAULTS[fault])
        else:
            wait = 7.0 if fault is Fault.RATE_LIMITED else None
            self.search.script.append(SearchUnavailable("told to", fault=fault, retry_after=wait))

    @property
    def queries(self) -> list[str]:
        return self.search.queries if self.server is None else self.server.queries


@contextmanager
def opened(kind: str, *, seconds: float = 20.0) -> Iterator[Case]:
    if kind == "fake":
        yield Case(FakeSearch(PLAIN), None)
        return
    threads = Threads(2)
    with SearchServer() as server:
        server.results = list(PAGES)
        if kind == "tavily":
            search = TavilyWebSearch(SecretStr(KEY), url=server.base, seconds=seconds, threads=threads)
        else:
            search = SearxngSearch(server.base, seconds=seconds, threads=threads)
        yield Case(search, server)
    threads.close()


@pytest.fixture(params=["fake", "tavily", "searxng"])
def case(request) -> Iterator[Case]:
    with opened(request.param) as made:
        yield made


@pytest.fixture(params=["tavily", "searxng"])
def served(request) -> Iterator[Case]:
    with opened(request.param) as made:
        yield made


def search(case: Case, query: str = "when did the bridge open", limit: int = 5) -> list[Finding]:
    return asyncio.run(case.search.search(query, limit=limit))


def test_findings_come_best_first_as_plain_values(case):
    assert search(case) == PLAIN
    assert case.queries == ["when did the bridge open"]


def test_at_most_the_limit_is_returned(case):
    assert search(case, limit=2) == PLAIN[:2]
    assert search(case, limit=0) == []


def test_a_search_has_a_name_and_says_whether_it_is_paid(case):
    assert case.search.name
    assert case.search.is_paid == (case.search.name != "searxng")


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_is_typed_and_never_repeated(case, fault):
    case.fail(fault)
    with pytest.raises(SearchUnavailable) as caught:
        search(case)
    assert caught.value.fault is fault
    assert caught.value.retry_after == (7.0 if fault is Fault.RATE_LIMITED else None)
    assert len(case.queries) == 1
    assert search(case) == PLAIN  # and the next search works


def test_no_secret_and_no_query_stands_in_an_error(served):
    for fault in FAULTS:
        served.fail(fault)
        with pytest.raises(SearchUnavailable) as caught:
            search(served, "what is the private thing")
        assert not re.search(rf"{KEY}|private", f"{caught.value} {caught.value.hint}")


@pytest.mark.parametrize("place", ["http://127.0.0.1:9/latest", "http://169.254.169.254/latest", "file:///etc/passwd"])
def test_a_redirect_is_followed_nowhere(served, place):
    """Nor is any address of a finding ever asked for: the one place a search speaks to is in the settings."""
    served.server.script.append(Reply(status=302, headers={"Location": place}))
    with pytest.raises(SearchUnavailable) as caught:
        search(served)
    assert caught.value.fault is Fault.REJECTED
    assert len(served.queries) == 1


@pytest.mark.parametrize("kind", ["tavily", "searxng"])
def test_a_silent_service_costs_the_time_limit_and_no_more(kind):
    with opened(kind, seconds=0.2) as case:
        case.server.hold.clear()
        with pytest.raises(SearchUnavailable) as caught:
            search(case)
        assert caught.value.fault is Fault.TIMEOUT


@pytest.mark.parametrize("kind", ["tavily", "searxng"])
def test_a_service_that_is_not_there_is_unreachable(kind):
    with opened(kind) as case:
        pass  # its port is closed now
    threads = Threads(1)
    again = (
        TavilyWebSearch(SecretStr(KEY), url=case.server.base, seconds=20, threads=threads)
        if kind == "tavily"
        else SearxngSearch(case.server.base, seconds=20, threads=threads)
    )
    with pytest.raises(SearchUnavailable) as caught:
        asyncio.run(again.search("anything", limit=3))
    threads.close()
    assert caught.value.fault is Fault.UNREACHABLE


def test_cancelling_a_search_ends_it(served):
    async def cancelled() -> None:
        served.server.hold.clear()
        task = asyncio.create_task(served.search.search("anything", limit=3))
        await asyncio.to_thread(served.server.is_asked.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        served.server.hold.set()

    asyncio.run(cancelled())


@pytest.mark.parametrize(
    "payload",
    [
        {"results": [None, 3, "text", [], {}, {"url": "https://x.example"}, {"content": "no url"}, *PAGES]},
        [*PAGES, "trailing"],
    ],
    ids=["entries of every kind", "a bare list"],
)
def test_what_is_no_result_is_left_out(served, payload):
    served.server.script.append(Reply(body=json.dumps(payload).encode()))
    assert search(served) == PLAIN


@pytest.mark.parametrize("payload", ["a message", 42, None, {"error": "no quota"}, {"results": "nothing"}])
def test_a_reply_that_is_no_list_of_results_is_malformed_not_empty(served, payload):
    served.server.script.append(Reply(body=json.dumps(payload).encode()))
    with pytest.raises(SearchUnavailable) as caught:
        search(served)
    assert caught.value.fault is Fault.MALFORMED


def test_finding_nothing_is_an_answer(served):
    served.server.results = []
    assert search(served) == []


def test_an_endless_reply_is_refused(served):
    served.server.script.append(Reply(body=b"[" + b" " * 5_000_000 + b"]"))
    with pytest.raises(SearchUnavailable) as caught:
        search(served)
    assert caught.value.fault is Fault.MALFORMED


def test_a_query_of_blanks_asks_nobody(served):
    assert search(served, " \n\t ") == []
    assert served.queries == []


def test_a_query_reaches_the_service_whole_in_any_script_and_never_too_long(served):
    search(served, "大桥\ud800何时\n通车? a&b=c#d 50%")
    search(served, "word " * 200)
    assert served.queries[0] == "大桥何时 通车? a&b=c#d 50%"
    assert len(served.queries[1]) <= 400
    assert served.queries[1].endswith("word")


def test_the_event_loop_is_free_while_a_search_waits(served):
    async def beats() -> int:
        served.server.hold.clear()
        task = asyncio.create_task(served.search.search("anything", limit=3))
        beat = 0
        while not served.server.asked or beat < 20:
            await asyncio.sleep(0)
            beat += 1
        served.server.hold.set()
        assert await task == PLAIN[:3]
        return beat

    assert asyncio.run(beats()) >= 20


def test_searches_run_side_by_side_and_in_any_loop(served):
    async def many() -> list[list[Finding]]:
        return await asyncio.gather(*(served.search.search(f"query {n}", limit=3) for n in range(8)))

    for _ in range(2):
        assert asyncio.run(many()) == [PLAIN] * 8
    assert len(served.queries) == 16


def test_tavily_gets_the_key_and_the_parameters_under_its_own_names():
    with opened("tavily") as case:
        search(case, limit=3)
        (asked,) = case.server.asked
    assert asked.authorization == f"Bearer {KEY}"
    assert asked.parameters["max_results"] == 3
    assert asked.parameters["search_depth"] == "basic"
    assert asked.parameters["include_raw_content"] is False
    assert not {"api_key", "k"} & set(asked.parameters)


def test_tavily_is_never_asked_for_more_than_it_gives():
    with opened("tavily") as case:
        search(case, limit=500)
        assert case.server.asked[0].parameters["max_results"] == 20


def test_searxng_is_asked_for_json():
    with opened("searxng") as case:
        search(case)
        assert case.server.asked[0].parameters["format"] == "json"


def test_searxng_without_json_says_what_to_change():
    with opened("searxng") as case:
        case.server.script = deque([Reply(403, b"<html>Forbidden</html>")])
        with pytest.raises(SearchUnavailable) as caught:
            search(case)
    assert caught.value.fault is Fault.UNAUTHORISED
    assert "search.formats" in caught.value.hint


def test_engines_that_are_away_are_no_proof_that_the_web_says_nothing():
    with opened("searxng") as case:
        case.server.results, case.server.silent_engines = [], [["duck", "CAPTCHA"]]
        with pytest.raises(SearchUnavailable, match="duck: CAPTCHA") as caught:
            search(case)
        assert caught.value.fault is Fault.SERVER
        case.server.results = list(PAGES)
        assert search(case) == PLAIN
