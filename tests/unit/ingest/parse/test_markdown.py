from __future__ import annotations

import pytest

from ingest.blocks import BlockKind
from ingest.parse.markdown import plain_title
from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, failure, headings, of_kind, parsed

PAGE = """---
title: Refunds
tags: [policy, 2024]
date: 2024-05-01
confidence: 0.8
---

Intro before any heading.

# Refund *policy* [here](http://x) {#anchor}

One.
Two.

Setext
------

1. First step

   ```bash
   echo "one"
   ```

2. Second step
   - nested

     ~~~
     deep
     ~~~

> quoted
> ```python
> x = 1
> ```

| a | b |
|---|---|
| 1 | 2 |

    indented code

<details>
<summary>More</summary>

Hidden **text**.

</details>
"""


def test_a_page_is_cut_where_the_grammar_says() -> None:
    document = parsed("a.md", PAGE)
    assert document.title == "Refunds"
    assert document.front_matter == {
        "title": "Refunds",
        "tags": ["policy", 2024],
        "date": "2024-05-01",
        "confidence": 0.8,
    }
    assert "confidence" not in document.text
    assert headings(document) == [(1, "Refund policy here"), (2, "Setext")]
    assert of_kind(document, BlockKind.TABLE) == ["| a | b |\n|---|---|\n| 1 | 2 |"]
    assert "Hidden **text**." in document.text


def test_the_text_is_the_authors_own() -> None:
    document = parsed("a.md", PAGE)
    assert document.text == PAGE.split("---\n", 2)[2]


def test_fences_in_lists_and_quotes_are_blocks_of_their_own() -> None:
    document = parsed("a.md", PAGE)
    fences = [(b.opening, b.closing) for b in document.blocks if b.opening]
    assert fences == [("```bash", "```"), ("~~~", "~~~"), ("> ```python", "> ```")]
    assert "    indented code" in of_kind(document, BlockKind.CODE)


def test_a_fence_right_after_a_list_marker_starts_at_its_marks() -> None:
    document = parsed("a.md", "- ```js\n  let x\n  ```\n- b\n")
    assert [b.opening for b in document.blocks if b.kind is BlockKind.CODE] == ["```js"]


def test_a_fence_that_never_closes_has_no_closing() -> None:
    document = parsed("a.md", "a\n\n````text\nno end\n```\n")
    assert [(b.opening, b.closing) for b in document.blocks if b.opening] == [("````text", "")]


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("`code` and **bold**", "code and bold"),
        ("[link](http://a/b_c) ![alt](x.png)", "link alt"),
        ("a <a id='x'></a>b &amp; c", "a b & c"),
        ("C\\# and snake_case_name", "C# and snake_case_name"),
        ("多行 标题", "多行 标题"),
    ],
)
def test_a_title_is_what_a_reader_sees(source: str, title: str) -> None:
    assert plain_title(source) == title


def test_the_first_heading_is_the_title_where_front_matter_names_none() -> None:
    assert parsed("a.md", "text\n\n## Second *level*\n").title == "Second level"
    assert parsed("report-final-2.md", "only text").title == ""


def test_front_matter_that_does_not_parse_is_named_with_its_line() -> None:
    error = failure("a.md", "---\ntitle: a\nbad: [1, 2\n---\ntext\n")
    assert error.code is FailureCode.FRONT_MATTER
    assert "line 4" in str(error)


def test_a_rule_on_top_is_no_front_matter() -> None:
    assert parsed("a.md", "---\n\nSome text\n\n---\n\nmore").front_matter == {}


def test_front_matter_holds_only_json() -> None:
    source = "---\nn: .nan\nd: 2024-01-02T03:04:05Z\n1: one\nset: !!set {a}\nnone:\n---\nx"
    assert parsed("a.md", source).front_matter == {
        "n": "nan",
        "d": "2024-01-02T03:04:05+00:00",
        "1": "one",
        "set": ["a"],
        "none": None,
    }


def test_an_alias_bomb_is_refused() -> None:
    levels = "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9))
    assert code("a.md", f"---\na: &a [x,x,x,x,x,x,x,x,x]\n{levels}---\nx") is FailureCode.FRONT_MATTER
    assert code("a.md", "---\na: " + "[" * 50_000 + "\n---\nx") is FailureCode.FRONT_MATTER


def test_toml_front_matter_is_read_too() -> None:
    assert parsed("a.md", '+++\ntitle = "T"\n+++\ntext').title == "T"
    assert code("a.md", "+++\ntitle = \n+++\ntext") is FailureCode.FRONT_MATTER


def test_what_only_a_comment_says_is_not_text() -> None:
    document = parsed("a.md", "<!-- ignore all\nprevious -->\n\ntext <!-- inline stays -->\n")
    assert "previous" not in document.text
    assert "inline stays" in document.text
    assert code("a.md", "<!-- only this -->") is FailureCode.NO_TEXT


def test_link_definitions_are_covered() -> None:
    assert parsed("a.md", "[a]: http://x\n\n[b]: http://y 'title'\n").blocks


@pytest.mark.parametrize(
    "source",
    [
        "word " * 400_000,
        "> " * 5_000 + "x",
        ">" * 5_000 + "x",
        "- " * 5_000 + "x",
        "# " + "[" * 100_000,
        "".join("  " * i + "- x\n" for i in range(400)),
        "```\n" * 5_000,
        "<!--" * 20_000,
    ],
    ids=["one line", "quotes", "tight quotes", "bullets", "brackets", "nested list", "fences", "open comments"],
)
def test_hostile_markdown_neither_hangs_nor_recurses(source: str) -> None:
    parsed("a.md", source)
