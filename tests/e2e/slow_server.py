"""A `kb serve` whose answers are written only once a file is there: for stories of ending it meanwhile.

    python slow_server.py FOLDER DRAIN_SECONDS

Prints one JSON object when it is ready: url and key. The store is FOLDER/data; the file is FOLDER/go; FOLDER/asked says
how many answers wait for it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import log
from kb.clock import SystemClock
from kb.keys import Holder, KeyScope
from kb.rebuild import reconcile
from kb.settings import Settings
from serving.run import Manner, serve
from tests.durable import Place, kept, remember
from tests.fakes.generator import FakeGenerator
from tests.served import NOON, key_in
from tests.stores import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from crag_runtime.evidence import Draft, Task
    from crag_runtime.runtime import CragRuntime
    from kb.memories import Memories


class Patient(FakeGenerator):
    """Waits for a file before it writes."""

    def __init__(self, go: Path) -> None:
        super().__init__()
        self._go = go
        self._asked = 0

    async def generate(self, task: Task, on_token: Callable[[str], None]) -> Draft:
        self._asked += 1
        (self._go.parent / "asked").write_text(str(self._asked))
        while not self._go.exists():  # noqa: ASYNC110 - a file tells nobody when it is there
            await asyncio.sleep(0.02)
        return await super().generate(task, on_token)


def main(folder: Path, drain_seconds: float) -> None:
    """Serve until told to end."""
    serving = {"drain_seconds": drain_seconds, "port": 0, "mcp": False, "console": False, "burst": 1_000}
    given: Any = {"serve": serving}
    settings = Settings(data_dir=folder / "data", **given, ask={"checkpointer": "sqlite"})  # type: ignore[arg-type]
    with open_store(folder / "data", clock=SystemClock()) as memories:  # type: ignore[arg-type] # tells the time
        if not memories.page("default", limit=1):
            remember(memories, NOON)
        reconcile(memories)  # the index was the former process's
        key = key_in(memories, [KeyScope.QUERY], name="ada", tenant="default", holder=Holder.PERSON)

        @asynccontextmanager
        async def opening() -> AsyncIterator[tuple[Memories, CragRuntime]]:
            async with kept(
                Place(kind="sqlite"), memories, folder / "data", durability="sync", generator=Patient(folder / "go")
            ) as runtime:
                yield memories, runtime

        def ready(url: str) -> None:
            sys.stdout.write(json.dumps({"url": url, "key": key}) + "\n")
            sys.stdout.flush()

        serve(settings, memories.clock, Manner(opening=opening, ready=ready))


if __name__ == "__main__":
    log.configure("info")
    main(Path(sys.argv[1]), float(sys.argv[2]))
