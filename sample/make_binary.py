"""Writes the sample's docx and pdf from the texts in sources/, the same bytes every time."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

HERE = Path(__file__).parent
EPOCH = datetime(2026, 7, 1, tzinfo=UTC)
FONT = "STSong-Light"  # a font every PDF reader brings for Chinese; nothing is embedded


def parts(source: str) -> list[tuple[str, list[str]]]:
    """Return the source's sections: (heading, lines)."""
    sections: list[tuple[str, list[str]]] = []
    for line in (HERE / "sources" / source).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            sections.append((line[2:], []))
        elif line:
            sections[-1][1].append(line)
    return sections


def docx(target: Path, source: str) -> None:
    """Write a Word document."""
    from docx import Document  # noqa: PLC0415 - only this script needs it

    document = Document()
    properties = document.core_properties
    properties.title, properties.author = parts(source)[0][0], "Halden product team"
    properties.created = properties.modified = EPOCH.replace(tzinfo=None)
    for ordinal, (heading, lines) in enumerate(parts(source)):
        document.add_heading(heading, level=1 if ordinal == 0 else 2)
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
        for line in (line for line in lines if not line.startswith("|")):
            document.add_paragraph(line)
        if rows:
            table = document.add_table(rows=len(rows), cols=len(rows[0]))
            for cells, row in zip(rows, table.rows, strict=True):
                for text, cell in zip(cells, row.cells, strict=True):
                    cell.text = text
    packed = BytesIO()
    document.save(packed)
    target.write_bytes(without_times(packed.getvalue()))


def without_times(packed: bytes) -> bytes:
    """Return the zip file with every entry dated alike."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(packed)) as before, zipfile.ZipFile(out, "w") as after:
        for entry in before.infolist():
            dated = zipfile.ZipInfo(entry.filename, EPOCH.timetuple()[:6])
            dated.compress_type = zipfile.ZIP_DEFLATED
            after.writestr(dated, before.read(entry))
    return out.getvalue()


def pdf(target: Path, source: str) -> None:
    """Write a PDF in Chinese, two sections to a page."""
    from reportlab.lib.pagesizes import A4  # noqa: PLC0415 - only this script needs it
    from reportlab.lib.styles import ParagraphStyle  # noqa: PLC0415
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont  # noqa: PLC0415
    from reportlab.pdfbase.pdfmetrics import registerFont  # noqa: PLC0415
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer  # noqa: PLC0415

    registerFont(UnicodeCIDFont(FONT))
    body = ParagraphStyle("body", fontName=FONT, fontSize=11, leading=18, wordWrap="CJK")
    head = ParagraphStyle("head", parent=body, fontSize=16, leading=26)
    flow: list[object] = []
    for ordinal, (heading, lines) in enumerate(parts(source)):
        flow.append(Paragraph(heading, head))
        flow.extend(Paragraph(line, body) for line in lines)
        flow.append(PageBreak() if ordinal % 2 else Spacer(1, 12))
    title = parts(source)[0][0]
    SimpleDocTemplate(str(target), pagesize=A4, title=title, author="Halden", invariant=1).build(flow)


def write(folder: Path) -> None:
    """Write both files under `folder`."""
    for name in ("product", "zh"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    docx(folder / "product" / "product-brief.docx", "product-brief.txt")
    pdf(folder / "zh" / "产品手册.pdf", "产品手册.txt")


if __name__ == "__main__":
    write(HERE)
