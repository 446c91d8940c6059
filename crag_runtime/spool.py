"""Write-backs that the ledger could not take, kept as files beside it until it can.

Any number of processes may put, read and drop at once: a file that another has dropped meanwhile is no error.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.model import Json

FOLDER = "write-backs"
ASIDE = ".unreadable"


class Spool:
    """A folder of JSON files, one an answer. A file is whole or not there."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER

    def put(self, name: str, data: dict[str, Json]) -> bool:
        """Keep `data` under `name`; return whether the disk took it."""
        scratch = self._folder / f".{name}.{os.getpid()}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
                json.dump(data, stream, ensure_ascii=True)
                stream.flush()
                os.fsync(stream.fileno())
            scratch.replace(self._folder / f"{name}.json")
            self._settle()
        except OSError as error:
            with contextlib.suppress(OSError):
                scratch.unlink()
            get_logger().error("write_back_lost", answer_id=name, problem=str(error))
            return False
        return True

    def waiting(self, limit: int) -> Iterator[tuple[str, Json]]:
        """Yield at most `limit` of what is kept, oldest first; a file that cannot be read is put aside, not lost."""
        for path in self._files()[:limit]:
            try:
                yield path.stem, json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # another process has written it back meanwhile
            except (OSError, ValueError) as error:
                self.put_aside(path.stem, str(error))

    def put_aside(self, name: str, problem: str) -> None:
        """Keep what cannot be used under another name, where it holds up nothing."""
        get_logger().error("write_back_unreadable", answer_id=name, problem=problem)
        path = self._folder / f"{name}.json"
        with contextlib.suppress(OSError):  # another process was quicker, or the disk refuses: it is tried again
            path.rename(path.with_suffix(ASIDE))

    def drop(self, name: str) -> None:
        """Forget what was written since."""
        try:
            (self._folder / f"{name}.json").unlink(missing_ok=True)
        except OSError as error:  # it will be read again, and found to be written
            get_logger().warning("write_back_stays", answer_id=name, problem=str(error))

    def count(self) -> int:
        """Return how many are kept."""
        return len(self._files())

    def _settle(self) -> None:
        """Make the new name outlive a power cut."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _files(self) -> list[Path]:
        """Return the files, oldest first."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.glob("*.json"):
                with contextlib.suppress(FileNotFoundError):
                    found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found)]
