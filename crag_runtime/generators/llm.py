"""The generator that writes with a chat model, from quoted evidence only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.checking.answering import declining
from crag_runtime.checking.citing import Marks, numbering, pieces
from crag_runtime.checking.support import grounds_of, has_verbatim, lacking, quotes
from crag_runtime.evidence import Citation, Draft, Usage
from crag_runtime.generators.extractive import not_covered, side_line
from crag_runtime.generators.quotation import inert
from crag_runtime.language import Phrase, is_chinese, said
from crag_runtime.prompts import answer_messages
from kb.errors import Fault, ModelUnavailable
from kb.words.strips import lexical_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crag_runtime.checking.support import Grounds
    from crag_runtime.evidence import Conflict, Excerpt, Task
    from crag_runtime.threads import Threads
    from kb.chat import Chat, Spent

_THINKS, _THOUGHT = "<think>", "</think>"


class LlmGenerator:
    """Implements `crag_runtime.ports.Generator` with a chat model.

    What the runtime knows for sure is not left to the model: the flag of uncertainty comes before its text, parts that
    nothing covers and sides of a conflict that it left out come after it, in the runtime's own words.

    Args:
        chat: the model.
        threads: for what takes longer than an event loop may wait.
    """

    def __init__(self, chat: Chat, threads: Threads) -> None:
        self._chat = chat
        self._threads = threads

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._chat.model

    async def generate(self, task: Task, on_token: Callable[[str], None]) -> Draft:
        """Return what the model wrote, its marks in one form.

        Raises:
            ValueError: the task has no excerpts.
            ModelUnavailable: no reply, or none that can be used.
        """
        if not task.excerpts:
            raise ValueError("a task without excerpts has no answer; refuse it")
        in_chinese = is_chinese(task.plan.question)
        text = _Text(numbering(task.excerpts), on_token)
        if task.is_uncertain:
            text.say(said(Phrase.UNCERTAIN, in_chinese=in_chinese) + "\n")
        reply = await self._chat.complete(answer_messages(task), text.take)
        text.finish(reply.text)
        if not text.has_begun:
            raise _empty(reply.spent)
        for line in _added(task, text, in_chinese=in_chinese):
            text.say(f"\n{line}")
        citations = await self._threads.call(_citations, text.whole, text.ids(), task)
        spent = reply.spent
        usage = Usage(llm_calls=spent.calls, tokens_in=spent.tokens_in, tokens_out=spent.tokens_out)
        return Draft(
            text=text.whole, citations=citations, missing=task.missing, usage=usage, generator=self._chat.model
        )


class _Text:
    """The answer as it grows: a model's pieces go through the marks, without reasoning and blanks at either end."""

    def __init__(self, numbers: dict[str, int], on_token: Callable[[str], None]) -> None:
        self._numbers = numbers
        self._marks = Marks(frozenset(numbers.values()))
        self._on_token = on_token
        self._raw = ""  # as it came from the model
        self._used = 0  # of it, characters that went on
        self._blank = ""  # held back: it may be the end
        self.has_begun = False
        self.whole = ""

    def take(self, piece: str) -> None:
        """Take a piece of the model's reply."""
        self._raw += piece
        start = _after_thought(self._raw)
        if start is None:
            return
        fresh = self._raw[max(start, self._used) :]
        self._used = len(self._raw)
        self._write(self._marks.feed(fresh))

    def finish(self, reply: str) -> None:
        """End the model's part; a reply that was not streamed, or not to its end, is taken now."""
        if reply.startswith(self._raw):
            self.take(reply[len(self._raw) :])
        if not self._used:  # it never stopped thinking, or began as if it would
            self._write(self._marks.feed(self._raw.removeprefix(_THINKS)))
        self._write(self._marks.close())
        self._blank = ""

    def say(self, line: str) -> None:
        """Write words of the runtime's own."""
        self.whole += line
        self._on_token(line)

    def mark(self, known: str) -> str:
        """Return the mark of an evidence, numbering it if it is new."""
        return f"[{self._marks.number(self._numbers[known])}]" if known in self._numbers else ""

    def ids(self) -> dict[int, str]:
        """Return the evidence of each number given out."""
        written = {number: known for known, number in self._numbers.items()}
        return {given: written[number] for number, given in self._marks.used.items()}

    def _write(self, piece: str) -> None:
        if not self.has_begun:
            piece = piece.lstrip()
        kept = (self._blank + piece).rstrip()
        self._blank = (self._blank + piece)[len(kept) :]
        if kept:
            self.has_begun = True
            self.say(kept)


