"""Rows for the tests of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kb.model import FOREVER, MemoryId, Scope
from kb.ports import IndexRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ports import Vector

DIM = 8
TENANT = "acme"


def unit(values: Sequence[float]) -> Vector:
    """Return a vector of length 1 in the direction of `values`, padded to DIM."""
    vector = np.zeros(DIM, np.float32)
    vector[: len(values)] = values
    vector /= np.linalg.norm(vector)
    return vector


def units(seed: int, n: int, dim: int = DIM) -> Vector:
    """Return n random directions, shape (n, dim)."""
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def row(id_: str, **changes: Any) -> IndexRow:
    """Return a row of tenant acme that every default criterion passes, with changes."""
    values: dict[str, Any] = {
        "id": MemoryId(id_),
        "tenant": TENANT,
        "scope": Scope(),
        "text": f"text of {id_}",
        "terms": f"text of {id_}",
        "dense": unit([1.0]),
        "birth": 1_000,
        "confidence": 0.9,
        "verified": False,
        "standing": 0,
        "valid_from": 0,
        "valid_to": FOREVER,
        "kind": "document",
        "source_class": "document",
        "policy": 2,
        "doc_id": "doc",
        "source": "file://root/a.md",
        "rev": 1,
        "metadata": {"confidence": 0.9, "verified": False, "source": "file://root/a.md"},
    }
    return IndexRow(**{**values, **changes})
