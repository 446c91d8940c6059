"""Answers as they were given, and what they cited: a thread's turns, and who used a memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.errors import IntegrityError
from kb.history import AnswerId, AnswerRecord, CitedMemory
from kb.ledger.batches import chunks, insert_into
from kb.ledger.checks import checked_int, checked_key, checked_name, checked_text, json_text
from kb.ledger.rows_history import answer_of_row, citation_of_row, row_of_answer, rows_of_citations
from kb.ledger.schema import answers, citations
from kb.ledger.tenants import Tenants
from kb.model import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.model import Instant, MemoryId, Scope

_A, _C = answers.c, citations.c
_TENANT: sa.BindParameter[str] = sa.bindparam("tenant")
_AT_MOST: sa.BindParameter[int] = sa.bindparam("at_most", type_=sa.Integer)
_NEWEST_FIRST = (_A.created_at.desc(), _A.id.desc())

_GET = sa.select(answers).where(_A.id == sa.bindparam("id"), _A.tenant == _TENANT)
_LATEST = (
    sa.select(answers)
    .where(_A.tenant == _TENANT, _A.thread == sa.bindparam("thread"))
    .order_by(*_NEWEST_FIRST)
    .limit(_AT_MOST)
)
_PAGE = (
    sa.select(answers)
    .where(
        _A.tenant == _TENANT,
        sa.tuple_(_A.created_at, _A.id) < sa.tuple_(sa.bindparam("before"), sa.bindparam("before_id")),
    )
    .order_by(*_NEWEST_FIRST)
    .limit(_AT_MOST)
)
_CITED = (
    sa.select(citations)
    .where(_C.answer_id.in_(sa.bindparam("answer_ids", expanding=True)))
    .order_by(_C.answer_id, _C.number)
)
_OF_MEMORY = (
    sa.select(_A.id)
    .where(_A.id.in_(sa.select(_C.answer_id).where(_C.memory_id == sa.bindparam("memory_id"))))
    .order_by(*_NEWEST_FIRST)
)


class Answers:
    """The answers of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, answer: AnswerRecord) -> bool:
        """Keep an answer with its citations, and its tenant where new; return whether it was new.

        Raises:
            InputError: a value cannot be stored as it is.
            IntegrityError: another answer has this id.
        """
        row, cited = row_of_answer(answer), rows_of_citations(answer)
        Tenants(self._connection).ensure({answer.tenant: answer.created_at})
        insert = insert_into(self._connection, answers).on_conflict_do_nothing().returning(_A.id)
        if self._connection.execute(insert, row).first() is None:
            if self.get(answer.id, answer.tenant) != _as_stored(answer):
                raise IntegrityError(f"another answer has the id {answer.id}")
            return False
        if cited:
            self._connection.execute(sa.insert(citations), cited)
        return True

    def get(self, answer_id: AnswerId, tenant: str) -> AnswerRecord | None:
        """Return a tenant's answer, None when there is none."""
        named = {"id": checked_key(answer_id, "id"), "tenant": checked_key(tenant, "tenant")}
        found = self._whole(self._connection.execute(_GET, named))
        return found[0] if found else None

    def latest(self, tenant: str, thread: str, limit: int, *, scope: Scope | None = None) -> list[AnswerRecord]:
        """Return a thread's last answers, newest first.

        Args:
            tenant: whose.
            thread: its name; "" names no thread, so none of the answers given outside of threads is a turn of it.
            limit: at least 0.
            scope: only answers to exactly these; None: to anybody.
        """
        named = {"tenant": checked_key(tenant, "tenant"), "thread": checked_name(thread, "thread"), "at_most": limit}
        if not thread:
            return []
        query = _LATEST if scope is None else _LATEST.where(*_is_of(scope))
        return self._whole(self._connection.execute(query, named))

    def page(
        self, tenant: str, before: Instant = FOREVER, limit: int = 50, *, before_id: str = ""
    ) -> list[AnswerRecord]:
        """Return a tenant's answers given before an instant, newest first.

        Args:
            tenant: whose.
            before: `created_at` of the last answer already seen.
            limit: at least 0.
            before_id: id of the last answer already seen, so that others of its instant are not passed over.
        """
        named = {
            "tenant": checked_key(tenant, "tenant"),
            "before": checked_int(before, "before"),
            "before_id": checked_text(before_id, "before_id"),
            "at_most": limit,
        }
        return self._whole(self._connection.execute(_PAGE, named))

    def of_memory(self, memory_id: MemoryId) -> list[AnswerId]:
        """Return the answers that cited a memory, on either side of a conflict, newest first."""
        rows = self._connection.execute(_OF_MEMORY, {"memory_id": checked_key(memory_id, "memory_id")})
        return [AnswerId(key) for key in rows.scalars()]

    def _whole(self, found: Iterable[sa.Row[tuple[object, ...]]]) -> list[AnswerRecord]:
        rows = list(found)
        cited: dict[str, list[CitedMemory]] = {str(row[0]): [] for row in rows}
        for part in chunks(list(cited)):
            for row in self._connection.execute(_CITED, {"answer_ids": part}):
                cited[row[0]].append(citation_of_row(row))
        return [answer_of_row(row, cited[str(row[0])]) for row in rows]


def _is_of(scope: Scope) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _A.scope_agent == checked_name(scope.agent, "agent"),
        _A.scope_user == checked_name(scope.user, "user"),
        _A.scope_conversation == checked_name(scope.conversation, "conversation"),
    )


def _as_stored(answer: AnswerRecord) -> AnswerRecord:
    """Return an answer as the ledger gives it back: JSON knows lists, no tuples."""
    return replace(answer, report=json.loads(json_text(dict(answer.report))), citations=tuple(answer.citations))
