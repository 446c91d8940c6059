"""How passages were graded: the full basis of every verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.ledger.checks import checked_key
from kb.ledger.rows_history import evaluation_of_row, row_of_evaluation
from kb.ledger.schema import evaluations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.history import AnswerId, Evaluation
    from kb.model import MemoryId

_E = evaluations.c
_OF_ANSWER = sa.select(evaluations).where(_E.answer_id == sa.bindparam("answer_id")).order_by(_E.seq)
_OF_MEMORY = (
    sa.select(evaluations)
    .where(_E.memory_id == sa.bindparam("memory_id"))
    .order_by(_E.at.desc(), _E.seq.desc())
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)


class Evaluations:
    """The evaluations of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, added: Sequence[Evaluation]) -> None:
        """Keep evaluations; given twice they are kept twice.

        Raises:
            InputError: a value cannot be stored as it is, or a relevance is out of range or at odds with its label.
        """
        rows = [row_of_evaluation(evaluation) for evaluation in added]
        if rows:
            self._connection.execute(sa.insert(evaluations), rows)

    def of_answer(self, answer_id: AnswerId) -> list[Evaluation]:
        """Return an answer's evaluations in the order they were added."""
        rows = self._connection.execute(_OF_ANSWER, {"answer_id": checked_key(answer_id, "answer_id")})
        return [evaluation_of_row(row) for row in rows]

    def of_memory(self, memory_id: MemoryId, limit: int) -> list[Evaluation]:
        """Return at most `limit` evaluations of a memory, of all its revisions, newest first."""
        named = {"memory_id": checked_key(memory_id, "memory_id"), "at_most": limit}
        return [evaluation_of_row(row) for row in self._connection.execute(_OF_MEMORY, named)]
