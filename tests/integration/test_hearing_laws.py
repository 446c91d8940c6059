"""Who is heard of whom in a recheck: no single source decides, no private word moves a shared one, nor a person's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from governance.ports import Outcome
from kb.model import Scope, SourceClass
from tests.disputing import (
    FIFTY,
    FORTY,
    FakeChecker,
    events_of,
    found,
    keep,
    now_of,
    open_contradictions,
    promote,
    recheck,
    said,
)

if TYPE_CHECKING:
    from kb.memories import Memories


@pytest.mark.parametrize("outcome", [Outcome.SUPPORTED, Outcome.CONTRADICTED])
def test_one_source_of_a_check_settles_nothing_and_weighs_nothing(store: Memories, outcome: Outcome) -> None:
    one, other = said("a", FORTY), said("b", FIFTY)
    keep(store, one, other)
    recheck(store)
    recheck(store, checker=FakeChecker(lambda _: found(outcome, "city.example")))
    after = now_of(store, one, other)
    assert [(m.contested, m.trust.verified) for m in after] == [(True, False)] * 2
    assert [m.trust for m in after] == [one.trust, other.trust]
    assert (events_of(store, one), events_of(store, other), len(open_contradictions(store))) == ([], [], 1)


@pytest.mark.parametrize("other_text", [FIFTY, FORTY])
def test_what_people_vouched_for_moves_nothing_that_others_vouched_for(store: Memories, other_text: str) -> None:
    one = said("a", FORTY, by=SourceClass.CURATED, verified=True)
    other = said("b", other_text, by=SourceClass.CURATED, verified=True)
    keep(store, one, other)
    for _ in range(2):
        recheck(store)
        promote(store)
    assert [m.trust for m in now_of(store, one, other)] == [one.trust, other.trust]
    assert (events_of(store, one), events_of(store, other)) == ([], [])
    assert len(open_contradictions(store)) == (other_text is FIFTY)


@pytest.mark.parametrize(
    ("private", "is_heard"),
    [(Scope(user="u1"), False), (Scope(agent="x"), False), (Scope(conversation="c"), False), (Scope(), True)],
)
def test_no_private_memory_moves_one_that_others_see(store: Memories, private: Scope, *, is_heard: bool) -> None:
    shared = said("a", FORTY)
    note = said("b", FIFTY, by=SourceClass.PERSON, verified=True, scope=private)
    keep(store, shared, note)
    recheck(store)
    assert (now_of(store, shared)[0].trust != shared.trust, bool(events_of(store, shared))) == (is_heard, is_heard)
