from __future__ import annotations

import pytest

from ingest.blocks import BlockKind
from ingest.parse.plaintext import numbered_heading
from tests.unit.ingest.parse.laws import headings, of_kind, parsed

POLICY = """员工手册

第一章 总则
第一条 目的
为了规范公司管理，制定本办法。
第二条 适用范围

本办法适用于全体员工。

一、试用期
1、试用期员工参照执行。
（一）期限
试用期为三个月。
"""


def test_chinese_numbering_makes_headings() -> None:
    document = parsed("a.txt", POLICY)
    assert headings(document) == [
        (2, "第一章 总则"),
        (4, "第一条 目的"),
        (4, "第二条 适用范围"),
        (2, "一、试用期"),
        (3, "（一）期限"),
    ]
    assert document.text == POLICY


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("第十二章　附则", 2),
        ("第3节 流程", 3),
        ("第一条 为了规范公司管理，制定本办法。", 0),
        ("一、" + "很长的一句话" * 10, 0),
        ("1、试用期员工参照执行。", 0),
        ("1.2 Installation", 2),
        ("2.3.1. Network settings", 3),
        ("1. a list item", 0),
        ("Chapter 3", 1),
        ("Chapter and verse were quoted at length.", 0),
        ("3.14 is a number.", 0),
        ("", 0),
    ],
)
def test_a_numbered_line_is_a_heading_only_when_it_reads_like_one(line: str, level: int) -> None:
    assert numbered_heading(line) == level


def test_an_underlined_line_is_a_heading() -> None:
    assert headings(parsed("a.txt", "Title\n=====\nbody\n\nPart\n----\n\nbody")) == [(1, "Title"), (2, "Part")]


def test_paragraphs_are_blocks() -> None:
    document = parsed("a.txt", "one\ntwo\n\n\n  three\n\u3000\nfour")
    assert of_kind(document, BlockKind.TEXT) == ["one\ntwo", "three", "four"]


def test_two_megabytes_on_one_line_are_one_block() -> None:
    assert len(parsed("a.txt", "本节介绍如何安装服务。" * 60_000).blocks) == 1
