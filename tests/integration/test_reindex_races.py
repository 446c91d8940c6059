"""What comes between the lines of a reindex, a lost index and a search. Index in process, all else real."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kb import rebuild
from kb.errors import EmbedderChanged, IndexUnavailable
from kb.index import projector
from kb.memories import Note
from kb.rebuild import reconcile, reindex
from tests.fakes.embedder import HashingEmbedder
from tests.stores import InProcessServer, open_store, search, sync, texts, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    write(docs, a_md="# A\n\nThe toll is four coins.\n")
    return docs


def test_a_note_added_while_another_embedder_takes_over_is_found_after(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    with (
        open_store(tmp_path / "data", server=server) as old,
        open_store(tmp_path / "data", server=server, embedder=HashingEmbedder(model="other", dim=32)) as new,
    ):
        sync(old, folder)
        fill = rebuild._fill

        def filled_then_interrupted(*args: object, **kwargs: object) -> tuple[int, int]:
            done = fill(*args, **kwargs)
            monkeypatch.setattr(projector, "WAIT_S", 0.05)  # the old configuration is still at work
            old.add_note(Note(text="The keeper sleeps at noon.", tenant="default"))
            return done

        monkeypatch.setattr(rebuild, "_fill", filled_then_interrupted)
        done = reindex(new, re_embed=True)
        assert (done.memories, done.embedded, done.pending) == (1, 2, 0)
        assert "The keeper sleeps at noon." in texts(search(new, "keeper noon", k=5))
        with pytest.raises(EmbedderChanged):
            old.add_note(Note(text="Too late.", tenant="default"))
        assert reconcile(new).ids == ()


def test_a_run_that_embedded_for_the_old_index_is_refused_by_the_new_one(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    with (
        open_store(tmp_path / "data", server=server) as old,
        open_store(tmp_path / "data", server=server, embedder=HashingEmbedder(model="other", dim=32)) as new,
    ):
        sync(old, folder)
        embed = type(old).embed

        def embedded_then_replaced(self: object, *args: object) -> object:
            result = embed(self, *args)  # type: ignore[arg-type]
            if self is old:
                reindex(new, re_embed=True)
            return result

        monkeypatch.setattr(type(old), "embed", embedded_then_replaced)
        write(folder, b_md="# B\n\nThe ferry is free.\n")
        with pytest.raises(EmbedderChanged):
            sync(old, folder)
        monkeypatch.undo()
        assert sync(new, folder).documents["added"] == 1
        assert reconcile(new).ids == ()
        assert len(search(new, "toll ferry", k=5).hits) == 2


def test_a_search_during_a_reindex_never_brings_the_old_collection_back(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store, open_store(tmp_path / "data", server=server) as other:
        sync(store, folder)
        with store.ledger.read() as tx:
            old = store.generations.current(tx)
        assert old is not None
        reindex(other, re_embed=False)
        fresh = type(store.generations)(server, store.ledger)
        with pytest.raises(IndexUnavailable, match="replaced"):
            fresh.index(old, 0)
        assert len(server.collections) == 1
        assert texts(search(store, "toll")) == ["The toll is four coins."]


def test_a_crash_while_a_lost_index_is_made_again_is_healed_by_the_next_search(tmp_path, folder, monkeypatch):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        sync(store, folder)
    server.collections.clear()

    def die(*_args: object) -> None:
        raise KeyboardInterrupt

    with open_store(tmp_path / "data", server=server) as store, monkeypatch.context() as crash:
        crash.setattr(server, "create", die)
        with pytest.raises(KeyboardInterrupt):
            search(store, "toll")
    with open_store(tmp_path / "data", server=server) as store:
        assert texts(search(store, "toll")) == ["The toll is four coins."]


def test_a_search_first_applies_what_an_index_that_was_away_has_missed(tmp_path, folder):
    server = InProcessServer()
    with open_store(tmp_path / "data", server=server) as store:
        sync(store, folder)
        server.is_away = True
        write(folder, b_md="# B\n\nThe ferry is free.\n")
        assert sync(store, folder).pending == 1
    server.is_away = False
    with open_store(tmp_path / "data", server=server) as store:
        assert texts(search(store, "ferry", k=1)) == ["The ferry is free."]


def test_rows_written_ahead_wait_for_a_drainer(tmp_path, folder, monkeypatch):
    """A drainer may hold an older revision of a row that comes back; it must have written before ours is."""
    monkeypatch.setattr(projector, "WAIT_S", 0.05)
    with open_store(tmp_path / "data") as store:
        sync(store, folder)
        write(folder, a_md="# A\n\nThe toll is nine coins.\n")
        held, released = threading.Event(), threading.Event()

        def drainer() -> None:
            with store.ledger.lock(projector.LOCK):
                held.set()
                released.wait(0.4)

        thread = threading.Thread(target=drainer)
        thread.start()
        held.wait(5)
        sync(store, folder, checksum=True)
        assert not thread.is_alive()
        assert texts(search(store, "toll", k=5)) == ["The toll is nine coins."]


def test_one_row_without_a_vector_holds_up_no_other(tmp_path, folder):
    with open_store(tmp_path / "data") as store:
        sync(store, folder)
        write(folder, b_md="# B\n\nThe ferry is free.\n")
        sync(store, folder)
        (lost,) = [m for m in store.page("default") if "toll" in m.text]
        with store.ledger.write() as tx:
            from kb.ledger.schema import embeddings

            tx.memories._connection.execute(embeddings.delete().where(embeddings.c.text_hash == lost.embed_hash))
            tx.outbox.mark([m.id for m in store.page("default")], 1)
        assert store.projector.drain().pending == 0
        assert texts(search(store, "ferry", k=1)) == ["The ferry is free."]
        assert reindex(store, re_embed=True).embedded == 1
