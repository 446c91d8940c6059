"""What a page says after something was done: which sweep did it, and the way back."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fastapi.responses import RedirectResponse

from kb.errors import InputError
from kb.sweeps import SweepId, SweepStatus

if TYPE_CHECKING:
    from fastapi import Request

    from kb.memories import Memories
    from kb.sweeps import Sweep

ID_LENGTH = 64


_INSIDE = re.compile(r"/(?:[\w.~:@!$&'()*+,;=%?-][\w.~:@!$&'()*+,;=%?/-]*)?", re.ASCII)


def after(request: Request, path: str, sweeps: list[Sweep], *, place: str = "", **query: str) -> RedirectResponse:
    """Return the way to a page that says what was done.

    Args:
        request: that did it.
        path: of the page.
        sweeps: that did it; the last one is spoken of.
        place: id of an element to go to; "" for the page's top.
        **query: what else the page is to know; what is "" is left out.
    """
    said = {k: v for k, v in {"done": sweeps[-1].id if sweeps else "", **query}.items() if v}
    tail = (f"?{urlencode(said)}" if said else "") + (f"#{place}" if place else "")
    return RedirectResponse(f"{request.scope.get('root_path', '')}{path}{tail}", HTTPStatus.SEE_OTHER)


def inside(path: str) -> str:
    """Return a path that a form or link names, if it can only lead to a page of this console; else the first page."""
    return path if _INSIDE.fullmatch(path) else "/"


def sure(ticked: str, of: str) -> None:
    """Let pass what was ticked, for a browser may not have asked.

    Raises:
        InputError: it was not.
    """
    if not ticked:
        raise InputError(f"{of} asks for a tick in its box", hint="go back, tick it, and send the form again")


def told(memories: Memories, tenant: str, done: str) -> Sweep | None:
    """Return the tenant's sweep that a page is asked to speak of, None for anything else."""
    if not done or len(done) > ID_LENGTH or not done.isalnum():
        return None
    with memories.ledger.read() as tx:
        found = tx.sweeps.get(SweepId(done))
    return found if found is not None and found.tenant == tenant else None


def can_undo(sweep: Sweep) -> bool:
    """Return whether a sweep can be taken back: it ended, is no undoing, and erased nothing."""
    is_over = sweep.status is SweepStatus.DONE and sweep.undoes is None
    return is_over and not sweep.counts.get("erase")
