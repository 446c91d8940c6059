"""Fixtures: one Milvus Lite server a worker, fresh collections on it, and the index behind every implementation."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

import pytest

from kb.index.lite import LiteServer
from kb.index.milvus import MilvusServer
from tests.fakes.index import InProcessIndex
from tests.index_samples import DIM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.index.milvus import MilvusIndex
    from kb.ports import Index

URI = os.environ.get("KB_TEST_MILVUS_URI")  # any Milvus that the suites may fill with collections named kb_test_*
TOKEN = os.environ.get("KB_TEST_MILVUS_TOKEN", "")

_numbers = count()


@pytest.fixture(scope="session")
def lite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteServer]:
    """The worker's own Milvus Lite, ended with the session."""
    server = LiteServer(tmp_path_factory.mktemp("lite"), idle_seconds=30)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def milvus(lite_server: LiteServer) -> Iterator[MilvusServer]:
    """A connection to the worker's Milvus Lite."""
    server = MilvusServer(lite_server)
    yield server
    server.close()


@pytest.fixture
def new_index(milvus: MilvusServer) -> Iterator[Callable[..., MilvusIndex]]:
    """Makes empty indexes on Milvus Lite; their collections are dropped after the test."""
    with_collections: list[str] = []

    def make(dim: int = DIM) -> MilvusIndex:
        return _created(milvus, with_collections, dim)

    yield make
    for name in with_collections:
        milvus.drop(name)


@pytest.fixture(scope="module")
def shared_index(milvus: MilvusServer) -> Iterator[MilvusIndex]:
    """One index on Milvus Lite for all tests of a module; each test uses ids or tenants of its own."""
    names: list[str] = []
    yield _created(milvus, names, DIM)
    milvus.drop(names[0])


@pytest.fixture(params=["in process", "lite", *(["uri"] if URI else [])])
def any_index(request: pytest.FixtureRequest) -> Iterator[Index]:
    """An empty index of DIM dimensions: every implementation, and any Milvus at KB_TEST_MILVUS_URI."""
    if request.param == "in process":
        yield InProcessIndex(DIM)
        return
    if request.param == "lite":
        yield request.getfixturevalue("new_index")(DIM)
        return
    assert URI
    server = MilvusServer(URI, token=TOKEN)
    names: list[str] = []
    yield _created(server, names, DIM)
    server.drop(names[0])
    server.close()


def _created(server: MilvusServer, names: list[str], dim: int) -> MilvusIndex:
    name = f"kb_test_{os.getpid()}_{next(_numbers)}"
    names.append(name)
    server.create(name, dim)
    return server.open(name, dim)
