"""Foreign text shown as a quotation in Markdown: verbatim to the reader, inert to whatever renders it. Pure."""

from __future__ import annotations

import re

from crag_runtime.checking.citing import FENCE, cited_numbers, unmarked
from kb.boundaries import sentences

QUOTE_CHARS = 400  # longest quotation in a line
BLOCK_LINES, BLOCK_CHARS = 12, 1200  # largest quotation of several lines
_MARKS = (("“", "”"), ("「", "」"), ("«", "»"))
_STRUCTURED = re.compile(r"^(?:\s{4}|\t|\s*(?:\||[-*+•]\s|\d{1,3}[.)]\s|#{1,6}\s|```|~~~|>|<))")
_ACTIVE = re.compile(r"(?<!\\)(<(?=[A-Za-z/!?])|!(?=\[)|\](?=\())")
_TICKS = re.compile(r"(?<!\\)`")
_WRAP = re.compile(r"\s*\n\s*")
_WIDE = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]$")


def is_block(text: str) -> bool:
    """Return whether a text must keep its lines: a table, a list, code. Prose may be wrapped anew."""
    lines = text.strip("\n").split("\n")
    return len(lines) > 1 and any(_STRUCTURED.match(line) for line in lines)


def inline(text: str, around: str) -> str | None:
    """Return a sentence in quotation marks on one line, bounded around the span `around`; None when it cannot be."""
    line = _joined(text)
    line = _bounded(line, line.find(around) if around else 0, len(around))
    pair = next((pair for pair in _MARKS if not any(mark in line for mark in pair)), None)
    if pair is None:
        return None
    return f"{pair[0]}{inert(line)}{pair[1]}"


def fenced(text: str, around: str) -> str:
    """Return a text of several lines as a fenced block that it cannot close, its lines bounded around `around`."""
    lines = [line.rstrip() for line in text.strip("\n").split("\n")]
    if len(lines) > BLOCK_LINES or len(text) > BLOCK_CHARS:
        lines = _kept(lines, around)
    runs = re.findall(r"`+", "\n".join(lines))
    fence = "`" * max(FENCE, 1 + max(map(len, runs), default=0))
    return "\n".join((fence, *lines, fence))


def inert(text: str) -> str:
    """Return one line of foreign text without live markup: no marks, tags, images, links or open code spans."""
    text = _ACTIVE.sub(r"\\\1", text)
    if len(_TICKS.findall(text)) % 2 or "``" in text:
        text = _TICKS.sub(r"\\`", text)
    text = unmarked(text)
    if cited_numbers(f"{text} [1]") == (1,):
        return text
    return unmarked(re.sub(r"[`\\]", "", text))  # its own backslashes defeat ours: better without either


def _joined(text: str) -> str:
    """Return wrapped prose on one line; between Chinese letters a line's end is no blank."""
    line = ""
    for part in _WRAP.split(text.strip()):
        blank = " " if line and not (_WIDE.search(line) and _WIDE.match(part[:1])) else ""
        line += blank + part
    return line


def _bounded(line: str, at: int, length: int) -> str:
    """Return the sentence around a place, or a window of a long one, with ellipses where it was cut."""
    if len(line) <= QUOTE_CHARS:
        return line
    at = max(at, 0)
    spans = sentences(line, 0, len(line))
    start, end = next(((a, b) for a, b in spans if a <= at < b), spans[0])
    end = max(end, min(at + length, start + QUOTE_CHARS))
    if end - start > QUOTE_CHARS:
        start = max(start, min(at - QUOTE_CHARS // 4, end - QUOTE_CHARS))
        end = min(end, start + QUOTE_CHARS)
    cut = line[start:end].strip()
    return f"{'…' if start else ''}{cut}{'…' if end < len(line) and line[end:].strip() else ''}"


def _kept(lines: list[str], around: str) -> list[str]:
    """Return a table's head or a block's first line, and the lines around the span."""
    hit = next((n for n, line in enumerate(lines) if around and around in line), 0)
    head = 2 if len(lines) > 1 and set(lines[1]) <= set("|-: ") else 1
    first = max(head, min(hit - BLOCK_LINES // 3, len(lines) - (BLOCK_LINES - head)))
    kept = lines[:head] + lines[first : first + BLOCK_LINES - head]
    return [line[: BLOCK_CHARS // 2] for line in kept]
