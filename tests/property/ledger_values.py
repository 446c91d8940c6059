"""What may be put into a ledger, for laws: texts, names and JSON that both databases hold, and texts neither may."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
SAMPLES = st.sampled_from(
    ["", "中文，句子。", "👩‍👩‍👧 emoji", "a'b\"c\\d%_", "\n\t\r\x01\x7f", "\ufeff\uffff\U0010ffff", "'; DROP"]
)
TEXT = SAMPLES | st.text(CHARACTERS, max_size=60)
NAME = st.text(CHARACTERS, min_size=1, max_size=40)
INT64 = st.integers(-(2**63), 2**63 - 1)
UNIT = st.floats(0, 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
REAL = FINITE.map(lambda number: number + 0.0)  # as a column keeps it: SQLite knows no sign of zero, JSON does
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
BAD = st.text(CHARACTERS, max_size=5), st.sampled_from(["\0", "\ud800", "\udfff"]), st.text(CHARACTERS, max_size=5)
BAD_TEXT = st.tuples(*BAD).map("".join)


class Undo(Exception):  # noqa: N818 - ends every example without a trace
    pass


@contextmanager
def undone(ledger: Ledger) -> Iterator[LedgerTx]:
    """Open a transaction that leaves nothing behind."""
    with suppress(Undo), ledger.write() as tx:
        yield tx
        raise Undo
