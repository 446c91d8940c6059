"""What chunks look like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.blocks import Block, BlockKind, Chunk, ParsedDocument
from ingest.chunk import ChunkLimits, Counters, chunk
from kb.passages import embed_text
from kb.tokens import cl100k_count as count
from tests.property.documents import code, document, heading, table

WIDE = ChunkLimits(embed_maximum=100_000)


def text(body: str, page: int | None = None) -> Block:
    return Block(kind=BlockKind.TEXT, text=body, start=0, end=0, page=page)


def words(tokens: int, word: str = "decay") -> str:
    return " ".join([word] * tokens)


def chunks(*blocks: Block, limits: ChunkLimits = WIDE, title: str = "") -> tuple[Chunk, ...]:
    counters = Counters(cl100k=count, embedder=lambda texts: [count(t) + 4 for t in texts])
    return chunk(document(list(blocks), ["\n\n"], title), limits, counters)


def test_a_document_without_text_has_no_chunks() -> None:
    assert chunks() == ()
    assert chunks(text(" \n ")) == ()


def test_short_blocks_of_a_section_share_a_chunk_with_their_heading() -> None:
    (made,) = chunks(heading(1, "Gate"), text("One."), text("Two."))
    assert made.text == "# Gate\n\nOne.\n\nTwo."
    assert made.heading_path == ("Gate",)


def test_a_heading_closes_a_chunk_that_has_eighty_tokens() -> None:
    first, second = chunks(heading(1, "A"), text(words(90)), heading(2, "B"), text("Two."))
    assert first.heading_path == ("A",)
    assert (second.text, second.heading_path) == ("## B\n\nTwo.", ("A", "B"))


def test_a_chunk_over_small_sections_is_under_the_headings_they_share() -> None:
    (made,) = chunks(heading(1, "A"), heading(2, "B"), text("One."), heading(2, "C"), text("Two."))
    assert made.heading_path == ("A",)


def test_headings_travel_with_what_follows() -> None:
    first, second = chunks(text(words(395)), heading(1, "A"), heading(2, "B"), text(words(300)))
    assert first.text == words(395)
    assert second.text.startswith("# A\n\n## B\n\n")


def test_headings_that_end_a_document_join_the_chunk_before() -> None:
    (made,) = chunks(text("Body."), heading(1, "Left over"))
    assert made.text == "Body.\n\n# Left over"


def test_a_document_of_headings_alone_is_its_text() -> None:
    (made,) = chunks(heading(1, "A"), heading(2, "B"))
    assert made.text == "# A\n\n## B"


def test_a_block_between_target_and_maximum_stays_whole() -> None:
    (made,) = chunks(text(words(480)))
    assert made.tokens == 480


def test_a_small_rest_joins_the_last_chunk_of_its_section() -> None:
    made = chunks(text(words(390)), text(words(30)), heading(1, "B"), text(words(100)))
    assert [c.tokens for c in made] == [421, 103]


def test_a_split_table_repeats_its_header() -> None:
    made = chunks(heading(1, "Prices"), table(3, [f"cell{i}" for i in range(900)]))
    assert len(made) > 3
    for part in made[1:]:
        assert part.text.startswith("col0 | col1 | col2\n--- | --- | ---\ncell")
    assert all(line.count("|") == 2 for part in made for line in part.text.split("\n")[-5:])


def test_a_huge_table_header_is_not_repeated_but_obeys_the_maximum() -> None:
    made = chunks(table(300, [f"cell{i}" for i in range(900)]))
    assert max(c.tokens for c in made) <= 512


def test_split_code_is_fenced_again_with_its_info_string() -> None:
    made = chunks(code([f"x{i} = {i}" for i in range(400)], "```python", "```"))
    assert len(made) > 2
    for part in made:
        assert part.text.startswith("```python\nx")
        assert part.text.endswith("\n```")
    assert [int(line.split(" = ")[1]) for c in made for line in c.text.split("\n")[1:-1]] == list(range(400))


def test_a_fence_its_author_never_closed_is_closed() -> None:
    block = Block(kind=BlockKind.CODE, text="~~~~sh\nls", start=0, end=0, opening="~~~~sh")
    assert chunks(block)[0].text == "~~~~sh\nls\n~~~~"


def test_code_keeps_its_indentation_at_a_cut() -> None:
    made = chunks(code([f"    deep{i}()" for i in range(300)], "", ""))
    assert all(c.text.startswith("    deep") for c in made)


def test_long_text_is_cut_at_sentences_and_repeats_one() -> None:
    sentences = [f"Sentence number {i} says that a memory decays." for i in range(80)]
    first, second, *_ = chunks(text(" ".join(sentences)))
    last = first.text.rsplit(". ", 1)[-1]
    assert second.text.startswith(f"{last} ")
    assert first.end < second.start  # the repeated sentence widens no span


def test_nothing_is_repeated_across_sections() -> None:
    body = " ".join(f"Sentence {i} is here." for i in range(60))
    made = chunks(heading(1, "A"), text(body), heading(1, "B"), text(body))
    assert next(c.text for c in made if c.heading_path == ("B",)).startswith("# B\n\nSentence 0 is")


def test_chinese_is_cut_at_sentence_ends_where_there_are_any() -> None:
    made = chunks(text("".join(f"第{i}条规定，记忆的置信度会随时间衰减，直到失效。" for i in range(100))))
    assert len(made) > 3
    assert all(c.text.endswith("。") for c in made)


def test_a_chinese_sentence_too_long_is_cut_at_commas() -> None:
    made = chunks(text("，".join(f"第{i}个分句没有结束" for i in range(300)) + "。"))
    assert all(c.text.endswith(("，", "。")) for c in made)


@pytest.mark.parametrize("endless", ["x", "汉", "👩‍👩‍👧‍👦", "e\u0301\u0323", "0", "="])
def test_an_endless_line_obeys_the_maximum_and_keeps_its_clusters(endless: str) -> None:
    made = chunks(text(endless * 3000))
    assert all(c.tokens <= 512 for c in made)
    assert "".join(c.text for c in made) == endless * 3000
    assert all(len(c.text) % len(endless) == 0 for c in made)


def test_a_letter_under_thousands_of_marks_obeys_the_maximum() -> None:
    made = chunks(text("e" + "\u0301" * 5000))
    assert all(c.tokens <= 512 for c in made)


def test_a_heading_longer_than_the_maximum_obeys_it() -> None:
    made = chunks(heading(1, words(1200)), text("Body."))
    assert all(c.tokens <= 512 for c in made)
    assert made[-1].text.endswith("Body.")


def test_a_long_run_of_headings_obeys_the_maximum() -> None:
    made = chunks(*(heading(2, f"Entry {i}") for i in range(500)), text("Body."))
    assert all(c.tokens <= 512 for c in made)
    assert made[-1].text.endswith("Body.")


def test_the_embedded_text_obeys_the_embedders_own_count() -> None:
    long = " ".join(f"Sentence number {i} says that a memory decays." for i in range(120))
    counters = Counters(cl100k=count, embedder=lambda texts: [len(t) // 2 for t in texts])  # twice as dear
    made = chunk(document([heading(1, "A"), text(long)], ["\n\n"], "Title"), ChunkLimits(embed_maximum=512), counters)
    assert len(made) >= 4
    assert all(len(embed_text("Title", c.heading_path, c.text)) // 2 <= 512 for c in made)
    assert all(c.text.endswith(".") for c in made)
    smallest, *_, largest = sorted(c.tokens for c in made[:-1])
    assert largest < 2 * smallest, "what is divided again is divided evenly"


def test_the_embedder_is_asked_in_batches_and_only_where_doubtful() -> None:
    asked: list[int] = []

    def embedder(texts: object) -> list[int]:
        asked.append(len(texts))  # type: ignore[arg-type]  # a sequence
        return [10] * asked[-1]

    blocks = [b for i in range(9) for b in (heading(1, f"S{i}"), text(words(300)))]
    chunk(document(blocks, ["\n\n"]), ChunkLimits(embed_maximum=512), Counters(cl100k=count, embedder=embedder))
    assert asked == [9]
    chunk(document(blocks, ["\n\n"]), ChunkLimits(embed_maximum=8191), Counters(cl100k=count, embedder=embedder))
    assert asked == [9]


def test_surplus_blank_lines_are_left_out_and_single_breaks_kept() -> None:
    made = document([text("one"), text("two"), text("three")], ["\n", "\n\n\n\n\n"])
    (only,) = chunk(made, WIDE, Counters(cl100k=count, embedder=lambda t: [0] * len(t)))
    assert only.text == "one\n\ntwo\nthree"


def test_the_page_is_that_of_the_first_block() -> None:
    first, second = chunks(text(words(300), 1), text(words(200), 2), text("End.", 3))
    assert (first.page, second.page) == (1, 2)


def test_a_changed_position_changes_no_text() -> None:
    blocks = [heading(1, "A"), text(words(100))]
    plain = document(blocks, ["\n\n"])
    shifted = ParsedDocument(
        text="\n\n\n" + plain.text, blocks=tuple(replace(b, start=b.start + 3, end=b.end + 3) for b in plain.blocks)
    )
    counters = Counters(cl100k=count, embedder=lambda t: [0] * len(t))
    one, two = chunk(plain, WIDE, counters), chunk(shifted, WIDE, counters)
    assert [(c.text, c.heading_path) for c in one] == [(c.text, c.heading_path) for c in two]


@pytest.mark.parametrize("wrong", [{"target": 600}, {"target": 0}, {"embed_maximum": 10}])
def test_limits_that_contradict_each_other_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ChunkLimits(**wrong)
