"""What holds for the chunks of every document."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import regex  # type: ignore[import-untyped]  # it ships no types
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.blocks import Block, BlockKind, Chunk, ParsedDocument
from ingest.chunk import ChunkLimits, Counters, chunk
from kb.passages import embed_text
from tests.property.documents import COUNTERS, by_bytes, count, document, documents, heading, paragraph, texts

limits = st.sampled_from(
    (
        ChunkLimits(),
        ChunkLimits(target=120, maximum=160, embed_maximum=8191),
        ChunkLimits(target=100, maximum=100, embed_maximum=256),
        ChunkLimits(target=200, maximum=512, embed_maximum=160),
    )
)
law = settings(max_examples=60, deadline=None)


def squeezed(text: str) -> str:
    return "".join(text.split())


@law
@given(documents, limits)
def test_spans_are_in_order_and_cover_every_character_that_is_not_blank(
    made: ParsedDocument, limit: ChunkLimits
) -> None:
    chunks = chunk(made, limit, COUNTERS)
    at = 0
    for c in chunks:
        assert at <= c.start < c.end
        assert not made.text[at : c.start].strip()
        at = c.end
    assert not made.text[at:].strip()


@law
@given(documents, limits)
def test_no_chunk_exceeds_a_limit_and_its_tokens_are_exact(made: ParsedDocument, limit: ChunkLimits) -> None:
    for c in chunk(made, limit, COUNTERS):
        assert c.tokens == count(c.text) <= limit.maximum
        assert by_bytes([embed_text(made.title, c.heading_path, c.text)])[0] <= limit.embed_maximum


@law
@given(documents, limits)
def test_nothing_is_lost_or_introduced_but_headers_fences_and_overlap(made: ParsedDocument, limit: ChunkLimits) -> None:
    openings = {b.opening + "\n" for b in made.blocks if b.opening}
    headers = {"\n".join(b.text.split("\n")[:2]) + "\n" for b in made.blocks if b.kind is BlockKind.TABLE}
    for c in chunk(made, limit, COUNTERS):
        shown, source = squeezed(c.text), squeezed(made.text[c.start : c.end])
        assert source in shown
        before, _, after = shown.partition(source)
        assert after in {"", *(squeezed(b.closing) for b in made.blocks)}
        known = {squeezed(s) for s in openings | headers}
        is_overlap = squeezed(made.text[: c.start]).endswith(before) and count(before) <= 120
        assert not before or before in known or is_overlap
        assert "\ufffd" not in c.text


@law
@given(documents, limits)
def test_only_the_last_chunk_may_end_on_a_heading(made: ParsedDocument, limit: ChunkLimits) -> None:
    headings = [b for b in made.blocks if b.kind is BlockKind.HEADING]
    runs = max((sum(count(b.text) + 1 for b in headings), 0))
    for c in chunk(made, limit, COUNTERS)[:-1]:
        if runs < 30:  # a run of headings as long as a chunk is text like any other
            assert all(c.end != b.end for b in headings)


@law
@given(documents, limits)
def test_fences_are_balanced(made: ParsedDocument, limit: ChunkLimits) -> None:
    for c in chunk(made, limit, COUNTERS):
        fences = [line for line in c.text.split("\n") if line.startswith(("```", "~~~~"))]
        assert len(fences) % 2 == 0
        assert all(a.startswith(b) for a, b in zip(fences[::2], fences[1::2], strict=True))


@law
@given(documents, limits)
def test_no_cut_falls_inside_a_grapheme_cluster(made: ParsedDocument, limit: ChunkLimits) -> None:
    borders = {0, *(m.end() for m in regex.finditer(r"\X", made.text))}
    for c in chunk(made, limit, COUNTERS):
        assert {c.start, c.end} <= borders


@law
@given(documents, limits)
def test_the_same_document_gives_the_same_chunks(made: ParsedDocument, limit: ChunkLimits) -> None:
    assert chunk(made, limit, COUNTERS) == chunk(made, limit, Counters(cl100k=count, embedder=by_bytes))


long_section = st.lists(paragraph.filter(lambda s: count(s) >= 80), min_size=1, max_size=4)


@law
@given(st.lists(long_section, min_size=2, max_size=5), st.data())
def test_editing_a_paragraph_leaves_the_chunks_of_other_sections_as_they_were(
    sections: list[list[str]], data: st.DataObject
) -> None:
    edited = data.draw(st.integers(0, len(sections) - 1))
    changed = [list(s) for s in sections]
    changed[edited][0] += " " + data.draw(paragraph)
    before, after = _by_section(sections), _by_section(changed)
    del before[f"S{edited}"], after[f"S{edited}"]
    assert before == after


def _by_section(sections: list[list[str]]) -> dict[str, list[tuple[str, int]]]:
    made: list[Block] = []
    for i, paragraphs in enumerate(sections):
        made += [heading(1, f"S{i}"), *(_text(p) for p in paragraphs)]
    found: dict[str, list[tuple[str, int]]] = {}
    for c in chunk(document(made, ["\n\n"]), ChunkLimits(embed_maximum=8191), COUNTERS):
        found.setdefault(c.heading_path[0], []).append((c.text, c.tokens))
    return found


def _text(text: str) -> Block:
    return Block(kind=BlockKind.TEXT, text=text, start=0, end=0)


@law
@given(documents)
def test_the_blocks_of_a_chunk_alone_give_that_chunk_again(made: ParsedDocument) -> None:
    limit = ChunkLimits(embed_maximum=8191)
    for c in chunk(made, limit, COUNTERS):
        inside = [b for b in made.blocks if c.start <= b.start and b.end <= c.end]
        if not inside or (inside[0].start, inside[-1].end) != (c.start, c.end):
            continue  # holds a part of a block
        moved = tuple(replace(b, start=b.start - c.start, end=b.end - c.start) for b in inside)
        (again,) = chunk(ParsedDocument(text=made.text[c.start : c.end], blocks=moved), limit, COUNTERS)
        assert (again.text, again.tokens) == (c.text, c.tokens)


@law
@given(st.lists(texts, min_size=1, max_size=6))
def test_blocks_of_one_section_are_merged_up_to_the_target(made: list[Block]) -> None:
    chunks: tuple[Chunk, ...] = chunk(document(made, ["\n\n"]), ChunkLimits(embed_maximum=100_000), COUNTERS)
    joints = 6  # a joint is counted as a whole token before it is known
    for one, two in pairwise(chunks):
        assert one.tokens + two.tokens + joints > ChunkLimits().target
