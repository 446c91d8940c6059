"""How much memory a process holds, asked of the system it runs on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes(pid: int) -> int:
    """Return the bytes of memory process `pid` holds; 0 when it is gone or the system does not say."""
    if not (_PROC / "self" / "statm").exists():
        return _asked_of_ps(pid)
    try:
        return int((_PROC / str(pid) / "statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def _asked_of_ps(pid: int) -> int:
    command = ["ps", "-o", "rss=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603 - our own fixed command
    return int(found.stdout.strip() or 0) * 1024
