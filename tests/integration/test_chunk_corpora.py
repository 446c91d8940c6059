"""Chunks of real documents: the laws that a corpus can break and a generator cannot."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest.blocks import BlockKind, Chunk, ParsedDocument
from ingest.chunk import ChunkLimits, Counters, chunk
from ingest.parse.markdown import parse_markdown
from ingest.parse.raw import ParseLimits, RawFile
from kb.errors import DocumentError
from kb.passages import embed_text
from kb.tokens import cl100k_count

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPORA = Path(__file__).parents[2] / ".." / "shared" / "corpora"
LIMITS = ChunkLimits()


def like_e5(texts: Sequence[str]) -> list[int]:
    """Count about as many tokens as the local embedder does in either script, without loading it."""
    return [len(text.encode()) // 4 + 4 for text in texts]


COUNTERS = Counters(embedder=like_e5)
FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})", re.MULTILINE)
ENDS_SENTENCE = re.compile(r"[。！？；….!?;：:]+[\"'”’」』）)\]*_`~]*$")

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPORA.is_dir(), reason="the corpora are not here"),
    pytest.mark.parametrize("corpus", ["handbook", "zh"]),
    pytest.mark.xdist_group("corpora"),
]


@cache
def chunked(corpus: str) -> list[tuple[ParsedDocument, tuple[Chunk, ...]]]:
    made = []
    for path in sorted((CORPORA / corpus).rglob("*.md")):
        try:
            document = parse_markdown(RawFile(name=path.name, data=path.read_bytes(), limits=ParseLimits()))
        except DocumentError:
            continue  # front matter that does not parse is another test's matter
        made.append((document, chunk(document, LIMITS, COUNTERS)))
    assert len(made) > 300
    return made


def test_no_chunk_exceeds_a_limit_and_its_tokens_are_exact(corpus: str) -> None:
    for document, chunks in chunked(corpus):
        for c in chunks:
            assert c.tokens == cl100k_count(c.text) <= LIMITS.maximum
            assert like_e5([embed_text(document.title, c.heading_path, c.text)])[0] <= LIMITS.embed_maximum


def test_no_chunk_ends_on_a_heading_unless_the_document_does(corpus: str) -> None:
    for document, chunks in chunked(corpus):
        ends = {b.end for b in document.blocks if b.kind is BlockKind.HEADING}
        assert not ends & {c.end for c in chunks[:-1]}


def test_spans_cover_the_text_in_order(corpus: str) -> None:
    for document, chunks in chunked(corpus):
        at = 0
        for c in chunks:
            assert at <= c.start < c.end
            assert not document.text[at : c.start].strip()
            at = c.end
        assert not document.text[at:].strip()


def test_at_most_one_chunk_of_a_hundred_has_a_broken_fence(corpus: str) -> None:
    every = [c for _, chunks in chunked(corpus) for c in chunks]
    broken = [c for c in every if len(FENCE.findall(c.text)) % 2]
    assert len(broken) <= len(every) / 100


def test_no_replacement_character_is_introduced(corpus: str) -> None:
    for document, chunks in chunked(corpus):
        assert all("\ufffd" not in c.text or "\ufffd" in document.text[c.start : c.end] for c in chunks)


def test_no_sentence_is_cut_where_one_ends_within_the_chunk(corpus: str) -> None:
    for document, chunks in chunked(corpus):
        texts = [b for b in document.blocks if b.kind is BlockKind.TEXT]
        for c in chunks:
            for b in (b for b in texts if b.start < c.end < b.end):
                piece = document.text[max(c.start, b.start) : c.end]
                is_line_end = document.text[c.end : c.end + 2].lstrip(" ").startswith("\n")
                assert is_line_end or ENDS_SENTENCE.search(piece) or not re.search(r"[。！？；]", piece)


def test_most_chunks_are_neither_tiny_nor_alone(corpus: str) -> None:
    every = [c.tokens for _, chunks in chunked(corpus) for c in chunks]
    assert sum(tokens < 40 for tokens in every) <= len(every) * 0.05
    assert sorted(every)[len(every) // 2] >= 120


def test_an_added_sentence_changes_three_chunks_at_most_as_a_rule(corpus: str) -> None:
    touched = []
    for document, chunks in chunked(corpus)[::5]:
        texts = [b for b in document.blocks if b.kind is BlockKind.TEXT and len(b.text) > 40]
        if not texts:
            continue
        block = texts[len(texts) // 3]
        longer = document.text[: block.end] + " One more sentence stands here, long enough to move what follows. " * 2
        edited = parse_markdown(
            RawFile(name="a.md", data=(longer + document.text[block.end :]).encode(), limits=ParseLimits())
        )
        known = {(c.heading_path, c.text) for c in chunks}
        after = chunk(edited, LIMITS, COUNTERS)
        touched.append(sum((c.heading_path, c.text) not in known for c in after))
    assert sum(n <= 3 for n in touched) >= len(touched) * 0.9
