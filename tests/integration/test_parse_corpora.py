"""Real files, good and bad: each ends in a document that keeps the laws, or in a documented failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest.parse import ParseLimits
from ingest.parse.worker import ParserWorker
from kb.errors import DocumentError, FailureCode
from tests.unit.ingest.parse.laws import assert_lawful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.blocks import ParsedDocument

CORPORA = Path(__file__).parents[2] / "../shared/corpora"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPORA.is_dir(), reason="corpora are not here"),
    pytest.mark.xdist_group("parse_corpora"),
]

FAILS = {
    FailureCode.EMPTY: (
        "bad/empty.docx bad/empty.html bad/empty.md bad/empty.pdf bad/ws.txt formats/unst__empty.eml"
        " formats/unst__empty.txt formats/unst__fake-text-all-whitespace.txt"
    ),
    FailureCode.NO_TEXT: (
        "bad/png_as.txt formats/unst__chi_sim_image.jpeg formats/unst__empty.xlsx formats/unst__loremipsum-flat.pdf"
        " formats/unst__table-multi-row-column-cells.pdf"
    ),
    FailureCode.ENCRYPTED: (
        "formats/tika__testODTEncrypted.odt formats/tika__testPPT_protected_passtika.pptx"
        " formats/tika__testWORD_protected_passtika.docx formats/unst__fake-encrypted.msg"
        " formats/unst__password_protected.xlsx"
    ),
    FailureCode.CORRUPT: (
        "bad/bad.json bad/bin_as.pdf bad/laughs.xml bad/notword.docx bad/plainzip.docx bad/trunc.pdf bad/xxe.xml"
    ),
    FailureCode.ENCODING: "bad/bin_as.html bad/bin_as.md bad/bin_as.txt",
    FailureCode.TOO_LARGE: "bad/bomb.docx",
    FailureCode.UNSUPPORTED: (
        "formats/tika__gbk.zip formats/tika__testRTF-ms932.rtf formats/tika__testZipEncrypted.zip"
        " formats/unst__simple.zip"
    ),
}
CODES = {name: code for code, names in FAILS.items() for name in names.split()}

SAYS = {
    "bad/deep.html": "deep text is here now",
    "bad/docx_as.md": "Lorem ipsum",
    "bad/gb18030.md": "# 安装指南",
    "bad/gbk.csv": "| 张三 | 30 |",
    "bad/gbk.html": "# 安装指南",
    "bad/gbk.txt": "请先确认系统版本满足要求",
    "bad/gbk_nometa.html": "# 安装指南",
    "bad/html_as.txt": "# T",
    "bad/mixed.txt": "配置文件位于目录下",
    "bad/noext": "two sentences",
    "bad/pdf_as.txt": "20,000 bottles of water",
    "bad/utf16.txt": "配置说明",
    "formats/docl__docx_lists.docx": "- List item 2\n  - List item 1.1",
    "formats/docl__unit_test_headers_numbered.docx": "## 1.1. Section 1.1",
    "formats/mark__equations.docx": "m=1",
    "formats/mark__test_mskanji.csv": "| 佐藤太郎 | 30 | 東京 |",
    "formats/tika__russian.cp866.txt": "Лошадка, везущая хворосту воз.",
    "formats/tika__testMSG_chinese.msg": "格式測試",
    "formats/tika__testTXT_win-1252.txt": "“windows”",
    "formats/unst__email-no-utf8-2008-07-16.062410.eml": "שלום",
    "formats/unst__fake-text-utf-32.txt": "Doylestown, PA",
    "formats/unst__korean-text-with-tables.pdf": "삼성카드",
    "formats/unst__sample-presentation.pptx": "- And a list of bulleted information\n  - With a sub-bullet",
    "formats/unst__tests-example.xls": "# Format Abbr.",
    "formats/unst__winter-sports.epub": "Switzerland",
}


@pytest.fixture(scope="module")
def worker() -> Iterator[ParserWorker]:
    with ParserWorker(ParseLimits(seconds=120)) as worker:
        yield worker


def names(*folders: str) -> list[str]:
    found = (path for folder in folders for path in sorted((CORPORA / folder).rglob("*")) if path.is_file())
    return [path.relative_to(CORPORA).as_posix() for path in found]


def outcome(worker: ParserWorker, name: str) -> ParsedDocument | FailureCode:
    try:
        return worker.parse(name, (CORPORA / name).read_bytes())
    except DocumentError as error:
        return error.code if error.hint else FailureCode.PARSER_ERROR  # a failure without a way out is none of ours


@pytest.mark.parametrize("name", names("formats", "bad"))
def test_every_file_ends_in_a_document_or_its_documented_failure(worker: ParserWorker, name: str) -> None:
    found = outcome(worker, name)
    if isinstance(found, FailureCode):
        assert found is CODES.get(name)
        return
    assert name not in CODES
    assert_lawful(found)
    assert SAYS.get(name, "") in found.text
    data = (CORPORA / name).read_bytes()
    assert "\ufffd" not in found.text or b"\xef\xbf\xbd" in data


def test_handbooks_parse_whole(worker: ParserWorker) -> None:
    failures: dict[str, FailureCode] = {}
    fences = broken = 0
    for name in names("handbook", "zh"):
        found = outcome(worker, name)
        if isinstance(found, FailureCode):
            failures[name] = found
            continue
        assert_lawful(found)
        assert "\ufffd" not in found.text
        fences += sum(1 for block in found.blocks if block.opening)
        broken += sum(1 for block in found.blocks if block.opening and not block.closing)
    assert failures == {
        "handbook/kafka-html/documentation.html": FailureCode.NO_TEXT,  # a comment for a server to fill
        "handbook/kafka-html/protocol.html": FailureCode.NO_TEXT,
        "handbook/sourcegraph/departments/product/design/documents_templates/index.md": FailureCode.EMPTY,
    }
    assert fences > 3_000
    assert broken <= fences * 0.001
