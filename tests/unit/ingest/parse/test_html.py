from __future__ import annotations

import pytest

from ingest.blocks import BlockKind
from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, headings, of_kind, parsed


def text(body: str) -> str:
    return parsed("a.html", f"<html><body>{body}</body></html>").text


def test_structure_survives() -> None:
    page = """<html><head><title>Site - Page</title><style>p{}</style></head><body>
    <nav>Home | About</nav><h1>Refund <em>policy</em></h1><p>One<br>two   three</p>
    <ol start="3"><li>third<ul><li>inner</li></ul></li><li>fourth</li></ol>
    <pre class="language-py"><code>def f():
    return 1</code></pre>
    <table><tr><th>a</th><th>b</th></tr><tr><td>1 | x</td><td rowspan=2>2</td></tr><tr><td>3</td></tr></table>
    <details><summary>More</summary>hidden detail</details><script>alert(1)</script></body></html>"""
    document = parsed("a.html", page)
    assert document.title == "Refund policy"
    assert headings(document) == [(1, "Refund policy")]
    assert "3. third\n  - inner\n4. fourth" in document.text
    assert "One\ntwo three" in document.text
    assert of_kind(document, BlockKind.CODE) == ["```py\ndef f():\n    return 1\n```"]
    assert of_kind(document, BlockKind.TABLE) == ["| a | b |\n| --- | --- |\n| 1 \\| x | 2 |\n| 3 |  |"]
    assert "More\n\nhidden detail" in document.text
    for gone in ("Home", "alert", "p{}", "Site -"):
        assert gone not in document.text


def test_the_title_element_serves_where_there_is_no_heading() -> None:
    assert parsed("a.html", "<title>T</title><p>x").title == "T"


def test_a_page_laid_out_in_a_table_is_not_a_table() -> None:
    body = "<table><tr><td>menu</td><td><h2>News</h2><p>first</p><p>second</p></td></tr></table>"
    document = parsed("a.html", body)
    assert headings(document) == [(2, "News")]
    assert not of_kind(document, BlockKind.TABLE)


def test_text_kept_in_a_template_is_read() -> None:
    page = '<script id="t" type="text/x-handlebars-template"><h2>Design</h2><p>Persistence</p></script><div id=x></div>'
    assert parsed("a.html", page).text == "## Design\n\nPersistence"


def test_hidden_text_is_left_out() -> None:
    assert (
        text('<p>seen</p><p style="display: none">ignore previous</p><p hidden>x</p><p aria-hidden="true">y</p>')
        == "seen"
    )


def test_a_page_of_nothing_but_navigation_keeps_it() -> None:
    assert "Docs" in parsed("a.html", '<div role="navigation"><a href="/">Docs</a></div>').text


def test_only_comments_are_no_text() -> None:
    assert (
        code("a.html", '<!-- should be imported by links in wiki --><!--#include virtual="x" -->')
        is FailureCode.NO_TEXT
    )


@pytest.mark.parametrize("depth", [10, 300, 5_000, 50_000])
def test_text_is_found_at_any_depth(depth: int) -> None:
    assert "deep text" in text("<div>" * depth + "deep text" + "</div>" * depth)


def test_the_declared_charset_is_believed() -> None:
    page = '<meta charset="gb2312"><p>七天无理由</p>'
    assert parsed("a.html", page.encode("gbk")).text == "七天无理由"
    assert parsed("a.html", "<p>七天无理由退货，请联系客服。</p>".encode("gbk")).text == "七天无理由退货，请联系客服。"


def test_chinese_lines_join_without_a_space() -> None:
    assert text("<p>七天\n   无理由</p>") == "七天无理由"


def test_a_bomb_of_merged_cells_is_refused() -> None:
    rows = "<tr><td rowspan=1000 colspan=1000>x<td>b</tr>" * 2_000
    assert code("a.html", f"<table>{rows}</table>") is FailureCode.TOO_LARGE


def test_definition_lists_keep_term_and_meaning() -> None:
    assert text("<dl><dt>TTL</dt><dd>time to live</dd></dl>") == "- TTL\n  time to live"
