"""Makes a sync of what a request asks for: parser in a worker of its own, under the limits that the settings give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.parse.raw import ParseLimits
from ingest.parse.worker import ParserWorker
from ingest.pipeline import Sync

if TYPE_CHECKING:
    from ingest.pipeline import Progress
    from ingest.requests import SyncRequest
    from kb.memories import Memories
    from kb.settings import Settings


def sync_of(memories: Memories, settings: Settings, request: SyncRequest, progress: Progress) -> Sync:
    """Return the sync of one source, ready to run.

    Raises:
        KbError: what keeps this source from being synced.
    """
    if request.problem is not None:
        raise request.problem
    limits = ParseLimits(seconds=settings.ingest.parse_seconds, memory=settings.ingest.parse_memory)
    return Sync(
        memories,
        request.target,
        request.options,
        settings,
        open_parser=lambda: ParserWorker(limits),
        progress=progress,
    )
