"""Errors as problem+json (RFC 9457): the words of the command line as a caller can follow them, and a status.

401  no key, or one that opens nothing        404  there is no such thing (in this key's tenant)
403  the key may not                          409  refused by a guard: stale plan, mass, another waits; or locked
413  too large      422  not valid            429  too many requests, with Retry-After
500  unexpected     503  a dependency is away, or the server drains
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from kb import statuses
from kb.errors import Refused, StalePlan
from serving.advice import hint_over_http, over_http

if TYPE_CHECKING:
    from kb.errors import KbError
    from kb.model import Json

MEDIA_TYPE = "application/problem+json"


class Unauthorised(Refused):
    """The request carries no key that opens anything."""


class Forbidden(Refused):
    """The key may not do this."""


_OWN = ((Unauthorised, HTTPStatus.UNAUTHORIZED), (Forbidden, HTTPStatus.FORBIDDEN))


def status_of(error: KbError) -> HTTPStatus:
    """Return the status that an error answers with."""
    return statuses.status_of(error, _OWN)


def problem_of(error: KbError, *, instance: str = "") -> dict[str, Json]:
    """Return an error as a problem document."""
    status = status_of(error)
    said: dict[str, Json] = {
        "type": f"urn:kb:{type(error).__name__}",
        "title": status.phrase,
        "status": int(status),
        "detail": over_http(statuses.words_of(error)),
    }
    if error.hint:
        said["hint"] = hint_over_http(error.hint)
    if isinstance(error, StalePlan) and error.moved:
        said["moved"] = list(error.moved)
    if instance:
        said["instance"] = instance
    return said
