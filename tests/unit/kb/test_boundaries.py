"""Where text may be cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.boundaries import cells, clauses, cluster_cut, items, lines, paragraphs, rows, sentences

SPLITTERS = (paragraphs, items, lines, rows, cells, clauses, sentences)


def cut(text: str) -> list[str]:
    return [text[s:e].strip() for s, e in sentences(text, 0, len(text))]


@pytest.mark.parametrize(
    "expected",
    [
        ["It decays.", "It halves!", "Does it?", "Yes."],
        ["昨天发布。", "今天回滚！", "为什么？", "不清楚；", "待定……", "完。"],
        ["他说：“好。”", "她走了。"],
        ["（见第三章。）", "下一句。"],
        ['He said "Stop."', "Then he left."],
        ["**Bold one.**", "Next one."],
        ["**注意。**", "下一句。"],
        ["Dr. Smith met Mr. J. Doe at 3.5 p.m. today.", "He left."],
        ["See e.g. the manual, vol. 2, or Fig. 3.", "Then stop."],
        ["Use v2.5.1 of kb.toml here.", "Done."],
        ["It waits ... and goes on.", "End."],
        ["好!", "走吧。"],
        ["1. First point", "2. Second point"],
        ["为什么？！", "因为。"],
    ],
)
def test_sentences_end_where_a_reader_says(expected: list[str]) -> None:
    joint = "" if any("\u4e00" <= c <= "\u9fff" for c in expected[0]) else " "
    text = ("\n" if expected[0].startswith("1.") else joint).join(expected)
    assert cut(text) == expected


def test_a_soft_line_break_ends_no_sentence() -> None:
    assert cut("A sentence that goes\non in the next line. Another.") == [
        "A sentence that goes\non in the next line.",
        "Another.",
    ]


def test_list_items_and_blank_lines_end_sentences() -> None:
    assert cut("- one\n- two\n\nthree") == ["- one", "- two", "three"]


def test_a_straight_quote_that_opens_belongs_to_the_next_sentence() -> None:
    assert cut('他走了。"你好"是什么意思。') == ["他走了。", '"你好"是什么意思。']


@pytest.mark.parametrize("splitter", SPLITTERS)
@given(st.text(alphabet='ab .。!\n|,，-1)"*”…', max_size=60), st.integers(0, 20), st.integers(0, 60))
def test_pieces_tile_the_span(splitter, text: str, start: int, length: int) -> None:
    end = min(len(text), start + length)
    pieces = splitter(text, start, end) if start < end else []
    assert "".join(text[s:e] for s, e in pieces) == text[start:end]
    assert all(s < e for s, e in pieces)


@pytest.mark.parametrize("cluster", ["👩‍👩‍👧‍👦", "e\u0301\u0323", "🇨🇳", "👍🏽", "नि", "\r\n"])
def test_a_cut_never_falls_inside_a_cluster(cluster: str) -> None:
    text = cluster * 10
    for position in range(len(cluster), len(text)):
        assert cluster_cut(text, 0, position) % len(cluster) == 0


def test_a_cluster_longer_than_the_limit_is_cut_at_the_limit() -> None:
    assert cluster_cut("e" + "\u0301" * 500, 0, 100) == 100
