"""Stories of answer-keys: found by who names them, never by who looks for evidence; and of a question embedded once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kb.errors import InputError
from kb.ids import digest, embed_hash
from kb.memories import Note
from kb.model import Kind, Memory, MemoryId, Scope, SourceClass, Standing
from kb.passages import embed_text, embedded_as
from kb.ranking import Fusion, Mode
from kb.search import SearchRequest
from kb.trust import DAY_MS, prior, trusted
from tests.fakes.embedder import HashingEmbedder
from tests.stores import FakeClock, InProcessServer, open_store, search, sync, texts, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories

TOLL = "What is the toll of the bridge?"
KEYS = {"kinds": (Kind.ANSWER,), "standings": (Standing.QUARANTINED,), "gate": None, "explain": False}


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, embedder: HashingEmbedder, clock: FakeClock) -> Iterator[Memories]:
    with open_store(tmp_path / "data", embedder=embedder, clock=clock) as memories:
        yield memories


def note(store: Memories, text: str, by: SourceClass = SourceClass.PERSON) -> Memory:
    return store.add_note(Note(text=text, tenant="default", by=by))[0]


def add_key(store: Memories, question: str, **changes: object) -> Memory:
    """Store an answer-key: the question of an answer, trusted by nobody."""
    now = store.clock.now()
    key = Memory(
        id=MemoryId(digest("key", question, repr(changes))[:32]),
        tenant="default",
        kind=Kind.ANSWER,
        source_class=SourceClass.ANSWER,
        source="answer://a1",
        text=question,
        trust=prior(store.policies[SourceClass.ANSWER], now),
        standing=Standing.QUARANTINED,
        embed_hash=embed_hash(embed_text("", (), question)),
        valid_from=now,
        created_at=now,
        updated_at=now,
    )
    key = replace(key, **changes)  # type: ignore[arg-type] # fields by name
    store.generations.ensured(store.embedder.identity, now)
    store.embed({key.embed_hash: embedded_as(key)})
    with store.ledger.write() as tx:
        tx.memories.add([key])
        tx.outbox.mark([key.id], now)
    store.projector.drain()
    return key


def changed(store: Memories, memory: Memory, **changes: object) -> None:
    """Change a memory as another room would."""
    with store.ledger.write() as tx:
        tx.memories.replace([replace(memory, rev=memory.rev + 1, **changes)])  # type: ignore[arg-type]
        tx.outbox.mark([memory.id], store.clock.now())
    store.projector.drain()


# An answer is never evidence.


@pytest.mark.parametrize("standing", [Standing.QUARANTINED, Standing.ACTIVE])
@pytest.mark.parametrize("mode", list(Mode))
def test_an_answer_key_is_no_hit_and_was_stopped_by_no_gate(store, clock, standing, mode):
    said = note(store, "The toll of the bridge is four coins.")
    now = clock.now()
    for confidence in (0.0, 0.5, 0.95):  # even if somebody had come to trust it
        trust = trusted(confidence, now, 30 * DAY_MS)
        add_key(store, TOLL, standing=standing, trust=trust)
    clock.advance(DAY_MS)
    for at in (None, now, clock.now() + DAY_MS):
        for fusion in Fusion:
            found = search(store, TOLL, mode=mode, fusion=fusion, at=at)
            assert [h.memory.id for h in found.hits] == [said.id]
            assert found.suppressed == ()


def test_any_number_of_answer_keys_crowds_out_no_evidence(store):
    said = note(store, "Four coins are asked of who crosses.")
    for number in range(80):
        add_key(store, f"{TOLL} {number}", standing=Standing.ACTIVE, trust=said.trust)
    assert [h.memory.id for h in search(store, TOLL, k=2).hits] == [said.id]


def test_what_the_ledger_calls_an_answer_is_none_though_its_row_lags(tmp_path):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        said = note(store, "The toll of the bridge is four coins.")
        server.is_away = True
        changed(store, said, kind=Kind.ANSWER)
        server.is_away = False
        with store.ledger.write() as tx:
            tx.outbox.clear([seq for seq, _ in tx.outbox.pending(9)])  # the row stays as it was
        found = search(store, TOLL)
        assert (found.hits, found.suppressed) == ((), ())


# It is a key for who asks for it.


def test_a_key_is_found_where_its_kind_and_standing_are_named(store):
    note(store, "The toll of the bridge is four coins.")
    note(store, "The toll of the bridge is nine coins.", by=SourceClass.AGENT)
    nearest, other = add_key(store, TOLL), add_key(store, "Who painted the bridge green?")
    add_key(store, TOLL, tenant="globex")
    add_key(store, TOLL, scope=Scope(user="bob"))
    add_key(store, TOLL, standing=Standing.RETIRED)
    for mode in (Mode.DENSE, Mode.HYBRID):
        found = search(store, "what toll has the bridge", mode=mode, **KEYS)
        assert [h.memory.id for h in found.hits] == [nearest.id, other.id], mode
        assert found.hits[0].effective_confidence == 0.0
    assert search(store, TOLL, **{**KEYS, "explain": True}).suppressed == ()
    assert len(search(store, TOLL, scope=Scope(user="bob"), **KEYS).hits) == 3


def test_a_key_that_is_no_longer_in_quarantine_is_not_found_though_its_row_lags(tmp_path):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        key = add_key(store, TOLL)
        assert [h.memory.id for h in search(store, TOLL, **KEYS).hits] == [key.id]
        server.is_away = True
        changed(store, key, standing=Standing.RETIRED)
        server.is_away = False
        with store.ledger.write() as tx:
            tx.outbox.clear([seq for seq, _ in tx.outbox.pending(9)])
        assert search(store, TOLL, **KEYS).hits == ()


# No gate, and standings by name.


def test_no_gate_is_less_than_a_gate_of_nothing(store):
    key = add_key(store, TOLL, standing=Standing.ACTIVE)
    asked = {"kinds": (Kind.ANSWER,)}
    assert [h.memory.id for h in search(store, TOLL, gate=None, **asked).hits] == [key.id]
    at_zero = search(store, TOLL, gate=0.0, **asked)
    assert at_zero.hits == ()
    assert [s.reason.value for s in at_zero.suppressed] == ["low_confidence"]


def test_without_a_gate_nothing_fades_and_quarantine_still_holds(store, clock):
    old = note(store, "The toll of the bridge is four coins.")
    waiting = note(store, "The toll of the bridge is nine coins.", by=SourceClass.AGENT)
    clock.advance(900 * DAY_MS)
    found = search(store, TOLL, gate=None)
    assert [h.memory.id for h in found.hits] == [old.id]
    assert [(s.memory.id, s.reason.value) for s in found.suppressed] == [(waiting.id, "quarantined")]
    assert {s.reason.value for s in search(store, TOLL).suppressed} == {"faded", "quarantined"}


def test_standings_that_are_named_are_exactly_those_searched(store, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for toll in ("four", "nine"):
        write(folder, a_md=f"# A\n\nThe toll of the bridge is {toll} coins.\n")
        sync(store, folder, checksum=True)
    note(store, "The toll of the bridge is two coins.", by=SourceClass.AGENT)

    def seen(*standings: Standing, **asked: object) -> list[str]:
        return sorted(text.split()[-2] for text in texts(search(store, TOLL, standings=standings, **asked)))

    assert seen(gate=None) == seen(Standing.ACTIVE, gate=None) == ["nine"]
    assert seen(Standing.SUPERSEDED, gate=None) == ["four"]
    assert seen(Standing.QUARANTINED, gate=None) == ["two"]
    assert seen(Standing.ACTIVE, Standing.QUARANTINED, gate=None) == ["nine", "two"]
    assert seen(Standing.ACTIVE, Standing.QUARANTINED, gate=0.7) == ["nine"]
    stopped = search(store, TOLL, standings=(Standing.ACTIVE, Standing.QUARANTINED), gate=0.7).suppressed
    assert [s.reason.value for s in stopped] == ["low_confidence"]
    assert search(store, TOLL, standings=(Standing.ACTIVE,), gate=0.7).suppressed == ()


@pytest.mark.parametrize("standing", [Standing.STAGED, Standing.RETIRED])
def test_what_is_seen_by_nobody_cannot_be_named(standing):
    with pytest.raises(InputError, match=standing.value):
        SearchRequest(question=TOLL, tenant="default", standings=(Standing.ACTIVE, standing))


# A question is embedded once.


@pytest.mark.parametrize("mode", list(Mode))
def test_a_question_that_is_embedded_already_is_not_embedded_again(store, embedder, mode):
    for thing in ("toll", "gate", "paint"):
        note(store, f"The {thing} of the bridge is dear.")
    (vector,) = embedder.queries([TOLL])
    request = SearchRequest(question=TOLL, tenant="default", mode=mode)
    expected = store.search(request)
    calls = embedder.calls
    assert store.search(request, vector=vector) == expected
    assert embedder.calls == calls
    assert expected.hits


def test_the_vector_that_is_given_is_the_one_that_is_searched_with(store, embedder):
    toll, paint = (note(store, f"The {thing} of the bridge is dear.") for thing in ("toll", "paint"))
    (vector,) = embedder.queries([paint.text])
    request = SearchRequest(question=toll.text, tenant="default", k=1, mode=Mode.DENSE)
    assert [h.memory.id for h in store.search(request, vector=vector).hits] == [paint.id]
    assert [h.memory.id for h in store.search(request).hits] == [toll.id]


def test_a_vector_of_another_shape_is_refused_even_by_an_empty_store(store, embedder):
    (vector,) = embedder.queries([TOLL])
    request = SearchRequest(question=TOLL, tenant="default")
    for filled in (False, True):
        for wrong in (vector[:-1], vector[None, :], vector[:0]):
            with pytest.raises(InputError, match="shape"):
                store.search(request, vector=wrong)
        if not filled:
            note(store, "The toll of the bridge is four coins.")
