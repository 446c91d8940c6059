"""A paragraph that was rolled back stays out in whatever passage, document and source it comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.model import Standing
from tests.rolling import roll_back, says, stored, sync
from tests.stores import write

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

BAD = "The Anping bridge carries ninety tons on a dry day, says the new guide."
WORSE = "安平桥在晴天可以承载九十吨的货车通行。"
GOOD = "The ferry below the bridge leaves at noon on every single day."


@pytest.mark.parametrize("again", [BAD, WORSE, f"  {BAD.upper()} "])
def test_one_paragraph_of_a_bad_passage_is_known_among_others(
    store: Memories, folder: Path, tmp_path: Path, again: str
) -> None:
    write(folder, guide_md=f"# Guide\n\n{BAD}\n\n{WORSE}\n")
    sync(store, folder)
    assert len(stored(store, BAD)) == 1, "they are one passage"
    assert says(store, BAD)
    roll_back(store, source="docs")
    other = tmp_path / "other"
    other.mkdir()
    write(other, ferry_md=f"# Ferry\n\n{GOOD}\n\n{again}\n", harmless_md=f"# Harmless\n\n{GOOD}\n")
    sync(store, other)
    assert not says(store, again.strip())
    assert {m.standing for m in stored(store, again.strip())} == {Standing.QUARANTINED}
    assert says(store, GOOD) == ["file://other/harmless.md"]
