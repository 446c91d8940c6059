"""The generator that needs no model: it quotes the best sentence for each part of the question and cites it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crag_runtime.checking.support import content
from crag_runtime.evidence import Citation, Draft, Label
from crag_runtime.generators.quotation import fenced, inert, inline, is_block
from crag_runtime.language import Phrase, is_chinese, said
from crag_runtime.refining.preference import preferred
from kb.dates.almanac import day_of
from kb.terms import terms
from kb.words.strips import lexical_scores, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crag_runtime.evidence import Conflict, Excerpt, Side, Task
    from crag_runtime.threads import Threads

NAME = "extractive"
SPAN_CHARS = 120  # a longer span leads nothing: the quotation says it all
_ENDS = " .。!?！？|"
WITNESSES = 2  # sources cited for one sentence


class ExtractiveGenerator:
    """Implements `crag_runtime.ports.Generator` by quotation; costs nothing and invents nothing."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    @property
    def name(self) -> str:
        """Return `extractive`."""
        return NAME

    async def generate(self, task: Task, on_token: Callable[[str], None]) -> Draft:
        """Return the quoted answer; it streams by lines.

        Raises:
            ValueError: the task has no excerpts.
        """
        draft = await self._threads.call(quoting, task)
        for piece in draft.text.splitlines(keepends=True):
            on_token(piece)
        return draft


def quoting(task: Task) -> Draft:
    """Return the answer that quotes the task's excerpts: pure.

    Raises:
        ValueError: the task has no excerpts.
    """
    if not task.excerpts:
        raise ValueError("a task without excerpts has no answer; refuse it")
    in_chinese = is_chinese(task.plan.question)
    cited = _Cited()
    lines = [said(Phrase.UNCERTAIN, in_chinese=in_chinese)] if task.is_uncertain else []
    missing = list(task.missing)
    parts = task.plan.sub_questions
    disputed = {conflict.sub: conflict for conflict in task.conflicts}
    for sub, question in enumerate(parts):
        if question in task.missing:
            continue
        own = [excerpt for excerpt in task.excerpts if excerpt.sub == sub]
        lead = f"- {inert(question)} " if len(parts) > 1 else ""
        if sub in disputed:
            lines += _both_sides(disputed[sub], question, cited, in_chinese=in_chinese)
        elif own:
            ranked = preferred(question, own, task.today)
            lines.append(lead + _quoted(question, ranked, cited, in_chinese=in_chinese))
        else:
            missing.append(question)
    if missing:
        lines.append(not_covered(missing, in_chinese=in_chinese))
    return Draft(
        text="\n".join(lines), citations=tuple(cited.citations.values()), missing=tuple(missing), generator=NAME
    )


def not_covered(missing: Sequence[str], *, in_chinese: bool) -> str:
    """Return the line that says which parts of a question nothing covers."""
    items = said(Phrase.LIST_MARK, in_chinese=in_chinese).join(inert(" ".join(part.split())) for part in missing)
    return said(Phrase.NOT_COVERED, in_chinese=in_chinese) + items


def side_line(side: Side, marks: str, *, in_chinese: bool) -> str:
    """Return one side of a conflict: its value, its source and date, its quotation."""
    quote = None if is_block(side.quote) else inline(side.quote, side.value)
    dated = said(Phrase.NO_DATE, in_chinese=in_chinese) if side.dated is None else day_of(side.dated).isoformat()
    where = f"({', '.join(part for part in (inert(side.source), dated) if part)})"
    value = f"**{inert(side.value)}** {where}" if side.value.strip() else where
    if quote is None:
        return f"- {value} {marks}\n\n{fenced(side.quote, side.value)}\n"
    return f"- {said(Phrase.SPAN_MARK, in_chinese=in_chinese).join((value, quote))} {marks}"


