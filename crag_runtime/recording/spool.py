"""Write-backs that the ledger could not take, kept as files beside it until it can.

Any number of processes may put, read and drop at once: a file that another has dropped meanwhile is no error.

A file holds what an answer said and cited. Who erases a memory for good asks `mentioning` for the files that speak of
it, those put aside and those half written included, and drops them.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from typing import TYPE_CHECKING

from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
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
        except (OSError, ValueError, TypeError, RecursionError) as error:
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
            except (OSError, ValueError, RecursionError) as error:
                self.put_aside(path.stem, str(error))

    def put_aside(self, name: str, problem: str) -> None:
        """Keep what cannot be used under another name, where it holds up nothing."""
        get_logger().error("write_back_unreadable", answer_id=name, problem=problem)
        path = self._folder / f"{name}.json"
        with contextlib.suppress(OSError):  # another process was quicker, or the disk refuses: it is tried again
            path.rename(path.with_suffix(ASIDE))

    def drop(self, name: str) -> bool:
        """Forget a write-back in every form it is kept in; return whether nothing of it is left."""
        try:
            for path in self._forms(name):
                path.unlink(missing_ok=True)
        except OSError as error:  # it will be read again, and found to be written
            get_logger().warning("write_back_stays", answer_id=name, problem=str(error))
            return False
        return True

    def mentioning(self, memory_ids: Collection[str]) -> list[str]:
        """Return the names of what speaks of any of these memories, or cannot be read to tell, in order.

        For erasure: `drop` each of them, and ask again: what another process keeps meanwhile is found then.
        """
        spelled = [json.dumps(id_)[1:-1].encode() for id_ in memory_ids]
        found = set()
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                try:
                    data = path.read_bytes()
                except FileNotFoundError:
                    continue  # another process has dropped it meanwhile
                except OSError:
                    found.add(_name_of(path))
                    continue
                if any(id_ in data for id_ in spelled):
                    found.add(_name_of(path))
        return sorted(found)

    def count(self) -> int:
        """Return how many are kept."""
        return len(self._files())

    def _forms(self, name: str) -> list[Path]:
        """Return where a write-back may be kept: waiting, put aside, and half written by a process that died."""
        halves = [p for p in self._folder.glob(f".{glob.escape(name)}.*") if _name_of(p) == name]
        return [self._folder / f"{name}.json", self._folder / f"{name}{ASIDE}", *halves]

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


def _name_of(path: Path) -> str:
    """Return the name that a file was put under."""
    is_half = path.name.startswith(".")
    return path.name[1:].rpartition(".")[0] if is_half else path.stem
