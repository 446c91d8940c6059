from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.checking.citing import cited_numbers
from crag_runtime.evidence import Evidence, Excerpt, Label, Origin, Plan, Task
from crag_runtime.generators.extractive import quoting
from crag_runtime.generators.quotation import BLOCK_CHARS, QUOTE_CHARS, fenced, inert, inline, is_block

QUESTION = "How much does the Team plan cost?"
PIECES = st.lists(
    st.sampled_from(
        [
            "costs 75 euros. ",
            "“",
            "”",
            "「",
            "«",
            "`",
            "```",
            "\n",
            "| a | b |\n",
            "[1]",
            "【2】",
            "<b>",
            "\\",
            "每月。",
            "* x\n",
        ]
    )
    | st.text(max_size=8),
    min_size=1,
    max_size=10,
).map("".join)


def excerpt(known: str, *strips: str, answer: str = "", relevance: float = 0.9, root: str = "docs") -> Excerpt:
    evidence = Evidence(id=known, origin=Origin.MEMORY, text="\n".join(strips), root=root)
    return Excerpt(evidence=evidence, sub=0, strips=strips, relevance=relevance, label=Label.RELEVANT, answer=answer)


def quoted(*excerpts: Excerpt, question: str = QUESTION) -> str:
    plan = Plan(question=question, sub_questions=(question,))
    return quoting(Task(plan=plan, excerpts=excerpts, missing=(), conflicts=(), today=0)).text


@given(PIECES.filter(str.strip))
def test_a_quotation_never_adds_a_citation_and_never_swallows_its_own(text: str) -> None:
    plan = Plan(question=QUESTION, sub_questions=(QUESTION,))
    task = Task(plan=plan, excerpts=(excerpt("a", text),), missing=(), conflicts=(), today=0)
    assert cited_numbers(quoting(task).text) == (1,)


@given(st.text(max_size=3000), st.text(max_size=20))
def test_quotations_are_bounded(text: str, around: str) -> None:
    line = inline(text, around)
    assert line is None or len(line) <= 2 * QUOTE_CHARS + 4
    assert len(fenced(text, around)) <= len(text) + 60 or len(text) > BLOCK_CHARS


def test_live_markup_is_made_inert_and_code_spans_are_kept() -> None:
    assert inert("Set `max_items[0]` to 5.") == "Set `max_items[0]` to 5."
    assert inert("<script>x</script> ![a](http://e) [b](http://e)") == (
        r"\<script>x\</script> \![a\](http://e) [b\](http://e)"
    )


def test_prose_that_was_only_wrapped_is_one_line_and_a_table_keeps_its_own() -> None:
    assert not is_block("The Team plan\ncosts 75 euros.")
    assert inline("The Team plan\ncosts 75 euros.", "75") == "“The Team plan costs 75 euros.”"
    assert inline("团队版\n每月75欧元。", "75") == "“团队版每月75欧元。”"
    assert is_block("| a |\n| - |\n| 75 |")


def test_the_answer_span_leads_its_quoted_sentence() -> None:
    text = quoted(excerpt("a", "It is popular. The Team plan costs 75 euros a month.", answer="75 euros"))
    assert text == "**75 euros** — “The Team plan costs 75 euros a month.” [1]"


def test_a_second_source_is_cited_only_when_it_is_independent_and_says_the_same() -> None:
    best = excerpt("a", "The Team plan costs 75 euros.", answer="75 euros")
    assert quoted(best, excerpt("b", "Team: 75 euros.", root="web", relevance=0.8)).endswith("[1][2]")
    assert quoted(best, excerpt("b", "Team: 75 euros.", relevance=0.8)).endswith("” [1]")
    assert quoted(best, excerpt("b", "Team: 69 euros.", root="web", relevance=0.8)).endswith("” [1]")


def test_a_tables_row_is_shown_with_its_head() -> None:
    rows = ("| plan | price |", "| --- | --- |", "| Starter | 15 |", "| Team | 75 |")
    assert quoted(excerpt("a", *rows, answer="75")) == (
        "**75** [1]\n\n```\n| plan | price |\n| --- | --- |\n| Team | 75 |\n```\n"
    )


def test_the_connecting_words_are_in_the_questions_language_and_the_quotation_is_not_touched() -> None:
    text = quoted(excerpt("a", "The Team plan costs 75 euros.", answer="75 euros"), question="团队版多少钱？")
    assert text == "**75 euros**——“The Team plan costs 75 euros.” [1]"
