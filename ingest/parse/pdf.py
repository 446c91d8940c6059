"""PDF by pdfium: text page by page in the file's reading order, paragraphs rebuilt from lines.

Headings come from the outline, else from large type. Running heads and page numbers are left out.
"""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

from ingest.parse.builder import DocumentBuilder
from ingest.parse.layout import Line, heading_sizes, laid_out, running_lines, with_titles_whole
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile
    from kb.model import Json

HINT_OCR = "it looks scanned: run OCR over it (for example `ocrmypdf in.pdf out.pdf`) and ingest the result"
SHOWN = 10  # page numbers in a warning
_LINE = re.compile("[^\n\x02\ufffe]+[\x02\ufffe]?")  # pdfium marks a hyphen at a line's end and joins the lines
_MAX_OUTLINE = 5_000
_XFA_FORMS = frozenset({2, 3})  # FORMTYPE_XFA_FULL, FORMTYPE_XFA_FOREGROUND


def parse_pdf(file: RawFile) -> ParsedDocument:
    """Return the document of a PDF; every block knows its page.

    Raises:
        DocumentError: ENCRYPTED (a password is needed), CORRUPT, NO_TEXT when no page has text.
    """
    import pypdfium2 as pdfium  # type: ignore[import-untyped]  # noqa: PLC0415 - loaded when first needed

    pdf = pdfium.PdfDocument(file.data)
    try:
        pages = [_lines(pdf, number) for number in range(len(pdf))]
        outline = _outline(pdf)
        properties = _properties(pdf)
        xfa = pdf.get_formtype() in _XFA_FORMS
    finally:
        pdf.close()
    return _document(pages, outline, properties, xfa=xfa)


def _document(
    pages: list[list[Line]], outline: dict[int, dict[str, int]], properties: Mapping[str, Json], *, xfa: bool
) -> ParsedDocument:
    empty = [number for number, lines in enumerate(pages, 1) if not lines]
    if len(empty) == len(pages):
        message = f"none of its {len(pages)} pages has text"
        raise DocumentError(FailureCode.NO_TEXT, message, hint=HINT_OCR)
    builder = DocumentBuilder()
    if empty:
        shown = ", ".join(map(str, empty[:SHOWN])) + ("..." if len(empty) > SHOWN else "")
        builder.warnings.append(f"{len(empty)} of {len(pages)} pages have no text: {shown}")
    if xfa:
        builder.warnings.append("it is an XFA form: only its static text was read")
    running = running_lines(pages)
    pages = [with_titles_whole(lines, outline.get(number, {})) for number, lines in enumerate(pages, 1)]
    listed = any(line.folded in outline.get(number, {}) for number, lines in enumerate(pages, 1) for line in lines)
    sizes = {} if listed else heading_sizes(pages)
    for number, lines in enumerate(pages, 1):
        kept = [line for line in lines if line.key not in running] or lines
        for paragraph in laid_out(kept, titles=outline.get(number, {}), sizes=sizes):
            if paragraph.level:
                builder.heading(paragraph.level, paragraph.text, page=number)
            else:
                builder.paragraph(paragraph.text, page=number)
    title = str(properties.get("title", ""))
    return builder.build(title=title, properties={**properties, "pages": len(pages)})


def _lines(pdf: Any, number: int) -> list[Line]:  # noqa: ANN401 - the vendor's object
    """Return a page's lines. The page is closed at once, so memory does not grow with the document."""
    page = pdf[number]
    try:
        textpage = page.get_textpage()
        try:
            return _read(textpage)
        finally:
            textpage.close()
    finally:
        page.close()


def _read(textpage: Any) -> list[Line]:  # noqa: ANN401 - the vendor's object
    import pypdfium2.raw as api  # type: ignore[import-untyped] # noqa: PLC0415 - loaded when first needed

    count = textpage.count_chars()
    text = textpage.get_text_range() if count > 0 else ""
    box = api.FS_RECTF()
    lines: list[Line] = []
    drift = 0
    for segment in _LINE.finditer(text):
        line = segment[0].rstrip()
        if not line.strip("\x00 \t\xa0"):
            continue
        first = segment.start() + len(line) - len(line.lstrip())
        drift = _drift(textpage, first, ord(text[first]), drift)
        found = api.FPDFText_GetLooseCharBox(textpage.raw, min(max(first + drift, 0), count - 1), ctypes.byref(box))
        top, bottom, left = (box.top, box.bottom, box.left) if found else (0.0, 0.0, 0.0)
        lines.append(Line(text=line.strip(), top=top, bottom=bottom, left=left))
    return lines


def _drift(textpage: Any, index: int, codepoint: int, before: int) -> int:  # noqa: ANN401 - the vendor's object
    """Return how far a character's number in the page is from its place in the text: pdfium leaves some out."""
    import pypdfium2.raw as api  # noqa: PLC0415 - loaded when first needed

    drift: int
    for drift in (before, *range(before + 1, before + 9), *range(before - 1, before - 9, -1)):
        if index + drift >= 0 and codepoint == api.FPDFText_GetUnicode(textpage.raw, index + drift):
            return drift
    return before


def _outline(pdf: Any) -> dict[int, dict[str, int]]:  # noqa: ANN401 - the vendor's object
    """Return, by 1-based page, the outline's titles (folded) and their levels."""
    found: dict[int, dict[str, int]] = {}
    for seen, item in enumerate(pdf.get_toc(max_depth=6)):
        if seen >= _MAX_OUTLINE:
            break
        destination = item.get_dest()
        index = destination.get_index() if destination is not None else None
        title = "".join(item.get_title().split()).casefold()
        if index is not None and title:
            found.setdefault(index + 1, {}).setdefault(title, item.level + 1)
    return found


def _properties(pdf: Any) -> dict[str, Json]:  # noqa: ANN401 - the vendor's object
    metadata = pdf.get_metadata_dict(skip_empty=True)
    names = {"Title": "title", "Author": "author", "Subject": "subject", "CreationDate": "created"}
    return {ours: str(metadata[theirs]).strip("\x00 ") for theirs, ours in names.items() if theirs in metadata}
