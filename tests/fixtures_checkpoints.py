"""Fixtures: where unfinished questions are kept, in every way that is supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.durable import Place
    from tests.fixtures_ledger import PostgresServer


@pytest.fixture(scope="session")
def checkpoint_url(postgres: PostgresServer) -> str:
    """URL of a database for checkpoints only; each test uses threads of its own."""
    return postgres.url(postgres.create())


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """A durable place, once in a file and once in PostgreSQL."""
    return _place(request)


@pytest.fixture(params=["none", "sqlite", "postgres"])
def any_place(request: pytest.FixtureRequest) -> Place:
    """A durable place, or this process."""
    return _place(request)


def _place(request: pytest.FixtureRequest) -> Place:
    from tests.durable import Place as At

    return At(kind=request.param, url=request.getfixturevalue("checkpoint_url") if request.param == "postgres" else "")
