"""Fixtures of the stories of a sync: an empty folder of documents, and a store beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder that becomes the source `docs`."""
    docs = tmp_path / "docs"
    docs.mkdir()
    return docs


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Memories]:
    """A store with its index in process: on either database where a test asks for `ledger_url`, else on SQLite."""
    url = request.getfixturevalue("ledger_url") if "ledger_url" in request.fixturenames else None
    with open_store(tmp_path / "kb", ledger_url=url) as memories:
        yield memories
