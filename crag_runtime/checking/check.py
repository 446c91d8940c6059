"""Second stage of evaluation: is a draft borne out by what it cites, and does it answer? Pure.

Every sentence that claims something must cite, and what it cites must have its figures, names and most of its words
(see `crag_runtime.checking.support`). The runtime's own fixed phrases and the question's own words claim nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.checking.answering import declining, gives
from crag_runtime.checking.citing import Part, pieces
from crag_runtime.checking.support import adding, content, grounds_of, has_verbatim, lacking, names, quotes
from crag_runtime.evidence import Checked
from crag_runtime.language import Phrase, both
from kb.boundaries import cells, clauses
from kb.dates.almanac import day_of
from kb.words.figures import figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.checking.citing import Piece
    from crag_runtime.checking.support import Grounds
    from crag_runtime.evidence import Draft, Task

LISTED = 3  # words that may stand in a list of what is not known
SHOWN = 160  # characters of a sentence in a complaint
_LETTERS = re.compile(r"[\W_]+")
_UNSEEN = re.compile("[\u202d\u202e\U000e0001-\U000e007f]")  # turned text, and letters for models alone
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f")  # England's, for one
_UNCERTAIN = re.compile(r"^\s*(?:this is uncertain|此答案不确定)\s*[:：]\s*", re.IGNORECASE)
_HEADS = tuple(head.strip().rstrip(":：").casefold() for p in (Phrase.NOT_COVERED, Phrase.DISAGREE) for head in both(p))
_SORRY = re.compile(r"^\W*I(?:['’]m| am)? sorry\W*$|^\W*(?:抱歉|对不起)\W*$", re.IGNORECASE)
_ASSERTING = re.compile(
    r"\b(?:am|is|are|was|were|be|been|has|have|had|must|should|shall|will|would|can|could|may|do|does|did|please|you)\b"
    r"|[是为应须要已了请]",
    re.IGNORECASE,
)
_FIXED = frozenset(_LETTERS.sub("", sentence).casefold() for sentence in both(Phrase.UNCERTAIN))


def checked(draft: Draft, task: Task) -> Checked:
    """Return whether a draft may be given out; a complaint names the first sentence that fails and what it lacks."""
    if _UNSEEN.search(_FLAG.sub("", draft.text)):
        return Checked(is_supported=False, is_answer=False, complaint="it has letters that no reader sees")
    reading = _Reading(draft, task)
    claims: list[tuple[str, tuple[int, ...]]] = []
    declined = False
    for piece in pieces(draft.text):
        if _is_silent(piece, task, reading.given):
            continue
        text = _UNCERTAIN.sub("", piece.text) if piece.part is Part.SENTENCE else piece.text
        if piece.part is Part.SENTENCE and reading.is_declining(text, piece):
            declined = True
            continue
        complaint = reading.complaint(text, piece)
        if complaint:
            return Checked(is_supported=False, is_answer=bool(piece.numbers), complaint=complaint)
        claims.append((text, piece.numbers))
    if not claims:
        return Checked(
            is_supported=declined, is_answer=False, complaint="declined" if declined else "it claims nothing"
        )
    covered = [sub for sub in task.plan.sub_questions if sub not in task.missing] or [task.plan.question]
    unanswered = tuple(sub for sub in covered if not _answers(sub, claims, draft, task))
    if len(unanswered) == len(covered):
        return Checked(is_supported=True, is_answer=False, complaint="it does not say what was asked for")
    return Checked(is_supported=True, is_answer=True, unanswered=unanswered)


@dataclass(slots=True)
class _Reading:
    """A draft with the grounds of its citations, each set of them made once."""

    draft: Draft
    task: Task
    given: Grounds  # all that the writer had
    _grounds: dict[tuple[int, ...], Grounds]

    def __init__(self, draft: Draft, task: Task) -> None:
        self.draft, self.task, self._grounds = draft, task, {}
        self.given = grounds_of(task.excerpts, _asked(task))

    def complaint(self, text: str, piece: Piece) -> str:
        """Return what is wrong with a claim; "" when nothing is."""
        if not piece.numbers:
            return f"“{_short(text)}”: nothing is cited for it"
        ids = {citation.number: citation.id for citation in self.draft.citations}
        known = {excerpt.evidence.id for excerpt in self.task.excerpts}
        for number in piece.numbers:
            if ids.get(number) not in known:
                return f"“{_short(text)}”: there is no evidence [{number}]"
        grounds = self._of(piece.numbers)
        if piece.part is Part.BLOCK:
            absent = next((line for line in text.split("\n") if line.strip() and not has_verbatim(line, grounds)), "")
            lacks = f"“{_short(absent)}” is not in it word by word" if absent else ""
        else:
            lacks = lacking(text, grounds)
        return f"“{_short(text)}”: {lacks} ({''.join(f'[{n}]' for n in piece.numbers)})" if lacks else ""

    def is_declining(self, text: str, piece: Piece) -> bool:
        """Return whether a sentence says that it does not know; words that its source has itself are a claim."""
        words = declining(text)
        if not words or self._asserts(text):
            return False
        if not piece.numbers:
            return True
        return not quotes(text) and not has_verbatim(words, self._of(piece.numbers))

    def _asserts(self, text: str) -> bool:
        """Return whether a sentence says something besides that it does not know, which nothing given says."""
        parts = [text[start:end] for start, end in clauses(text, 0, len(text))]
        return any(adding(part, self.given, words=_own_words(part)) for part in parts)

    def _of(self, numbers: tuple[int, ...]) -> Grounds:
        if numbers not in self._grounds:
            ids = {citation.id for citation in self.draft.citations if citation.number in numbers}
            sides = [side for conflict in self.task.conflicts for side in conflict.sides if ids & set(side.ids)]
            known = [day_of(side.dated).isoformat() for side in sides if side.dated is not None]
            excerpts = [excerpt for excerpt in self.task.excerpts if excerpt.evidence.id in ids]
            self._grounds[numbers] = grounds_of(excerpts, [*known, *(side.source for side in sides)])
        return self._grounds[numbers]


def _own_words(clause: str) -> int:
    """Return how many words of its own a clause of a sentence that declines may have: what is not known may be new."""
    if declining(clause) and not _SORRY.search(clause):
        return len(clause)
    return 0 if _ASSERTING.search(clause) else LISTED


def _asked(task: Task) -> tuple[str, ...]:
    return (task.plan.question, *task.plan.sub_questions, *task.missing)


def _is_silent(piece: Piece, task: Task, given: Grounds) -> bool:
    """Return whether a piece claims nothing: fixed phrases, the question's words, headings, a table's frame."""
    if piece.part is Part.FRAME:
        return all(_leads_in(piece.text[a:b], given) for a, b in cells(piece.text, 0, len(piece.text)))
    if piece.part is Part.BLOCK:
        return False
    text = piece.text
    letters = _LETTERS.sub("", text).casefold()
    if not letters or letters in _FIXED or piece.numbers:
        return not letters or letters in _FIXED
    asked = _asked(task)
    if any(letters in _LETTERS.sub("", known).casefold() for known in asked):
        return True
    if _is_fixed(text):
        return _says_no_more(text, asked)
    return text.rstrip("*_ ").endswith((":", "：")) and _leads_in(text, given)


def _leads_in(text: str, given: Grounds) -> bool:
    """Return whether a text only names what follows: with a word of its own at most, and none where it has a verb."""
    return not adding(text, given, words=0 if _ASSERTING.search(text) else 1)


def _is_fixed(text: str) -> bool:
    return text.strip("*_ ").casefold().startswith(_HEADS)


def _says_no_more(text: str, asked: tuple[str, ...]) -> bool:
    """Return whether a fixed phrase is followed by no figure, name or word that the question has not."""
    question = " ".join(asked)
    mine, theirs = figures(text), figures(question)
    if set(mine.dates) - set(theirs.dates) or set(mine.quantities) - set(theirs.quantities):
        return False
    if not {name.casefold() for name in names(text)} <= {name.casefold() for name in names(question)}:
        return False
    body = re.split(r"[:：]", text, maxsplit=1)[-1]
    return not (set(content(body)) - set(content(question)))


def _answers(sub: str, claims: Sequence[tuple[str, tuple[int, ...]]], draft: Draft, task: Task) -> bool:
    """Return whether what the draft says from a sub-question's own evidence gives what it asks for."""
    if len(task.plan.sub_questions) == 1:
        own, text = task.excerpts, " ".join(text for text, _ in claims)
    else:
        own = tuple(e for e in task.excerpts if task.plan.sub_questions[e.sub] == sub)
        ids = {e.evidence.id for e in own}
        numbers = {citation.number for citation in draft.citations if citation.id in ids}
        text = " ".join(text for text, cited in claims if numbers & set(cited))
    folded = text.casefold()
    spans = (e.answer.casefold().strip() for e in own if e.answer.strip())
    return bool(text) and (any(span in folded and gives(span, sub) for span in spans) or gives(text, sub))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
