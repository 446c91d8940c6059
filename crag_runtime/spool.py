"""Write-backs that the ledger could not take, kept as files beside it until it can."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.model import Json

FOLDER = "write-backs"


class Spool:
    """A folder of JSON files, one an answer. A file is whole or not there."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER

    def put(self, name: str, data: dict[str, Json]) -> bool:
        """Keep `data` under `name`; return whether the disk took it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch = self._folder / f".{name}.{os.getpid()}"
            with scratch.open("w", encoding="utf-8") as stream:
                json.dump(data, stream, ensure_ascii=True)
                stream.flush()
                os.fsync(stream.fileno())
            scratch.replace(self._folder / f"{name}.json")
        except OSError as error:
            get_logger().error("write_back_lost", answer_id=name, problem=str(error))
            return False
        return True

    def waiting(self) -> Iterator[tuple[str, Json]]:
        """Yield what is kept, oldest first; a file that cannot be read is put aside, not lost."""
        for path in self._files():
            try:
                yield path.stem, json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                get_logger().error("write_back_unreadable", file=path.name, problem=str(error))
                path.rename(path.with_suffix(".unreadable"))

    def drop(self, name: str) -> None:
        """Forget what was written since."""
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def count(self) -> int:
        """Return how many are kept."""
        return len(self._files())

    def _files(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(self._folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
