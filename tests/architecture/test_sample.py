"""The sample knowledge base is what its sources say, and shows what the tutorial promises."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from typing import TYPE_CHECKING, Any

import yaml

from tests.architecture.tree import ROOT, files, name

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = ROOT / "sample"


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_binary", SAMPLE / "make_binary.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def pages_of(pdf: Path) -> list[str]:
    import pypdfium2

    with pypdfium2.PdfDocument(pdf) as document:
        return [page.get_textpage().get_text_range() for page in document]


def test_the_word_file_and_the_pdf_are_made_from_their_sources(tmp_path: Path) -> None:
    maker().write(tmp_path)
    brief = "product/product-brief.docx"
    with zipfile.ZipFile(SAMPLE / brief) as kept, zipfile.ZipFile(tmp_path / brief) as made:
        assert kept.read("word/document.xml") == made.read("word/document.xml")
    handbook = "zh/产品手册.pdf"
    assert pages_of(SAMPLE / handbook) == pages_of(tmp_path / handbook)


def test_the_pdf_can_be_read_in_chinese() -> None:
    first, *_ = pages_of(SAMPLE / "zh" / "产品手册.pdf")
    assert "托管的消息队列服务" in first


def test_every_front_matter_is_valid_and_in_range() -> None:
    texts = {name(p): p.read_text("utf-8", "ignore") for p in files() if name(p).startswith("sample/")}
    found = {path: re.match(r"---\n(.*?)\n---\n", text, re.DOTALL) for path, text in texts.items()}
    heads = {path: yaml.safe_load(head[1]) for path, head in found.items() if head}
    assert len(heads) > 10
    assert all(0 <= head.get("confidence", 1) <= 1 and head["title"] for head in heads.values())
    assert heads["sample/notes/unconfirmed-price.md"]["confidence"] < 0.7


def test_the_sample_has_both_languages_and_many_formats() -> None:
    kinds = {p.suffix for p in files() if name(p).startswith("sample/")}
    assert kinds >= {".md", ".txt", ".csv", ".yaml", ".rst", ".html", ".docx", ".pdf"}
    chinese = [p for p in files() if name(p).startswith("sample/zh/")]
    assert len(chinese) >= 8


def test_the_quarters_and_the_price_history_agree() -> None:
    plans = (SAMPLE / "product" / "plans.md").read_text(encoding="utf-8")
    history = re.findall(r"^\| 1 \w+ (\d{4}) \| (\d+) \| (\S+ \w+) \| (\d+) days \| (\d+) \|", plans, re.MULTILINE)
    pages = sorted((SAMPLE / "product").glob("facts-*.md"))
    assert len(history) == len(pages) == 7
    for (year, price, size, _days, topics), page in zip(history, pages, strict=True):
        text = page.read_text(encoding="utf-8")
        assert year in page.name
        assert f"{price} euros" in text, page.name
        assert size in text
        assert topics in text
