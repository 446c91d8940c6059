"""The HTTP status and the words that an error answers with, on every face that speaks HTTP: for who can act.

404 there is no such thing · 422 the request · 409 a guard said no, or another run holds the lock · 503 an outside
service · 500 the operator: a setting, a defect. A face has statuses of its own for who calls (401, 403).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from kb.errors import (
    DependencyError,
    EmbedderUnavailable,
    IndexUnavailable,
    InputError,
    KbError,
    LedgerUnavailable,
    Locked,
    Refused,
    UnknownAnswer,
    UnknownMemory,
    UnknownSweep,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

_STATUS: tuple[tuple[type[KbError], HTTPStatus], ...] = (  # first match wins: narrow before wide
    (UnknownMemory, HTTPStatus.NOT_FOUND),
    (UnknownAnswer, HTTPStatus.NOT_FOUND),
    (UnknownSweep, HTTPStatus.NOT_FOUND),
    (InputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (Refused, HTTPStatus.CONFLICT),
    (Locked, HTTPStatus.CONFLICT),
    (DependencyError, HTTPStatus.SERVICE_UNAVAILABLE),
)

_AWAY: tuple[tuple[type[KbError], str], ...] = (
    (LedgerUnavailable, "the ledger is away, or another writer holds it"),
    (IndexUnavailable, "the index is away"),
    (EmbedderUnavailable, "the embedder is away"),
)


def status_of(error: KbError, own: Iterable[tuple[type[KbError], HTTPStatus]] = ()) -> HTTPStatus:
    """Return the status that an error answers with.

    Args:
        error: any.
        own: statuses of the face's own errors, which come first.
    """
    return next((s for kind, s in (*own, *_STATUS) if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def words_of(error: KbError) -> str:
    """Return what a caller is told of an error: never where a part of the server is, for anybody may be calling."""
    return next((said for kind, said in _AWAY if isinstance(error, kind)), str(error))
