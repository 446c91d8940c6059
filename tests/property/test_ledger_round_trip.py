"""Whatever the words of the domain can say comes back from both databases as it went in, or is refused by both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.errors import InputError
from kb.ledger.checks import MAX_SOURCE_BYTES
from kb.ledger.memories import prefix_end
from kb.model import (
    Document,
    DocumentId,
    Fingerprint,
    Kind,
    Memory,
    MemoryId,
    Passage,
    Scope,
    SourceClass,
    Standing,
    Trust,
)
from kb.trust import SHOWN_LEVELS, shown_confidence, shown_level
from tests.ledger_samples import a_memory
from tests.property.ledger_values import BAD_TEXT, CHARACTERS, INT64, JSON, NAME, REAL, TEXT, UNIT, undone

if TYPE_CHECKING:
    from kb.ledger import Ledger

TRUST = st.builds(
    Trust,
    confidence=UNIT,
    anchor=INT64,
    birth=INT64,
    verified=st.booleans(),
    verified_at=st.none() | INT64,
    strength=REAL,
)
MEMORY = st.builds(
    Memory,
    id=NAME.map(MemoryId),
    tenant=NAME,
    kind=st.sampled_from(Kind),
    source_class=st.sampled_from(SourceClass),
    source=NAME | st.just("x" * MAX_SOURCE_BYTES),
    text=TEXT,
    trust=TRUST,
    standing=st.sampled_from(Standing),
    standing_reason=TEXT,
    pinned=st.booleans(),
    contested=st.booleans(),
    doc_id=st.none() | NAME.map(DocumentId),
    passage=st.builds(
        Passage,
        ordinal=INT64,
        title=TEXT,
        heading_path=st.lists(TEXT, max_size=4).map(tuple),
        page=st.none() | INT64,
        start=INT64,
        end=INT64,
    ),
    scope=st.builds(Scope, agent=TEXT, user=TEXT, conversation=TEXT),
    embed_hash=TEXT,
    valid_from=INT64,
    valid_to=INT64,
    created_at=INT64,
    updated_at=INT64,
    rev=INT64,
    metadata=st.dictionaries(TEXT, JSON, max_size=4),
)
DOCUMENT = st.builds(
    Document,
    id=NAME.map(DocumentId),
    tenant=NAME,
    root=TEXT,
    source=NAME,
    version=INT64,
    fingerprint=st.builds(Fingerprint, raw=TEXT, content=TEXT, metadata=TEXT, pipeline=TEXT),
    size=INT64,
    mtime_ns=INT64,
    title=TEXT,
    memory_ids=st.lists(NAME.map(MemoryId), max_size=5).map(tuple),
    deleted_at=st.none() | INT64,
    created_at=INT64,
    updated_at=INT64,
)


@given(memory=MEMORY)
def test_a_memory_comes_back_to_the_last_bit(one_ledger: Ledger, memory: Memory) -> None:
    with undone(one_ledger) as tx:
        tx.memories.add([memory])
        assert repr(tx.memories.get([memory.id])[memory.id]) == repr(memory)  # 1, 1.0 and True differ
        assert tx.memories.page("", 10) == [memory]


@given(trust=TRUST, shown=UNIT)
def test_what_is_shown_comes_back_in_thousandths_and_never_above_the_confidence(
    one_ledger: Ledger, trust: Trust, shown: float
) -> None:
    memory = a_memory(1, trust=replace(trust, shown=shown))
    with undone(one_ledger) as tx:
        tx.memories.add([memory])
        back = tx.memories.get([memory.id])[memory.id]
        assert replace(back.trust, shown=None) == trust
        assert shown_level(back.trust) == shown_level(memory.trust)
        assert shown_confidence(back.trust) <= trust.confidence
        assert 0 <= min(shown, trust.confidence) - shown_confidence(back.trust) < 1 / SHOWN_LEVELS + 1e-6 or (
            back.trust.shown is None
        )
        again = replace(back, rev=memory.rev + 1)
        tx.memories.replace([again])
        assert tx.memories.get([memory.id])[memory.id] == again


@given(document=DOCUMENT)
def test_a_document_comes_back_to_the_last_bit(one_ledger: Ledger, document: Document) -> None:
    with undone(one_ledger) as tx:
        tx.documents.put(document)
        assert repr(tx.documents.get(document.id)) == repr(document)
        live = tx.documents.by_source(document.tenant, document.source)
        assert live == (document if document.deleted_at is None else None)
        assert tx.documents.born_at(document.tenant, document.source) == 1


@settings(max_examples=50)
@given(
    bad=BAD_TEXT, field=st.sampled_from(["id", "tenant", "source", "text", "standing_reason", "doc_id", "embed_hash"])
)
def test_text_that_one_of_them_would_bend_is_refused_by_both(one_ledger: Ledger, bad: str, field: str) -> None:
    with pytest.raises(InputError), one_ledger.write() as tx:
        tx.memories.add([a_memory(1, **{field: bad})])


@settings(max_examples=50)
@given(bad=BAD_TEXT, json=JSON)
def test_bad_text_is_refused_however_deep_in_metadata(one_ledger: Ledger, bad: str, json: object) -> None:
    for metadata in ({"k": [json, {"k": bad}]}, {bad: json}, {"k": {"k": {bad: 1}}}):
        with pytest.raises(InputError), one_ledger.write() as tx:
            tx.memories.add([a_memory(1, metadata=metadata)])


@settings(max_examples=40)
@given(sources=st.lists(NAME, min_size=1, max_size=12), pick=st.data())
def test_a_prefix_finds_exactly_the_sources_that_begin_with_it(
    one_ledger: Ledger, sources: list[str], pick: st.DataObject
) -> None:
    whole = pick.draw(st.sampled_from(sources) | NAME)
    prefix = whole[: pick.draw(st.integers(1, len(whole)))]
    with undone(one_ledger) as tx:
        tx.memories.add([a_memory(i, source=source) for i, source in enumerate(sources)])
        found = [m.source for m in tx.memories.page("", 100, source_prefix=prefix)]
        assert found == [source for source in sources if source.startswith(prefix)]


@given(prefix=NAME, other=st.text(CHARACTERS, max_size=6))
def test_the_end_of_a_prefix_is_above_all_that_begin_with_it(prefix: str, other: str) -> None:
    end = prefix_end(prefix)
    assert end is None or prefix + other < end
    if other >= prefix and not other.startswith(prefix):
        assert end is not None
        assert other >= end


@settings(max_examples=30)
@given(names=st.lists(NAME, min_size=1, max_size=20, unique=True))
def test_ids_come_in_pythons_own_order(one_ledger: Ledger, names: list[str]) -> None:
    with undone(one_ledger) as tx:
        tx.memories.add([a_memory(name) for name in names])
        assert [key for key, _ in tx.memories.revisions("", 100)] == sorted(names)
