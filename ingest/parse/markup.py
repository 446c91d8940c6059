"""Light markups read by their headings and code fences: AsciiDoc, Org, LaTeX; and subtitles, read for what is said."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ingest.blocks import BlockKind, ParsedDocument
from ingest.parse.builder import DocumentBuilder, Span, blocks_of
from ingest.parse.decode import decode_text
from ingest.parse.plaintext import plain_document

if TYPE_CHECKING:
    from ingest.parse.raw import RawFile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grammar:
    heading: re.Pattern[str]  # groups: mark, title
    fence: re.Pattern[str]  # group: mark
    levels: tuple[str, ...] = ()  # of named marks, outermost first; else the mark's length is the level
    end: str = "{mark}"  # what closes a fence


_ASCIIDOC = _Grammar(
    heading=re.compile(r"^(={1,6})[ \t]+(\S.*)$", re.MULTILINE),
    fence=re.compile(r"^(-{4,}|\.{4,}|`{3,})[^\n]*$", re.MULTILINE),
)
_ORG = _Grammar(
    heading=re.compile(r"^(\*{1,6})[ \t]+(\S.*)$", re.MULTILINE),
    fence=re.compile(r"^[ \t]*#\+begin_(src|example)\b[^\n]*$", re.MULTILINE | re.IGNORECASE),
    end="#+end_{mark}",
)
_LATEX = _Grammar(
    heading=re.compile(
        r"^[ \t]*\\(part|chapter|section|subsection|subsubsection|paragraph)\*?"
        r"(?:\[[^\]\n]*\])?\{((?:[^{}\n]|\{[^{}\n]*\})*)\}[^\n]*$",
        re.MULTILINE,
    ),
    fence=re.compile(r"^[ \t]*\\begin\{(verbatim|lstlisting|minted)\*?\}[^\n]*$", re.MULTILINE),
    levels=("part", "chapter", "section", "subsection", "subsubsection", "paragraph"),
    end="\\end{{{mark}}}",
)
_GRAMMARS = {".adoc": _ASCIIDOC, ".asciidoc": _ASCIIDOC, ".org": _ORG, ".tex": _LATEX, ".latex": _LATEX}
_CUE = re.compile(r"^[\d:.,]+[ \t]*-->[ \t]*[\d:.,]+.*$")
_VTT_TAG = re.compile(r"<(?:v|c|b|i|u|lang|ruby|rt)[. ]?([^<>]*)>|</\w+>|<[\d:.]+>")


def parse_markup(file: RawFile) -> ParsedDocument:
    """Return the document of an AsciiDoc, Org or LaTeX file: its own text, headings and code found by their marks.

    Raises:
        DocumentError: ENCODING.
    """
    decoded = decode_text(file.data)
    text = decoded.text
    grammar = _GRAMMARS.get(file.suffix, _ASCIIDOC)
    spans = _found(text, grammar)
    filled: list[Span] = []
    at = 0
    for span in [*spans, Span(kind=BlockKind.TEXT, start=len(text), end=len(text))]:
        plain = plain_document(text[at : span.start])
        filled += [Span(kind=BlockKind.TEXT, start=at + b.start, end=at + b.end) for b in plain.blocks]
        filled.append(span)
        at = span.end
    blocks = blocks_of(text, filled)
    title = next((block.title for block in blocks if block.kind is BlockKind.HEADING), "")
    return ParsedDocument(
        text=text,
        blocks=blocks,
        title=title,
        properties={"encoding": decoded.encoding},
        warnings=decoded.warnings,
    )


def _found(text: str, grammar: _Grammar) -> list[Span]:
    fences: list[Span] = []
    at = 0
    unclosed: set[str] = set()  # marks that nothing below closes: looking again and again would be quadratic
    while (opening := grammar.fence.search(text, at)) is not None:
        at = opening.end()
        if opening[1].lower() in unclosed:
            continue
        end = re.compile(
            rf"^[ \t]*{re.escape(grammar.end.format(mark=opening[1]))}[^\n]*$", re.MULTILINE | re.IGNORECASE
        )
        closing = end.search(text, opening.end())
        if closing is None:
            unclosed.add(opening[1].lower())
            continue
        facts: dict[str, int | str] = {"opening": opening[0].strip(), "closing": closing[0].strip()}
        first = opening.end() - len(opening[0].lstrip())
        fences.append(Span(kind=BlockKind.CODE, start=first, end=closing.end(), facts=facts))
        at = closing.end()
    spans = [*fences]
    fence = 0
    for found in grammar.heading.finditer(text):
        while fence < len(fences) and fences[fence].end <= found.start():
            fence += 1
        if fence < len(fences) and fences[fence].start <= found.start():
            continue
        level = grammar.levels.index(found[1]) + 1 if grammar.levels else len(found[1])
        first = found.end() - len(found[0].lstrip())
        facts = {"level": level, "title": " ".join(found[2].split())}
        spans.append(Span(kind=BlockKind.HEADING, start=first, end=found.end(), facts=facts))
    return sorted(spans, key=lambda span: span.start)


def parse_subtitles(file: RawFile) -> ParsedDocument:
    """Return what is said in a .vtt or .srt file, without cue numbers and times.

    Raises:
        DocumentError: ENCODING.
    """
    decoded = decode_text(file.data)
    builder = DocumentBuilder()
    for cue in re.split(r"\n[ \t]*\n", decoded.text):
        lines = cue.strip().split("\n")
        if re.match(r"(WEBVTT|NOTE|STYLE|REGION)\b", lines[0]):
            continue
        timed = next((i for i, line in enumerate(lines) if _CUE.match(line)), -1)
        said = [_VTT_TAG.sub(lambda tag: f"{tag[1].strip()}: " if tag[1] else "", line) for line in lines[timed + 1 :]]
        builder.paragraph("\n".join(said))
    document = builder.build(properties={"encoding": decoded.encoding})
    return replace(document, warnings=decoded.warnings)
