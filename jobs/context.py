"""What a job is given: settings, the store, the time, who asks, and whether to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from jobs.report import Tally
    from kb.memories import Memories
    from kb.ports import Clock
    from kb.settings import Settings


def never() -> bool:
    """Return that nothing is to end."""
    return False


def ignore(_steps: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What every job gets.

    Args:
        settings: all of them.
        open_memories: opens the store for one run and closes it after, so that nothing of it stays between runs.
        clock: the time.
        is_stopped: asked before every batch; True: leave the rest for the next run. The lease's fence is in it.
        advance: told how many actions or documents are done.
        actor: who set it off, as a sweep records it.
        reason: why, in a person's words.
        tenant: only this tenant; None: every tenant of the ledger.
        is_dry: only say what would be done; nothing is written.
        allow_mass: consent to a sweep that retires much of a tenant.
    """

    settings: Settings
    open_memories: Callable[[], AbstractContextManager[Memories]]
    clock: Clock
    is_stopped: Callable[[], bool] = never
    advance: Callable[[int], None] = ignore
    actor: str = "daemon"
    reason: str = ""
    tenant: str | None = None
    is_dry: bool = False
    allow_mass: bool = False


def tenants_of(context: JobContext, memories: Memories) -> list[str]:
    """Return the tenants that a job is about, in order."""
    if context.tenant is not None:
        return [context.tenant]
    with memories.ledger.read() as tx:
        return tx.tenants.list()


def note_stranger(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Note that a tenant is named of which nothing is stored: a misspelt name must not pass for an idle one."""
    if context.tenant is None:
        return
    with memories.ledger.read() as tx:
        if context.tenant not in tx.tenants.list():
            tally.notes.append(f"nothing of a tenant {context.tenant!r} is stored")
