"""The `Index` in this process: exact cosine, textbook BM25, criteria tested row by row. The oracle for the real one."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kb.index import filters, validate
from kb.ports import Candidate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.model import Json, MemoryId
    from kb.ports import Criteria, IndexRow, Vector
    from kb.trust import GateClause

K1, B = 1.2, 0.75


class InProcessIndex:
    """Rows in a dict."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._rows: dict[MemoryId, IndexRow] = {}

    def upsert(self, rows: Sequence[IndexRow]) -> None:
        self._rows.update({row.id: row for row in validate.validated(rows, self._dim)})

    def delete(self, ids: Sequence[MemoryId]) -> None:
        for id_ in ids:
            self._rows.pop(id_, None)

    def dense(self, vector: Vector, criteria: Criteria, k: int) -> list[Candidate]:
        query = validate.query_vector(vector, self._dim).astype(np.float64)
        query /= np.linalg.norm(query)
        scores = {
            row.id: float(query @ row.dense / np.linalg.norm(row.dense.astype(np.float64)))
            for row in self._admitted(criteria)
        }
        return _best(scores, validate.result_size(k))

    def sparse(self, terms: str, criteria: Criteria, k: int) -> list[Candidate]:
        wanted = validate.query_terms(terms).split()
        bags = {row.id: Counter(validate.short_terms(row.terms).split()) for row in list(self._rows.values())}
        rarity = {term: self._rarity(sum(term in bag for bag in bags.values())) for term in wanted}
        usual = sum(map(Counter.total, bags.values())) / max(1, len(bags))
        scores = {
            row.id: sum(rarity[t] * _saturated(bags[row.id][t], bags[row.id].total(), usual) for t in wanted)
            for row in self._admitted(criteria)
        }
        return _best({id_: score for id_, score in scores.items() if score > 0}, validate.result_size(k))

    def revisions(self) -> Iterator[tuple[MemoryId, int]]:
        yield from sorted((row.id, row.rev) for row in list(self._rows.values()))

    def count(self) -> int:
        return len(self._rows)

    def _admitted(self, criteria: Criteria) -> list[IndexRow]:
        filters.expression(criteria)  # refuses what cannot be expressed
        return [row for row in list(self._rows.values()) if admits(criteria, row)]

    def _rarity(self, holding: int) -> float:
        return math.log(1 + (len(self._rows) - holding + 0.5) / (holding + 0.5))


def admits(criteria: Criteria, row: IndexRow) -> bool:
    """Return whether `criteria` describe `row`, by the words of their docstring."""
    scope, given = row.scope, criteria.scope
    return (
        row.tenant == criteria.tenant
        and scope.agent in {"", given.agent}
        and scope.user in {"", given.user}
        and scope.conversation in {"", given.conversation}
        and (not criteria.standings or row.standing in {standing.number for standing in criteria.standings})
        and _is_on_the_right_side(criteria, row)
        and (criteria.valid_at is None or row.valid_from <= criteria.valid_at < row.valid_to)
        and (not criteria.kinds or row.kind in criteria.kinds)
        and (not criteria.sources or row.source in criteria.sources)
        and (not criteria.doc_ids or row.doc_id in criteria.doc_ids)
        and all(_equal(row.metadata.get(key), value) for key, value in criteria.metadata.items())
    )


def _is_on_the_right_side(criteria: Criteria, row: IndexRow) -> bool:
    if not criteria.gate:
        return not criteria.gated_out
    return any(_passes(clause, row) for clause in criteria.gate) != criteria.gated_out


def _passes(clause: GateClause, row: IndexRow) -> bool:
    named = not clause.policies or row.policy in clause.policies
    return named and row.confidence > clause.above and row.birth > clause.born_after


def _equal(stored: Json, wanted: str | float) -> bool:
    """JSON equality: a boolean is no number, 1 and 1.0 are one number."""
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    return type(stored) in (int, float, str) and stored == wanted


def _saturated(times: int, length: int, usual: float) -> float:
    return times * (K1 + 1) / (times + K1 * (1 - B + B * length / usual)) if times else 0.0


def _best(scores: dict[MemoryId, float], k: int) -> list[Candidate]:
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Candidate(id=id_, score=score) for id_, score in ranked[: max(0, k)]]
