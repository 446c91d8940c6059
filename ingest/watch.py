"""`--watch`: tells when a source should be synced again. Events get lost, so a full sync comes now and then anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DEBOUNCE_MS = 2_000  # editors write in bursts; a half-written file would only be read twice
FULL_SYNC_MS = 300_000


def changed(locations: Sequence[Path]) -> Iterator[None]:
    """Yield whenever files below the locations have changed and come to rest, and every five minutes regardless.

    A location that is not there yet is looked for every five minutes only. Ends at an interrupt: that is how a watch is
    meant to end.
    """
    from watchfiles import watch  # noqa: PLC0415 - only `--watch` needs it

    for _ in watch(
        *(p for p in locations if p.exists()),
        debounce=DEBOUNCE_MS,
        rust_timeout=FULL_SYNC_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
    ):
        yield