@dataclass(slots=True)
class _Cited:
    """Citations by id, numbered in the order of their first use."""

    citations: dict[str, Citation] = field(default_factory=dict)

    def mark(self, known: str, quote: str, *, supports: bool = True) -> str:
        """Cite an evidence; return its mark."""
        number = len(self.citations) + 1
        citation = self.citations.setdefault(known, Citation(number=number, id=known, quote=quote, supports=supports))
        return f"[{citation.number}]"


def _quoted(question: str, ranked: Sequence[Excerpt], cited: _Cited, *, in_chinese: bool) -> str:
    best = ranked[0]
    sentence, shown, span = _sentence(question, best)
    marks = cited.mark(best.evidence.id, sentence)
    for other in _witnesses(best, span, ranked[1:]):
        marks += cited.mark(other.evidence.id, _sentence(span or question, other)[0])
    value = f"**{inert(span)}**" if span and not _is_whole(span, sentence) else ""
    quote = None if is_block(shown) else inline(shown, span)
    if quote is not None:
        return said(Phrase.SPAN_MARK, in_chinese=in_chinese).join(part for part in (value, quote) if part) + f" {marks}"
    return f"{value or said(Phrase.SAYS, in_chinese=in_chinese)} {marks}\n\n{fenced(shown, span)}\n"


def _is_whole(span: str, sentence: str) -> bool:
    return len(span) > SPAN_CHARS or "\n" in span or span.strip(_ENDS) == sentence.strip(_ENDS)


def _sentence(question: str, excerpt: Excerpt) -> tuple[str, str, str]:
    """Return the sentence to cite, the same as it is shown (a row with its table's head), and its span."""
    span = excerpt.answer.strip()
    pieces = [strip[a:b] for strip in excerpt.strips for a, b in _sentences(strip)]
    if not pieces:
        return excerpt.strips[0], excerpt.strips[0], ""
    holding = [n for n, piece in enumerate(pieces) if span and span in piece]
    if span and not holding:  # the span runs over several sentences
        strip = next((strip for strip in excerpt.strips if span in strip), "")
        return strip or excerpt.strips[0], strip or excerpt.strips[0], span if strip else ""
    scores = lexical_scores(question, pieces)
    best = max(holding or range(len(pieces)), key=lambda n: (scores[n], -n))
    return pieces[best], _with_head(pieces, best), span


def _sentences(strip: str) -> tuple[tuple[int, int], ...]:
    """Return the sentences of prose; a table, a list or code stays whole."""
    return ((0, len(strip)),) if is_block(strip) else split(strip)


def _with_head(pieces: Sequence[str], best: int) -> str:
    if not pieces[best].lstrip().startswith("|") or "\n" in pieces[best]:
        return pieces[best]
    first = best
    while first and pieces[first - 1].lstrip().startswith("|") and "\n" not in pieces[first - 1]:
        first -= 1
    has_ruler = first + 1 < best and not pieces[first + 1].strip("|-: ")
    head = [] if first == best else [pieces[first], *([pieces[first + 1]] if has_ruler else [])]
    return "\n".join((*head, pieces[best]))


def _witnesses(best: Excerpt, span: str, others: Sequence[Excerpt]) -> Iterator[Excerpt]:
    """Yield relevant excerpts from other root sources that say the same."""
    roots = {best.evidence.root or best.evidence.id}
    for other in others:
        root = other.evidence.root or other.evidence.id
        if len(roots) < WITNESSES and root not in roots and other.label is Label.RELEVANT and _says_same(span, other):
            roots.add(root)
            yield other


def _says_same(span: str, other: Excerpt) -> bool:
    wanted = content(span)
    if not wanted:
        return False
    return set(wanted) <= set(terms(other.answer or "\n".join(other.strips)).split())


def _both_sides(conflict: Conflict, question: str, cited: _Cited, *, in_chinese: bool) -> Iterator[str]:
    yield said(Phrase.DISAGREE, in_chinese=in_chinese) + inert(question)
    for ordinal, side in enumerate(conflict.sides):
        marks = "".join(cited.mark(known, side.quote, supports=ordinal == 0) for known in side.ids)
        yield side_line(side, marks, in_chinese=in_chinese)
