"""Everything an answer writes fits the ledger, whatever was asked and found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.recording.written import bounded, search_uri
from kb.independence import SEARCH
from kb.ledger.checks import MAX_NAME_BYTES, checked_key


@given(st.text(max_size=400), st.text(max_size=20))
def test_a_search_is_a_name_that_the_ledger_takes(query, provider):
    uri = search_uri(provider, query)
    assert checked_key(uri, "parent") == uri
    assert uri.startswith(SEARCH)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(0, 80))
def test_a_text_is_cut_between_characters(text, octets):
    cut = bounded(text, octets)
    assert text.startswith(cut)
    assert len(cut.encode()) <= octets
    assert cut == text or len(text[: len(cut) + 1].encode()) > octets


def test_two_long_queries_with_one_beginning_are_two_searches():
    one, other = (search_uri("tavily", "吨" * 200 + end) for end in ("a", "b"))
    assert one != other
    assert len(one.encode()) <= MAX_NAME_BYTES
    assert search_uri("tavily", "short") == "search://tavily/short"
