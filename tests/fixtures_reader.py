"""Fixtures of the reader: its model file is built once, in the cache that the session's settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crag_runtime.evaluators.reader_model import ReaderModel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def reader_model(model_cache: Path) -> ReaderModel:
    """The reader's model, loaded."""
    return ReaderModel.open(model_cache)
