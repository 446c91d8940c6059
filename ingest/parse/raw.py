"""What a parser is given: a file's name and bytes, and the limits it must keep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseLimits:
    """Where parsing one document stops.

    Args:
        seconds: wall-clock time of one document, > 0.
        memory: bytes of memory the parser process may hold.
        max_bytes: larger files are refused unread.
        max_text: characters of text a document may give.
        unzipped: bytes a zip-based file may unpack to, all entries together.
        ratio: how many times larger than packed an entry above 10 MB may be.
        entries: how many entries a zip-based file may hold.
        recycle_after: documents after which a parser process that loaded heavy libraries is replaced.
    """

    seconds: float = 60.0
    memory: int = 1_000_000_000
    max_bytes: int = 50_000_000
    max_text: int = 60_000_000
    unzipped: int = 500_000_000
    ratio: float = 100.0
    entries: int = 10_000
    recycle_after: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """A file before parsing.

    Args:
        name: its name, with or without folders; only hints at the format.
        data: its bytes.
        limits: the limits its parsing must keep.
    """

    name: str
    data: bytes
    limits: ParseLimits

    @property
    def suffix(self) -> str:
        """The name's ending in lower case with its dot; "" when there is none."""
        return PurePosixPath(self.name.replace("\\", "/")).suffix.lower()
