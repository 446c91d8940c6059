"""An index at another Milvus, a ledger in another database: nothing embedded, nothing lost of what came in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.errors import IndexUnavailable, Locked, Refused
from kb.index.lite import LiteServer
from kb.index.milvus import MilvusServer
from kb.index.projector import REINDEX_LOCK
from kb.ledger import open_ledger
from kb.memories import Note
from kb.moving.arriving import settled
from kb.moving.copying import copied, counts_of, digest_of
from kb.moving.relocating import moved
from tests.moving import everything
from tests.stores import InProcessServer, open_store, search

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories

NOTES = 30


def note(memories: Memories, text: str) -> None:
    memories.add_note(Note(text=text, tenant="default"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memories]:
    with open_store(tmp_path / "data") as memories:
        for n in range(NOTES):
            note(memories, f"Toll number {n} is {n} coins.")
        yield memories


def collection(memories: Memories) -> str:
    with memories.ledger.read() as tx:
        current = tx.collections.current()
    assert current is not None
    return current.name


def test_an_index_is_built_elsewhere_without_embedding_and_the_old_one_is_untouched(
    store: Memories, tmp_path: Path
) -> None:
    target = InProcessServer()
    before, calls = search(store, "toll number 7"), store.embedder.passages_embedded  # type: ignore[attr-defined]
    done = moved(store, target)  # type: ignore[arg-type]
    assert (done.rows, done.written, done.left) == (NOTES, NOTES, 0)
    assert done.collection == collection(store)
    assert store.embedder.passages_embedded == calls  # type: ignore[attr-defined]
    assert search(store, "toll number 7") == before
    with open_store(tmp_path / "data", server=target) as there:
        assert search(there, "toll number 7") == before
    assert moved(store, target).written == 0  # type: ignore[arg-type]


def test_what_changes_while_the_index_is_built_is_brought_in(store: Memories) -> None:
    target, seen = InProcessServer(), list[int]()

    def meanwhile(written: int) -> None:
        if len(seen) < 2:
            note(store, f"Written after {written} rows, as the {len(seen)}. one.")
            assert search(store, f"written after {written} rows").hits
        seen.append(written)

    done = moved(store, target, progress=meanwhile)  # type: ignore[arg-type]
    assert (done.rows, done.left) == (NOTES + 2, 0)
    assert set(target.collections[done.collection].revisions()) == {
        (m["id"], m["rev"]) for m in everything(store.ledger)["memories"]
    }


def test_a_move_that_was_cut_short_goes_on_and_clears_what_does_not_belong(store: Memories) -> None:
    target = InProcessServer()

    def stop(_written: int) -> None:
        raise IndexUnavailable("gone")

    with pytest.raises(IndexUnavailable):
        moved(store, target, progress=stop)  # type: ignore[arg-type]
    name = collection(store)
    ids = sorted(id_ for id_, _ in target.collections[name].revisions())
    target.collections[name].delete(ids[:10])
    done = moved(store, target)  # type: ignore[arg-type]
    assert (done.rows, done.written, done.left) == (NOTES, 10, 0)


def test_a_move_and_a_reindex_exclude_each_other_and_an_empty_store_has_nothing_to_move(
    store: Memories, tmp_path: Path
) -> None:
    with open_ledger(None, data_dir=tmp_path / "data") as other, other.lock(REINDEX_LOCK), pytest.raises(Locked):
        moved(store, InProcessServer())  # type: ignore[arg-type]
    with open_store(tmp_path / "empty") as empty, pytest.raises(Refused, match="no index to move"):
        moved(empty, InProcessServer())  # type: ignore[arg-type]


def test_an_index_moves_between_two_real_milvus_lite(tmp_path: Path, lite_server: LiteServer) -> None:
    here = MilvusServer(lite_server)
    second = LiteServer(tmp_path / "second", idle_seconds=30)
    there = MilvusServer(second.endpoint())  # reached by its URI, as any server is
    try:
        with open_store(tmp_path / "data", server=here) as store:
            for n in range(5):
                note(store, f"Toll number {n} is {n} coins.")
            before = search(store, "toll number 3")
            assert moved(store, there).rows == 5
            here.drop(collection(store))
        with open_store(tmp_path / "data", server=there) as store:
            assert search(store, "toll number 3") == before
    finally:
        there.close()
        here.close()
        second.stop()


def test_a_ledger_is_copied_whole_and_gets_an_index_of_its_own(
    store: Memories, ledger_url: str | None, tmp_path: Path
) -> None:
    server = InProcessServer()
    with open_store(tmp_path / "kb", ledger_url=ledger_url, server=server) as new:
        assert counts_of(store.ledger)["memories"] == NOTES
        done = copied(store.ledger, new.ledger, new.clock.now())
        assert everything(new.ledger) == everything(store.ledger)
        again = copied(store.ledger, new.ledger, new.clock.now())  # cut short before its index was built
        assert (done.was_begun, again.was_begun, again.digest) == (False, True, done.digest)
        index = settled(new, lambda _: None)
        assert (index.memories, index.embedded, index.repaired) == (NOTES, 0, 0)
        assert collection(new) != collection(store)
        assert search(new, "toll number 7") == search(store, "toll number 7")
        with pytest.raises(Refused, match="not empty"):
            copied(store.ledger, new.ledger, new.clock.now())


def test_a_ledger_that_was_written_to_after_its_copy_is_noticed(store: Memories, tmp_path: Path) -> None:
    with open_store(tmp_path / "new") as new:
        done = copied(store.ledger, new.ledger, new.clock.now())
        assert digest_of(store.ledger) == done.digest
        note(store, "Too late to be copied.")
        assert digest_of(store.ledger) != done.digest
        with pytest.raises(Refused, match="not empty"):  # an older copy is never mistaken for this one
            copied(store.ledger, new.ledger, new.clock.now())
