from __future__ import annotations

from ingest.parse.layout import Line, heading_sizes, joined, laid_out, running_lines


def page(*texts: str, size: float = 10, start: float = 700) -> list[Line]:
    return [Line(text=t, top=start - 12 * i + size, bottom=start - 12 * i) for i, t in enumerate(texts)]


def test_a_hyphenated_word_is_made_whole() -> None:
    assert joined(["the inter-", "national rule"]) == "the international rule"
    assert joined(["well-", "Known"]) == "well- Known"


def test_chinese_lines_join_without_a_space_and_latin_ones_with() -> None:
    assert joined(["本办法适用于", "全体员工。"]) == "本办法适用于全体员工。"
    assert joined(["one", "two"]) == "one two"
    assert joined(["使用", "Python"]) == "使用 Python"


def test_a_wide_gap_starts_a_paragraph() -> None:
    lines = [*page("first line of it", "second line of it"), *page("another one here", "and its end", start=640)]
    assert [p.text for p in laid_out(lines, titles={}, sizes={})] == [
        "first line of it second line of it",
        "another one here and its end",
    ]


def test_bullets_start_paragraphs() -> None:
    assert len(laid_out(page("• one thing", "• another thing"), titles={}, sizes={})) == 2


def test_outline_titles_are_headings_with_their_level() -> None:
    found = laid_out(page("2 Scope", "It covers all."), titles={"2scope": 2}, sizes={})
    assert [(p.level, p.text) for p in found] == [(2, "2 Scope"), (0, "It covers all.")]


def test_large_type_makes_headings_by_size() -> None:
    pages = [
        [*page("Title", size=20), *page("Part", size=14, start=660), *page(*["body text of a page"] * 30, start=630)]
    ]
    assert heading_sizes(pages) == {20: 1, 14: 2}


def test_type_that_is_large_everywhere_is_decoration() -> None:
    assert heading_sizes([[*page(*["big"] * 20, size=20), *page(*["small and longer text"] * 10, start=300)]]) == {}


def test_running_heads_are_what_repeats_at_the_edges() -> None:
    pages = [page("Handbook", f"text of page number {n} that differs {'x' * n}", f"Page {n}") for n in range(1, 9)]
    assert running_lines(pages) >= {"Handbook", "Page #"}
    assert running_lines(pages[:3]) == frozenset()
