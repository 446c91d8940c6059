"""Collections on a real Milvus Lite: made once, dropped without fuss, and missing with a way out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kb.errors import IndexUnavailable
from kb.index.milvus import MilvusServer, open_server
from kb.index.schema import collection_name
from kb.model import MemoryId
from kb.ports import Criteria
from kb.settings import Settings
from tests.index_samples import DIM, TENANT, row, unit

if TYPE_CHECKING:
    from pathlib import Path

    from kb.index.lite import LiteServer

NAME = collection_name(DIM, 1)


@pytest.fixture
def clean(milvus: MilvusServer) -> MilvusServer:
    for name in milvus.collections():
        milvus.drop(name)
    return milvus


def test_a_collection_is_made_once_and_keeps_its_rows(clean: MilvusServer) -> None:
    assert not clean.has(NAME)
    clean.create(NAME, DIM)
    clean.open(NAME, DIM).upsert([row("a")])
    clean.create(NAME, DIM)
    assert clean.has(NAME)
    assert clean.open(NAME, DIM).count() == 1


def test_only_our_collections_are_listed_and_a_missing_one_may_be_dropped(clean: MilvusServer) -> None:
    clean.create(NAME, DIM)
    clean.create(collection_name(DIM, 2), DIM)
    clean.create("somebody_elses", 2)
    assert clean.collections() == [NAME, collection_name(DIM, 2)]
    for name in (NAME, NAME, "somebody_elses"):
        clean.drop(name)
    assert clean.collections() == [collection_name(DIM, 2)]


def test_a_missing_collection_is_told_with_the_way_out(clean: MilvusServer) -> None:
    index = clean.open(NAME, DIM)
    calls = (
        index.count,
        lambda: list(index.revisions()),
        lambda: index.dense(unit([1]), Criteria(tenant=TENANT), 1),
        lambda: index.sparse("text", Criteria(tenant=TENANT), 1),
        lambda: index.upsert([row("a")]),
        lambda: index.delete([MemoryId("a")]),
    )
    for call in calls:
        with pytest.raises(IndexUnavailable) as caught:
            call()
        assert "kb reindex" in caught.value.hint


def test_a_collection_made_anew_elsewhere_is_used_as_it_is_now(clean: MilvusServer, lite_server: LiteServer) -> None:
    clean.create(NAME, DIM)
    clean.open(NAME, DIM).upsert([row("a")])
    other = MilvusServer(lite_server.endpoint())
    other.drop(NAME)
    other.create(NAME, DIM)
    clean.open(NAME, DIM).upsert([row("b")])
    assert list(other.open(NAME, DIM).revisions()) == [("b", 1)]
    other.close()


def test_threads_share_a_connection_while_rows_are_rewritten(clean: MilvusServer) -> None:
    clean.create(NAME, DIM)
    index = clean.open(NAME, DIM)
    rows = [row(f"m{n}") for n in range(50)]
    index.upsert(rows)
    problems: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(40):
                assert len(index.dense(unit([1]), Criteria(tenant=TENANT), 100)) <= 50
                assert len(index.sparse("text", Criteria(tenant=TENANT), 100)) <= 50
        except BaseException as error:  # noqa: BLE001 - carried to the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        index.upsert(rows)
    assert problems == []
    assert index.count() == 50


def test_settings_without_a_uri_lead_to_milvus_lite_in_the_data_directory(tmp_path: Path) -> None:
    server = open_server(Settings(data_dir=tmp_path, index_idle_seconds=0.5))
    assert list(tmp_path.iterdir()) == [], "nothing starts before it is needed"
    assert not server.has(NAME)
    assert (tmp_path / "index" / "kb.db").exists()
    server.close()
