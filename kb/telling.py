"""By which pieces a text is known again, and how each is spelled. Pure.

A text that comes again is seldom the same passage: an edit beside it moves where passages are cut, a new item counts
the others anew, an editor changes quotation marks. So a passage is known by its telling parts as well as by the whole,
and each by its words alone.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.boundaries import clauses, paragraphs, sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TELLING_WORDS = 5  # a shorter part, as `See below.`, may stand anywhere
TELLING_HAN = 8  # likewise, letters of a script without spaces
TELLING_CELLS = 3  # likewise, words and such letters of a row of a table
LONG_WORDS, LONG_HAN = 40, 80  # of a sentence that may be cut inside: its clauses are known, too
BESIDE = 3  # short parts that are looked at on either side of a paragraph
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD, _HAN = re.compile(rf"[^\W{_CJK}]+"), re.compile(rf"[{_CJK}]")
_HEADING = re.compile(r"\s*#{1,6}\s")
_UNDERLINED = re.compile(r"[^\n|]+\n[ \t]*(?:=+|-{2,})[ \t]*(?=\n|$)")
_NUMBERED = re.compile(
    r"(?=[^\n]{1,80}$)\d{1,2}(?:\.\d{1,3}){1,4}\.?\s+\S[^\n]*(?<![.;:,!?。；：，！？…、])$"
    r"|(?=[^\n]{1,40}(?:\n|$))第[一二三四五六七八九十百千零〇两0-9]+[编篇部卷章节条款][^\n]*(?<![.;:,!?。；：，！？…、])(?=\n|$)"
)
_QUOTED = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_RULE = re.compile(r"(?=[^|]*\|)(?=[^-]*-)[\s:|-]+")  # between a table's header and its rows
_NAMING = re.compile(r"[^\W\d_]|\d{5}")  # small numbers may stand in any table
_COUNTED = re.compile(r"\|\s*\d{1,4}\s*\|")  # the number of a row: it is another one when rows come in before
_BORROWED = re.compile(  # lines of code that stand in many files
    r"from \S+ import .*|import [\w., ]+;?|#include .*|(?:using|use|package) [\w.:{}, ]+;"
)
_OPENING = re.compile(  # of headings and items
    r"(?:\s*(?:#{1,6}\s+(?:\d{1,4}(?:\.\d{1,3})*[.)]?\s+)?|[-*+•·]\s+|\d{1,4}(?:\.\d{1,3})*[.)]\s+|\d{1,4}、"
    r"|[(（][0-9一二三四五六七八九十]{1,4}[)）]|[一二三四五六七八九十]{1,3}、))+"
)
_LED = re.compile(r"(?<=\])\([^()\s]*\)|\[\^[^\]\s]+\]")  # where a link leads, and marks of footnotes
_UNSEEN = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_TOKEN = re.compile(  # a letter of a script without spaces, a word, or a sign that changes what a number means
    rf"[{_CJK}]|[^\W_{_CJK}]+|(?<!\S)[-+\u2212](?=\d)|(?<=\S)[<>≤≥±%‰°$€£¥]|[<≤≥±$€£¥](?=\s*\d)|(?<=\s)>(?=\s*\d)"
)


def marks(text: str) -> tuple[str, ...]:
    """Return the pieces that a passage is known by when it comes again, each once: the whole comes first.

    The others are its telling paragraphs, each alone and with what is too short to tell directly before or after it.
    A heading alone is none: new words under an old heading are new. But where many paragraphs are alike, as in a form
    that is filled in for everybody, it is the heading, or a short line, that says whom one is about.
    """
    own = bodies(text)
    parts = (*(body.text for body in own), *(part for body in own for part in body.set_apart()))
    return tuple(dict.fromkeys((text, *filter(is_telling, parts))))


def sayings(text: str) -> frozenset[str]:
    """Return the telling sentences of a passage, each in one spelling."""
    return frozenset(map(spelled, telling_sentences(text)))


def telling_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences, and rows of tables, that are known again by themselves, in order, each once."""
    parts = (part.strip() for body in bodies(text) for part in _sayings(body.text))
    return tuple(dict.fromkeys(part for part in parts if is_telling(part)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A telling paragraph of a passage.

    Args:
        text: of the paragraph.
        before: what stands directly before it and is too short to tell, such as headings; the nearest is the last.
        after: likewise, what follows it; the nearest is the first.
    """

    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def set_apart(self) -> Iterator[str]:
        """Yield the paragraph with what may set it apart from others: near as much as far, and on either side."""
        for number in range(1, min(len(self.before), BESIDE) + 1):
            yield "\n\n".join((*self.before[-number:], self.text))
        for number in range(1, min(len(self.after), BESIDE) + 1):
            yield "\n\n".join((self.text, *self.after[:number]))


def bodies(text: str) -> list[Body]:
    """Return the telling paragraphs of a passage, in order."""
    found: list[Body] = []
    short: tuple[str, ...] = ()
    for part in _parts(text):
        if _heading(part) == part or not is_telling(part):
            short = (*short, part)
            continue
        if found:
            found[-1] = replace(found[-1], after=short)
        found.append(Body(text=part, before=short))
        short = ()
    if found:
        found[-1] = replace(found[-1], after=short)
    return found


def _parts(text: str) -> Iterator[str]:
    """Yield the headings and paragraphs of a passage; a heading needs no blank line after it."""
    for start, end in paragraphs(text, 0, len(text)):
        piece = text[start:end].strip()
        while (heading := _heading(piece)) and piece:
            yield heading.strip()
            piece = piece[len(heading) :].strip()
        if piece:
            yield piece


def _heading(piece: str) -> str:
    """Return the heading that a piece begins with; ""."""
    if _HEADING.match(piece):
        return piece.partition("\n")[0]
    found = _UNDERLINED.match(piece) or _NUMBERED.match(piece)
    return found[0] if found else ""


def _sayings(body: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, its lines, and the rows of a table but its header, which is of nobody.

    Lists, records and code have lines and no sentences; what is too short stands together with what follows it. A
    sentence that is longer than a passage may be is cut inside, so its clauses are known, too.
    """
    lines = [line.strip() for line in _QUOTED.sub("", body).splitlines()]
    ruled = [_RULE.fullmatch(line) is not None for line in (*lines, "")]
    is_table = any(ruled) or all(line.startswith("|") for line in lines)
    told = [
        f"| {line}" if is_table and "|" in line and not line.startswith("|") else line
        for line, here, below in zip(lines, ruled, ruled[1:], strict=False)
        if not (here or below or _BORROWED.fullmatch(line))
    ]
    if not is_table:
        for a, b in sentences(body, 0, len(body)):
            yield (sentence := body[a:b])
            if len(_WORD.findall(sentence)) >= LONG_WORDS or len(_HAN.findall(sentence)) >= LONG_HAN:
                yield from _windows([sentence[c:d] for c, d in clauses(sentence, 0, len(sentence))], "")
    if len(lines) > 1:
        yield from _windows(told, "\n")


def _windows(pieces: Sequence[str], joint: str) -> Iterator[str]:
    """Yield each piece, with as many of the next ones as make it telling; rows stand alone."""
    for start, piece in enumerate(pieces):
        if piece.startswith("|"):
            yield piece
            if counted := _COUNTED.match(piece):
                yield piece[counted.end() - 1 :]
            continue
        end = start + 1
        while end < len(pieces) and not pieces[end].startswith("|") and not is_telling(joint.join(pieces[start:end])):
            end += 1
        yield joint.join(pieces[start:end])


def is_telling(piece: str) -> bool:
    """Return whether a piece says enough to be known again by it; a row of a table needs less than a sentence."""
    words, han = len(_WORD.findall(piece)), len(_HAN.findall(piece))
    if piece.startswith("|"):
        return words + han >= TELLING_CELLS and _NAMING.search(piece) is not None
    return words / TELLING_WORDS + han / TELLING_HAN >= 1


def spelled(piece: str) -> str:
    """Return a piece as tombstones know it: its words, without what a heading, or an item of a list, begins with."""
    opening = _OPENING.match(piece)
    return " ".join(tokens(piece[opening.end() :] if opening else piece)) or plain(piece)


def tokens(text: str) -> list[str]:
    """Return the words of a text, and the signs that change what its numbers mean."""
    shown = _LED.sub("", _QUOTED.sub("", html.unescape(text)).translate(_UNSEEN))
    return _TOKEN.findall(plain(shown))


def plain(text: str) -> str:
    """Return a text without regard to case, width and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
