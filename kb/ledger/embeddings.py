"""The embedding cache: a vector for each (model, hash of the embedded text), so that no text is embedded twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from kb.errors import InputError
from kb.ledger.batches import chunks, upsert_into
from kb.ledger.checks import checked_key, checked_keys
from kb.ledger.schema import embeddings, memories

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kb.ports import Vector

WIRE = np.dtype("<f4")  # float32, little-endian, on every machine

_E = embeddings.c
_OF = (_E.model == sa.bindparam("model"), _E.text_hash.in_(sa.bindparam("hashes", expanding=True)))
_GET = sa.select(_E.text_hash, _E.vector).where(*_OF)
_THERE = sa.select(_E.text_hash).where(*_OF)
_HELD = _THERE.order_by(_E.text_hash).with_for_update(read=True)
_USED = sa.select(memories.c.embed_hash)


class Embeddings:
    """The embedding cache of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, model: str, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the cached vectors by text hash: float32, shape (dim,), read-only; what is not cached is absent."""
        named = {"model": checked_key(model, "model")}
        return {
            row[0]: np.frombuffer(row[1], dtype=WIRE).astype(np.float32, copy=False)
            for part in chunks(checked_keys(dict.fromkeys(hashes), "text_hash"))
            for row in self._connection.execute(_GET, {**named, "hashes": part})
        }

    def missing(self, model: str, hashes: Iterable[str], *, is_holding: bool = False) -> list[str]:
        """Return the hashes without a vector, each once, in the order given.

        Args:
            model: the vector space.
            hashes: of embedded texts.
            is_holding: nobody may drop those that are there before this transaction ends: memories that need them are
                about to be written.
        """
        query = _HELD if is_holding else _THERE
        wanted = checked_keys(dict.fromkeys(hashes), "text_hash")
        there: set[str] = set()
        for part in chunks(sorted(wanted)):  # locked in one order everywhere, so that two writers never wait in a ring
            there.update(
                self._connection.execute(query, {"model": checked_key(model, "model"), "hashes": part}).scalars()
            )
        return [text_hash for text_hash in wanted if text_hash not in there]

    def put(self, model: str, vectors: Mapping[str, Vector]) -> None:
        """Cache vectors by text hash; the same one again changes nothing, another one replaces it.

        Args:
            model: the vector space.
            vectors: each of shape (dim,), finite.

        Raises:
            InputError: a vector is empty, not one-dimensional or not finite, or a name cannot be stored.
        """
        checked_key(model, "model")
        rows = [  # in one order everywhere, so that two writers never wait in a ring
            {"model": model, "text_hash": checked_key(text_hash, "text_hash"), **_wired(text_hash, vector)}
            for text_hash, vector in sorted(vectors.items())
        ]
        upsert = upsert_into(self._connection, embeddings)
        for part in chunks(rows):
            self._connection.execute(upsert, list(part))

    def drop_unused(self, model: str | None = None) -> int:
        """Delete vectors that no memory's text needs; return how many. Ingestion must not run meanwhile.

        Args:
            model: only of this vector space; None: of all.
        """
        unused = sa.select(_E.text_hash).except_(_USED)
        query = sa.delete(embeddings).where(_E.text_hash.in_(unused))
        if model is not None:
            query = query.where(_E.model == checked_key(model, "model"))
        return self._connection.execute(query).rowcount


def _wired(text_hash: str, vector: Vector) -> dict[str, int | bytes]:
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused
        wired = vector.astype(WIRE)
    if wired.ndim != 1 or wired.size == 0 or not np.isfinite(wired).all():
        raise InputError(f"the vector of {text_hash} is not one row of finite numbers")
    return {"dim": int(wired.size), "vector": wired.tobytes()}
