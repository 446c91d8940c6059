"""Fixtures: where unfinished questions are kept, in every way that is supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.durable import Place

if TYPE_CHECKING:
    from tests.fixtures_ledger import PostgresServer


@pytest.fixture(scope="session")
def checkpoint_url(postgres: PostgresServer) -> str:
    """URL of a database for checkpoints only; each test uses threads of its own."""
    return postgres.url(postgres.create())


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """A durable place, once in a file and once in PostgreSQL."""
    url = request.getfixturevalue("checkpoint_url") if request.param == "postgres" else ""
    return Place(kind=request.param, url=url)


@pytest.fixture(params=["none", "sqlite", "postgres"])
def any_place(request: pytest.FixtureRequest) -> Place:
    """A durable place, or this process."""
    url = request.getfixturevalue("checkpoint_url") if request.param == "postgres" else ""
    return Place(kind=request.param, url=url)
