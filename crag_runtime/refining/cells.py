"""Which cell of a table answers: the row that is about the question, the column that it names. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kb.terms import terms
from kb.words.strips import lexical_scores, question_terms
from kb.words.wanted_units import units_wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = 4  # letters by which a head's word is known from the question's
KEY = 0.5  # share of a cell's words, from which it is what the row is about
_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")


def is_row(piece: str) -> bool:
    """Return whether a strip is a row of a table; rulers are none."""
    return piece.lstrip().startswith("|") and "\n" not in piece and not _RULE.fullmatch(piece)


def rows_of(pieces: Sequence[str]) -> dict[int, str]:
    """Return for each row's place among strips the head of its table; a head is no row of its own."""
    heads: dict[int, str] = {}
    head = ""
    for n, piece in enumerate(pieces):
        following = pieces[n + 1] if n + 1 < len(pieces) else ""
        if is_row(piece) and _RULE.fullmatch(following) and "|" in following:
            head = piece
        elif is_row(piece) and head:
            heads[n] = head
        elif not _RULE.fullmatch(piece):
            head = ""
    return heads


def cell_of(question: str, head: str, row: str, answer: str) -> str:
    """Return the cell that answers, or the cells of the row when none is surely the one.

    A cell is the one if its column's head shares most with the question, beyond what the other heads share; or if the
    evaluator's answer lies in it alone and it is not what the row is about; or if it alone is of the unit asked for.

    Args:
        question: one sub-question.
        head: of the table.
        row: of it.
        answer: what the evaluator pointed at in the row; "" when it did not.
    """
    heads, cells = _cells(head), _cells(row)
    whole = row.strip().strip("|").strip()
    if len(heads) != len(cells):
        return whole
    chosen = _by_head(question, heads, cells)
    if chosen is None:
        chosen = _by_unit(question, heads, cells)
    if chosen is None:
        chosen = _pointed(question, cells, answer)
    return whole if chosen is None or not cells[chosen] else cells[chosen]


def likeliest_row(question: str, rows: Sequence[str], pointed: int) -> int:
    """Return the index of the row that shares more with the question than any other; `pointed` when there is none."""
    scores = lexical_scores(question, rows)
    top = max(scores)
    best = [n for n, score in enumerate(scores) if score == top]
    return pointed if pointed in best or not top else best[0]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in _BAR.split(row.strip().removeprefix("|").removesuffix("|"))]


def _by_head(question: str, heads: Sequence[str], cells: Sequence[str]) -> int | None:
    wanted = question_terms(question)
    scores = []
    for n, head in enumerate(heads):
        own = set(terms(head).split())
        others = {term for m, other in enumerate(heads) if m != n for term in terms(other).split()}
        named = sum(term not in others and _is_asked(term, wanted) for term in own)
        scores.append(0.0 if _is_key(cells[n], wanted) or not own else named / len(own))
    top = max(scores)
    return scores.index(top) if top and scores.count(top) == 1 else None


def _is_key(cell: str, wanted: frozenset[str]) -> bool:
    """Return whether a cell says what the question says already: what the row is about."""
    own = set(terms(cell).split())
    return bool(own) and len(own & wanted) >= KEY * len(own)


def _is_asked(term: str, wanted: frozenset[str]) -> bool:
    """Return whether a question has a term, or one of its root: "meaning" for "mean"."""
    return term in wanted or any(len(word) >= ROOT and term.startswith(word) for word in wanted if word.isascii())


def _by_unit(question: str, heads: Sequence[str], cells: Sequence[str]) -> int | None:
    wanted = units_wanted(question)
    found = [n for n in range(len(cells)) if wanted.are_in(f"{heads[n]}: {cells[n]}")]
    return found[0] if len(found) == 1 else None


def _pointed(question: str, cells: Sequence[str], answer: str) -> int | None:
    if not answer:
        return None
    wanted = question_terms(question)
    found = [n for n, cell in enumerate(cells) if cell and (answer in cell or cell in answer)]
    own = [n for n in found if not _is_key(cells[n], wanted)]
    return own[0] if len(own) == 1 else None
