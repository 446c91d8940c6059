"""The leader's lease: one daemon of all replicas schedules, the others stand by.

It is a named lock of the ledger (an advisory lock on PostgreSQL, `flock` beside a SQLite file), which its holder's
death frees by itself. A holder can lose it without dying, so it is asked for again before every batch of work.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kb.errors import Locked

if TYPE_CHECKING:
    from kb.ledger import Ledger
    from kb.ledger.locks import Held

LEADER = "daemon"


class Lease:
    """The right to lead. Taken and given back by one thread, asked for by any.

    Args:
        ledger: whose jobs are led.
        name: of the lock.
    """

    def __init__(self, ledger: Ledger, name: str = LEADER) -> None:
        self._ledger = ledger
        self._name = name
        self._stack = ExitStack()
        self._held: Held | None = None
        self._mutex = threading.Lock()

    def take(self) -> bool:
        """Try once to get the lease, without waiting; return whether it is held now. What was lost is given back first.

        Raises:
            LedgerUnavailable: the lock cannot be asked for.
        """
        if self.is_held():
            return True
        self.give_back()
        try:
            held = self._stack.enter_context(self._ledger.lock(self._name))
        except Locked:
            return False
        with self._mutex:
            self._held = held
        return True

    def is_held(self) -> bool:
        """Return whether the lease is still this daemon's: asks the lock itself."""
        with self._mutex:
            held = self._held
        return held is not None and held.is_held()

    def give_back(self) -> None:
        """Let another daemon lead; giving back what is not held is no error."""
        with self._mutex:
            self._held = None
        self._stack.close()
