"""One process that erases, to be killed from outside: `python -m tests.crash.eraser HOME ID...`.

Prints `ready` before it begins and `done` when the erasure has been read back.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.erasing import open_vault


def main(home: str, *named: str) -> None:
    """Erase memories from a store that `tests.erasing.fill` has filled."""
    with open_vault(Path(home)) as vault:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        assert vault.forget(*named).is_complete
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
