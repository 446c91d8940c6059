from __future__ import annotations

import pytest

from ingest.blocks import BlockKind
from ingest.parse.tabular import separator_of
from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, failure, of_kind, parsed


def test_a_csv_is_one_table_with_its_first_row_as_header() -> None:
    document = parsed("a.csv", '姓名,备注\n张三,"a, b\nc"\n李四,x|y\n')
    assert of_kind(document, BlockKind.TABLE) == ["| 姓名 | 备注 |\n| --- | --- |\n| 张三 | a, b c |\n| 李四 | x\\|y |"]
    assert document.blocks[0].header_lines == 2


@pytest.mark.parametrize("encoding", ["gbk", "utf-16", "utf-8-sig", "big5"])
def test_a_csv_is_decoded_like_any_text(encoding: str) -> None:
    text = "編號,客戶名稱\n1,王先生\n" if encoding == "big5" else "编号,客户名称\n1,王先生\n"
    assert "王先生" in parsed("a.csv", text.encode(encoding)).text


@pytest.mark.parametrize(
    ("text", "separator"),
    [("a;b\n1,5;2\n", ";"), ("a\tb\n1\t2", "\t"), ("a|b\n1|2", "|"), ("a,b\n1,2", ","), ("alone\nwords", ",")],
)
def test_the_separator_is_what_cuts_evenly(text: str, separator: str) -> None:
    assert separator_of(text) == separator


def test_ragged_rows_are_taken_with_a_warning() -> None:
    document = parsed("a.csv", "a,b\n1,2,3\n4\n")
    assert "| 1 | 2 | 3 |" in document.text
    assert document.warnings == ("2 of 3 rows do not have the header's 2 columns",)


def test_a_title_above_a_table_is_not_its_header() -> None:
    document = parsed("a.csv", "Stanley Cups,,\nTeam,Location,Cups\nBlues,STL,1\n")
    assert [b.kind for b in document.blocks] == [BlockKind.TEXT, BlockKind.TABLE]


def test_a_quote_that_never_closes_does_not_swallow_the_table() -> None:
    document = parsed("a.csv", 'a,b\n"x,1\n' + "y,2\n" * 500)
    assert document.text.count("| y | 2 |") == 500


def test_records_are_lines_of_key_and_value() -> None:
    document = parsed("a.json", '[{"name": "张三", "age": 3, "ok": true, "none": null}, {"name": "b"}]')
    assert [b.text for b in document.blocks] == ["name: 张三\nage: 3\nok: true\nnone: null", "name: b"]


def test_nested_values_are_indented_code() -> None:
    document = parsed("a.json", '{"title": "T", "server": {"port": 80, "hosts": ["a", {"b": 1}]}, "empty": {}}')
    assert [(b.kind, b.text) for b in document.blocks] == [
        (BlockKind.TEXT, "title: T"),
        (BlockKind.CODE, "server:\n  port: 80\n  hosts:\n    - a\n    - b: 1"),
    ]


def test_every_line_of_ndjson_is_a_block() -> None:
    document = parsed("a.ndjson", '{"q": "a"}\n\n{"q": "b"}\n')
    assert [b.text for b in document.blocks] == ["q: a", "q: b"]


@pytest.mark.parametrize(
    ("name", "data", "where"),
    [("a.json", '{"a": 1,\n "b": }', "line 2, column 7"), ("a.jsonl", '{"a": 1}\n{bad}', "line 2")],
)
def test_bad_json_is_corrupt_and_says_where(name: str, data: str, where: str) -> None:
    error = failure(name, data)
    assert error.code is FailureCode.CORRUPT
    assert where in str(error)


@pytest.mark.parametrize(
    "data", ["[" * 100_000, '{"a":' * 100_000, '{"a": ' + "9" * 10_000 + "}", "[" * 300 + "1" + "]" * 300]
)
def test_hostile_json_is_corrupt(data: str) -> None:
    assert code("a.json", data) is FailureCode.CORRUPT
