"""One process that exports or imports, to be killed from outside: `python -m tests.crash.mover WHAT DATA_DIR ARCHIVE`.

Prints `ready` before it begins and `done` at its end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kb.moving.exporting import exported
from kb.moving.importing import imported
from tests.moving import WHOLE, settings_of
from tests.stores import open_store


def main(what: str, data_dir: str, archive: str) -> None:
    """Move a store that `tests.moving` knows."""
    path = Path(archive)
    with open_store(Path(data_dir)) as memories:
        settings = settings_of(memories, path)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if what == "export":
            exported(memories, settings, path, WHOLE)
        else:
            imported(memories, settings, path)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
