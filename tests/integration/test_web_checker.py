"""External checks by web search: two owners decide, copies and dependants count for nothing; over real HTTP too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crag_runtime.evidence import Finding
from crag_runtime.searchers import open_search
from crag_runtime.threads import Threads
from governance.comparing.sayings import Passed
from governance.ports import Checked, Claim, Outcome
from jobs.checker import QUERY_CHARS, WebChecker, checked_of, query_of
from kb.errors import Fault, SearchUnavailable
from kb.model import MemoryId
from kb.settings import Settings, WebSearchSettings
from tests.disputing import FIFTY, FORTY, FUENFZIG, VIERZIG, events_of, keep, now_of, open_contradictions, recheck, said
from tests.fakes.search import FakeSearch
from tests.fakes.search_server import Reply, SearchServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.memories import Memories

OTHER_WORDS = "A load of 40 tons is what the Harbour Bridge carries on dry days. Ships pass at noon."
ALSO = "On dry days the Harbour Bridge carries a load of 40,000 kg. The keeper lives by the northern gate."
NOISE = "The harbour has four gates. Its keeper paints them green every spring."


def page(host: str, text: str) -> Finding:
    return Finding(url=f"https://{host}/page", title="Harbour news", text=text)


def claim(text: str = FORTY, *, rival: str | None = None, not_from: frozenset[str] = frozenset()) -> Claim:
    other = None if rival is None else Passed(text=rival)
    return Claim(memory_id=MemoryId("m1"), said=Passed(text=text), rival=other, not_from=not_from)


def test_two_owners_that_say_the_same_decide() -> None:
    pages = [page("city.example", FORTY), page("port.example", ALSO), page("zoo.example", NOISE)]
    assert checked_of(claim(), pages) == Checked(
        outcome=Outcome.SUPPORTED,
        roots=("city.example", "port.example"),
        urls=("https://city.example/page", "https://port.example/page"),
    )
    assert checked_of(claim(FIFTY), pages).outcome is Outcome.CONTRADICTED
    assert checked_of(claim(FIFTY, rival=FORTY), pages).outcome is Outcome.CONTRADICTED
    zh = [page("a.example", VIERZIG), page("b.example", f"{VIERZIG}船只中午通过。")]
    assert checked_of(claim(FUENFZIG, rival=VIERZIG), zh).outcome is Outcome.CONTRADICTED


@pytest.mark.parametrize(
    ("why", "pages", "not_from"),
    [
        ("one owner only", [("city.example", FORTY), ("www.city.example", ALSO)], frozenset()),
        ("a copy", [("city.example", FORTY), ("mirror.example", FORTY)], frozenset()),
        ("its own source", [("city.example", FORTY), ("port.example", ALSO)], frozenset({"port.example"})),
        ("one says otherwise", [("a.example", FORTY), ("b.example", ALSO), ("c.example", FIFTY)], frozenset()),
        ("an owner of two minds", [("a.example", FORTY), ("b.example", ALSO), ("b.example", FIFTY)], frozenset()),
        ("nothing to the point", [("a.example", NOISE), ("b.example", "Ships pass at noon.")], frozenset()),
        ("nothing found", [], frozenset()),
    ],
)
def test_anything_less_decides_nothing(why: str, pages: list[tuple[str, str]], not_from: frozenset[str]) -> None:
    found = [page(host, text) for host, text in pages]
    assert checked_of(claim(not_from=not_from), found).outcome is Outcome.NOTHING, why
    assert checked_of(claim(not_from=not_from), found[::-1]).outcome is Outcome.NOTHING, why


def test_third_values_contradict_only_when_they_are_one_value() -> None:
    third = FORTY.replace("40", "70")
    two = [page("a.example", third), page("b.example", f"{third} {NOISE}")]
    assert checked_of(claim(), two).outcome is Outcome.CONTRADICTED
    assert checked_of(claim(rival=FIFTY), two).outcome is Outcome.NOTHING
    apart = [page("a.example", third), page("b.example", FIFTY)]
    assert checked_of(claim(), apart).outcome is Outcome.NOTHING


def test_a_search_asks_for_the_claim_and_never_for_its_rival() -> None:
    asked = query_of(claim(FORTY, rival=FIFTY))
    assert "40 tons" in asked
    assert "55" not in asked
    assert len(query_of(claim("word " * 200))) <= QUERY_CHARS


def test_a_failed_search_leaves_only_its_own_claim_unasked() -> None:
    away = SearchUnavailable("the search is away", fault=Fault.UNREACHABLE)
    search = FakeSearch(script=[[page("a.example", FORTY), page("b.example", ALSO)], away])
    first, second = WebChecker(search).check([claim(), claim(VIERZIG)])
    assert first.outcome is Outcome.SUPPORTED
    assert (second.outcome, second.problem) == (Outcome.UNASKED, "the search is away")
    assert WebChecker(search).check([]) == []


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with SearchServer() as running:
        yield running


@pytest.fixture
def checker(server: SearchServer) -> Iterator[WebChecker]:
    threads = Threads()
    search = open_search(Settings(search=WebSearchSettings(provider="searxng", url=server.base)), threads)
    assert search is not None
    yield WebChecker(search)
    threads.close()


@pytest.mark.parametrize(("one_text", "other_text"), [(FORTY, FIFTY), (VIERZIG, FUENFZIG)])
def test_a_contradiction_is_settled_over_the_wire(
    store: Memories, server: SearchServer, checker: WebChecker, one_text: str, other_text: str
) -> None:
    one, other = said("a", one_text), said("b", other_text)
    keep(store, one, other)
    recheck(store, checker=checker)
    assert (server.queries, len(open_contradictions(store))) == ([], 1)
    server.results = [
        {"url": "https://city.example/1", "title": "Bridge", "content": f"<p>{other_text}</p>"},
        {"url": "https://port.example/2", "title": "Load", "content": f"{NOISE} {other_text}"},
        {"url": "https://a/3", "title": "own", "content": one_text},
    ]
    recheck(store, checker=checker)
    assert server.queries == [one_text]
    assert open_contradictions(store) == []
    assert events_of(store, one) == [("check", -2.0, "check:against:city.example+port.example")]
    assert not any(m.contested for m in now_of(store, one, other))


def test_a_search_that_is_broken_settles_nothing_and_is_asked_again(
    store: Memories, server: SearchServer, checker: WebChecker
) -> None:
    keep(store, said("a", FORTY), said("b", FIFTY))
    recheck(store)
    server.script.extend([Reply(status=500), Reply(body=b"no json")])
    for _ in range(2):
        recheck(store, checker=checker)
    assert len(open_contradictions(store)) == 1
    server.results = [
        {"url": f"https://{h}.example/", "title": "t", "content": t} for h, t in (("c", FORTY), ("d", ALSO))
    ]
    recheck(store, checker=checker)
    assert (len(server.queries), open_contradictions(store)) == (3, [])
