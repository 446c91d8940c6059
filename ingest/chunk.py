"""Cuts a parsed document into passages: along its structure, within exact token limits, in either script.

Pure. A chunk's text is what the author wrote: blocks joined as they stood, a split table with its header again, split
code fenced again. Spans are in order, do not overlap and cover every character of the document that is not white space.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.blocks import Chunk
from ingest.pack import Group, common_path, joined, pack, repacked, segments_of
from ingest.ruler import Ruler
from kb.passages import embed_text
from kb.tokens import cl100k_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ingest.blocks import ParsedDocument

CHUNKER_VERSION = "1"  # part of the pipeline fingerprint: any change of the output raises it
_PATH = 64  # tokens the heading path before an embedded text takes at most, roughly
_SEAM = 32  # tokens an embedder may add around a text: prefix, start and end marks
_ROUNDS = 24  # of halving a chunk that is too long; the last resort against a tokenizer that never shrinks
_MARGIN = 0.95  # aim this far below a limit, since tokens of parts do not add up exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The two tokenizers that limit a chunk.

    Args:
        embedder: returns each embedded text's tokens by the embedder's own tokenizer, its own additions included.
        cl100k: returns the cl100k tokens of a text.
    """

    embedder: Callable[[Sequence[str]], list[int]]
    cl100k: Callable[[str], int] = cl100k_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """How long chunks may be.

    Args:
        target: cl100k tokens up to which blocks are merged.
        maximum: cl100k tokens no chunk exceeds; at least `target`.
        embed_maximum: tokens the embedder reads of one text, by its own count; at least 128.
    """

    target: int = 400
    maximum: int = 512
    embed_maximum: int = 512

    def __post_init__(self) -> None:
        if not 0 < self.target <= self.maximum:
            raise ValueError(f"target ({self.target}) must be positive and at most maximum ({self.maximum})")
        if self.embed_maximum < 2 * _PATH:
            raise ValueError(f"embed_maximum ({self.embed_maximum}) must be at least {2 * _PATH}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A chunk, and what it was made of, in case it must be divided again."""

    group: Group
    chunk: Chunk


def chunk(document: ParsedDocument, limits: ChunkLimits, counters: Counters) -> tuple[Chunk, ...]:
    """Return the passages of a document, in order; none for a document without text.

    Args:
        document: what was parsed.
        limits: how long passages may be.
        counters: the two tokenizers.

    Returns:
        Chunks of at most `limits.maximum` tokens, counted on their final text, whose embedded text
        (`kb.passages.embed_text`) has at most `limits.embed_maximum` tokens.
    """
    ruler = Ruler(counters.cl100k)
    segments = segments_of(document, counters.cl100k, limits.maximum)
    groups = pack(segments, target=limits.target, maximum=limits.maximum, count=counters.cl100k)
    passages = [exact for group in groups for exact in _within(group, limits.maximum, ruler)]
    return tuple(p.chunk for p in _embeddable(passages, document.title, limits, ruler, counters))


def _chunk_of(group: Group, ruler: Ruler) -> Chunk:
    segments = group.segments
    text = joined(segments)
    return Chunk(
        text=text,
        heading_path=common_path(segments),
        start=segments[0].start,
        end=segments[-1].end,
        page=segments[0].block.page,
        tokens=ruler.tokens(segments, text),
    )


def _within(group: Group, maximum: int, ruler: Ruler, *, rounds: int = _ROUNDS) -> list[Measured]:
    """Return the group as a chunk with its exact tokens; as several when they exceed `maximum`."""
    made = _chunk_of(group, ruler)
    if made.tokens <= maximum or not rounds:
        return [Measured(group=group, chunk=made)]
    share = _MARGIN * min(maximum / made.tokens, _MARGIN ** (_ROUNDS - rounds))
    parts = repacked(group.segments, made.tokens, share=share, count=ruler.count)
    return [exact for part in parts for exact in _within(part, maximum, ruler, rounds=rounds - 1)]


def _embeddable(
    passages: list[Measured], title: str, limits: ChunkLimits, ruler: Ruler, counters: Counters
) -> list[Measured]:
    """Return the passages, those that the embedder could not read whole divided until it can. Counts go in batches."""
    settled: list[list[Measured]] = [[passage] for passage in passages]
    doubtful: Iterable[int] = range(len(passages))
    for turn in range(1, _ROUNDS):
        texts = {
            (i, j): text
            for i in doubtful
            for j, passage in enumerate(settled[i])
            if not _surely_fits(text := _embed_text(passage.chunk, title), limits.embed_maximum)
        }
        counts = counters.embedder(list(texts.values())) if texts else []
        over = {at: n for at, n in zip(texts, counts, strict=True) if n > limits.embed_maximum}
        if not over:
            break
        doubtful = sorted({i for i, _ in over})
        for i in doubtful:
            settled[i] = [
                part
                for j, passage in enumerate(settled[i])
                for part in (_divided(passage, over[i, j], limits, ruler, turn) if (i, j) in over else [passage])
            ]
    return [passage for run in settled for passage in run]


def _divided(passage: Measured, tokens: int, limits: ChunkLimits, ruler: Ruler, turn: int) -> list[Measured]:
    """Return a passage of `tokens` embedder tokens as several that should fit; each turn aims lower."""
    path = _PATH // 2  # a guess: it is repeated in every part
    share = min((limits.embed_maximum - path) / max(1, tokens - path), 1.0) * _MARGIN**turn
    parts = repacked(passage.group.segments, passage.chunk.tokens, share=share, count=ruler.count)
    return [exact for part in parts for exact in _within(part, limits.maximum, ruler)]


def _embed_text(made: Chunk, title: str) -> str:
    return embed_text(title, made.heading_path, made.text)


def _surely_fits(text: str, embed_maximum: int) -> bool:
    """Tell, without a tokenizer, that a text fits: no tokenizer makes more tokens than bytes of the normalised text."""
    room = embed_maximum - _SEAM
    if len(text) > room:
        return False
    return text.isascii() or len(unicodedata.normalize("NFKC", text).encode()) <= room
