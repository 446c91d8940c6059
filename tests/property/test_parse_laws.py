"""Whatever the bytes and the name: a document that keeps the laws, or a DocumentError; nothing else, nothing silent."""

from __future__ import annotations

import json

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ingest.parse import ParseLimits, parse
from ingest.parse.builder import DocumentBuilder, pipe_table
from ingest.parse.decode import decode_text, normalised
from ingest.parse.wire import packed, packed_error, unpacked, unpacked_error
from kb.errors import DocumentError, FailureCode
from tests.unit.ingest.parse.laws import assert_lawful

LIMITS = ParseLimits()
TEXT_NAMES = [
    "a.md",
    "a.txt",
    "a.html",
    "a.csv",
    "a.py",
    "a.rst",
    "a.adoc",
    "a.vtt",
    "a.eml",
    "noext",
    "a.json",
    "a.xml",
]
NAMES = [*TEXT_NAMES, "a.pdf", "a.docx", "a.xlsx", "a.epub", "a.msg", "a.odt", "a.ipynb", "a.ndjson", "a.org", "a.tex"]
MARKS = [
    "# ", "## 标题", "\n", "\n\n", "```", "~~~py\n", "- ", "1. ", "> ", "    ", "\t", "| a | b |\n", "|---|---|\n",
    "---\n", "===\n", "<div>", "</div>", "<!-- c -->", "<table><tr><td>", "<pre>", "第一条 目的\n", "一、", "text ",
    "，", "。", "`", "*", "[x](y)", "\\", "&", "\r\n", "e\u0301", "😀", "\x00", "\u2028", ".. note::\n", "{", '"',
]  # fmt: skip
PIECES = st.sampled_from(MARKS)
COMMON_CHINESE = (
    "的一是人不在了有大中国为这上和我个会年来以他时要地到生出学行家们可自用就发能成也下多作方后对日业于说分子过本得道之公你动事"
    "全都民天工主经市长开高着法现心新前部理同想加订单客户退货政策服务系统配置安装步骤确认审批付款发票合同项目部门员工假期报销"
)


def is_utf8(data: bytes) -> bool:
    return data.decode("utf-8", "ignore").encode() == data


def ends_well(name: str, data: bytes) -> None:
    try:
        document = parse(name, data, LIMITS)
    except DocumentError:
        return
    assert_lawful(document)
    assert document.blocks
    head, text = packed(document)
    assert unpacked(json.loads(json.dumps(head)), text) == document


@given(st.sampled_from(TEXT_NAMES), st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=300)
def test_any_text_under_any_name_ends_well(name: str, text: str) -> None:
    ends_well(name, text.encode())


@given(st.sampled_from(NAMES), st.binary(max_size=400))
@example("a.docx", b"PK\x03\x04" + b"\x00" * 50)
@example("a.pdf", b"%PDF-1.4\n%%EOF")
@example("a.msg", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600)
@settings(max_examples=200)
def test_any_bytes_under_any_name_end_well(name: str, data: bytes) -> None:
    ends_well(name, data)


@given(st.text(max_size=200))
def test_utf8_is_read_without_loss_and_in_one_form(text: str) -> None:
    try:
        decoded = decode_text(text.encode("utf-8", "ignore"))
    except DocumentError:
        return
    assert normalised(decoded.text) == decoded.text
    assert decoded.text.count("\ufffd") <= text.count("\ufffd")


@given(
    st.text(
        alphabet="订单客户退货政策服务系统配置安装步骤确认的一是不了在人有我他这中大来上国。，\n",
        min_size=4,
        max_size=80,
    )
)
@example("。。。策")  # Korean by a detector that counts syllables
@example("系统系统单")  # UTF-8 but for two bytes
@example("骤骤骤骤骤骤")
@example("单单单单")  # as common in Korean and in Big5, whose reader meets no such text
def test_common_chinese_survives_its_own_encodings(text: str) -> None:
    for encoding in ("gb18030", "utf-16", "utf-8-sig", "utf-32"):
        data = text.encode(encoding)
        assume(encoding != "gb18030" or not is_utf8(data))  # a word or two can be both: then it is UTF-8
        assert decode_text(data).text == text


@given(st.text(alphabet=COMMON_CHINESE + "。，、：\n 12ab", min_size=1, max_size=30))
@example("下岗工业园")  # valid UTF-8 of four alphabets in one word
@example("系统")
@settings(max_examples=300)
def test_any_common_chinese_in_gb18030_is_read_as_such(text: str) -> None:
    data = text.encode("gb18030")
    decoded = decode_text(data)
    assert decoded.text == normalised(text) or (is_utf8(data) and decoded.encoding == "utf-8")


@given(
    st.sampled_from(["gb18030", "big5hkscs", "cp932", "euc_jp", "cp949", "cp1252", "cp1251"]), st.binary(max_size=80)
)
@settings(max_examples=300)
def test_a_declared_encoding_that_fits_is_believed(encoding: str, data: bytes) -> None:
    try:
        text = data.decode(encoding)
        decoded = decode_text(data, declared=encoding)
    except (UnicodeDecodeError, DocumentError):
        return
    assert decoded.text == normalised(text) or decoded.encoding.startswith("utf-")


@given(st.sampled_from(["", "idna", "hex", "utf-7", "gb2312", "no such", "\0", "big5"]), st.binary(max_size=80))
def test_no_declaration_makes_bytes_fail_in_another_way(declared: str, data: bytes) -> None:
    try:
        decoded = decode_text(data, declared=declared)
    except DocumentError as error:
        code, text = error.code, ""
    else:
        code, text = FailureCode.ENCODING, decoded.text
    assert code is FailureCode.ENCODING
    assert normalised(text) == text


@given(st.lists(st.lists(st.text(max_size=8), max_size=5), max_size=6))
def test_a_pipe_table_has_as_many_bars_in_every_line(rows: list[list[str]]) -> None:
    bars = {line.replace("\\|", "").count("|") for line in pipe_table(rows).split("\n")}
    assert len(bars) == 1


@given(st.lists(st.tuples(st.sampled_from(["heading", "paragraph", "code", "unfenced"]), st.text(max_size=30))))
def test_what_is_built_keeps_the_laws(parts: list[tuple[str, str]]) -> None:
    builder = DocumentBuilder()
    for kind, text in parts:
        getattr(builder, kind)(*((3, text) if kind == "heading" else (text,)))
    assert_lawful(builder.build())


@given(st.sampled_from(FailureCode), st.text(max_size=30), st.text(max_size=30))
def test_an_error_crosses_the_pipe_intact(code: FailureCode, message: str, hint: str) -> None:
    error = DocumentError(code, message, hint=hint)
    back = unpacked_error(json.loads(json.dumps(packed_error(error))))
    assert (back.code, str(back), back.hint) == (error.code, str(error), error.hint)