def _empty(spent: Spent) -> ModelUnavailable:
    error = ModelUnavailable("the chat model's reply has no answer in it", fault=Fault.MALFORMED)
    error.calls, error.tokens_in, error.tokens_out = spent.calls, spent.tokens_in, spent.tokens_out
    return error


def _after_thought(raw: str) -> int | None:
    """Return where the answer starts after a reasoning block at the reply's beginning; None when that is not known."""
    body = raw.lstrip()
    if body.startswith(_THINKS):
        end = raw.find(_THOUGHT)
        return None if end < 0 else end + len(_THOUGHT)
    return None if _THINKS.startswith(body) else 0


def _added(task: Task, text: _Text, *, in_chinese: bool) -> Iterator[str]:
    """Yield what the model should have said and did not."""
    if not text.ids():
        return  # it declined, or cited nothing: the check refuses that, and more words would hide it
    for conflict in task.conflicts:
        if not _shows(conflict, text.ids().values()):
            yield said(Phrase.DISAGREE, in_chinese=in_chinese) + inert(task.plan.sub_questions[conflict.sub])
            for side in conflict.sides:
                yield side_line(side, "".join(text.mark(known) for known in side.ids), in_chinese=in_chinese)
    if task.missing:
        yield not_covered(task.missing, in_chinese=in_chinese)


def _shows(conflict: Conflict, cited: object) -> bool:
    known = set(cited)  # type: ignore[call-overload] # a view of ids
    return all(known & set(side.ids) for side in conflict.sides)


def _citations(text: str, ids: dict[int, str], task: Task) -> tuple[Citation, ...]:
    """Return what the numbers mean, each with the words it was cited for and whether they bear the sentence out."""
    other_sides = {known for conflict in task.conflicts for side in conflict.sides[1:] for known in side.ids}
    said_with: dict[int, list[tuple[str, int]]] = {}
    for piece in pieces(text):
        for number in piece.numbers:
            said_with.setdefault(number, []).append((piece.text, len(piece.numbers)))
    found = []
    for number, known in ids.items():
        own = [excerpt for excerpt in task.excerpts if excerpt.evidence.id == known]
        sentences = said_with.get(number, [])
        supports = known not in other_sides and _supports(sentences, own)
        quote = _quote(sentences[0][0] if sentences else "", own)
        found.append(Citation(number=number, id=known, quote=quote, supports=supports))
    return tuple(found)


def _supports(sentences: Sequence[tuple[str, int]], own: Sequence[Excerpt]) -> bool:
    """Return whether an evidence bears out, by itself, a sentence that cites it; the only one cited is taken to.

    A sentence that only says what is not known rests on nothing.
    """
    grounds = grounds_of(own)
    return any(
        citing == 1 or not lacking(sentence, grounds)
        for sentence, citing in sentences
        if not _is_declining(sentence, grounds)
    )


def _is_declining(sentence: str, grounds: Grounds) -> bool:
    """Return whether a sentence says that it does not know, in words of its own."""
    words = declining(sentence)
    return bool(words) and not quotes(sentence) and not has_verbatim(words, grounds)


def _quote(sentence: str, own: Sequence[Excerpt]) -> str:
    strips = [strip for excerpt in own for strip in excerpt.strips]
    scores = lexical_scores(sentence, strips)
    return strips[max(range(len(strips)), key=lambda n: (scores[n], -n))]
