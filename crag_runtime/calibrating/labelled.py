"""Labelled pairs as a person writes them: JSON lines, read with errors that name the line."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crag_runtime.calibrating.lines import read_lines
from crag_runtime.evidence import QuestionType
from kb.ids import ID_LENGTH, digest

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.calibrating.lines import Line
    from kb.model import Instant

FORM = (
    'one JSON object a line: {"question": "...", "passage": "...", "relevant": true}; type, title and date may follow'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """A passage, and whether a person says that it answers the question.

    Args:
        question: self-contained.
        passage: verbatim.
        relevant: the label.
        type: of question.
        title: of the passage's document.
        dated: when the passage was published; None when unknown.
        line: of the file it was read from; 0 for none. Two pairs are equal wherever they stand.
    """

    question: str
    passage: str
    relevant: bool
    type: QuestionType = QuestionType.FACTUAL
    title: str = ""
    dated: Instant | None = None
    line: int = field(default=0, compare=False)

    @property
    def passage_key(self) -> str:
        """Identity of the passage with its title and date."""
        return digest("pair", self.passage, self.title, str(self.dated))[:ID_LENGTH]

    @property
    def key(self) -> str:
        """Identity of what is graded: question, its type, and passage; the label is no part of it."""
        return digest("pair", self.question, self.type.value, self.passage_key)[:ID_LENGTH]


def read_pairs(path: Path) -> list[LabelledPair]:
    """Return the pairs of a JSON-lines file in UTF-8, with or without a byte order mark; blank lines are passed over.

    Raises:
        InputError: the file cannot be read, or a line is not a labelled pair; the message says which and why.
    """
    return [_pair(line) for line in read_lines(path, FORM)]


def _pair(line: Line) -> LabelledPair:
    line.need("question", "passage", "relevant")
    return LabelledPair(
        question=line.text("question"),
        passage=line.text("passage"),
        relevant=line.truth("relevant"),
        type=line.kind() or QuestionType.FACTUAL,
        title=line.text("title") if line.row.get("title") else "",
        dated=_instant(line),
        line=line.number,
    )


def _instant(line: Line) -> Instant | None:
    """Return an ISO date or date-time as an instant; without a zone it is UTC."""
    value = line.row.get("date")
    if value is None or value == "":
        return None
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise line.fault(f"date {value!r} is no ISO date such as 2024-09-30") from error
    try:
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (OverflowError, ValueError) as error:
        raise line.fault(f"date {value!r} is out of range") from error
