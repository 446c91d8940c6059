"""What a test lets be erased for good, what happens meanwhile, and what is kept out for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.reach import Wanted
from governance.selection import Selection
from jobs import erasure
from kb.settings import Settings
from kb.sweeps import TombstoneKind
from tests.erasing import BY
from tests.swept import policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from governance.reach import Reach
    from kb.ledger.locks import Held
    from kb.memories import Memories
    from kb.model import Memory


def agree(_: Reach) -> None:
    """Consent to whatever goes."""


def forget(
    store: Memories,
    home: Path,
    *gone: Memory | str,
    source: str = "",
    consent: Callable[[Reach], None] = agree,
    **wanted: bool,
) -> erasure.Erased:
    """Erase memories, what has such an id, or a source; the runtime's files are looked for in `home / "kb"`."""
    ids = tuple(one if isinstance(one, str) else one.id for one in gone)
    done = erasure.forget(
        store,
        Settings(data_dir=home / "kb"),
        Wanted(selection=Selection(memories=ids, source=source), **wanted),
        policy=policy(),
        actor=BY,
        consent=consent,
    )
    assert done.is_complete
    return done


class Meanwhile:
    """Lets things happen one by one, each after a survey of an erasure, before its sweep, which takes this lock."""

    def __init__(self, store: Memories, *then: Callable[[], object]) -> None:
        self._lock = store.ledger.lock
        self._then = list(then)
        self._has_consent = False

    def consent(self, _: Reach) -> None:
        self._has_consent = True

    def __call__(self, name: str, **wait: float) -> AbstractContextManager[Held]:
        if name.startswith("govern:") and self._has_consent and self._then:
            self._then.pop(0)()
        return self._lock(name, **wait)


def barred(store: Memories, *texts: str) -> list[str]:
    """Return the texts that are kept out as they are, since they were erased."""
    with store.ledger.read() as tx:
        found = tx.tombstones.among("default", TombstoneKind.TEXT, texts)
    return [text for text in texts if text in found and found[text].is_erased]
