"""Documents made of blocks, for laws about chunks: English, Chinese, emoji, combining marks, tables, code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from ingest.blocks import Block, BlockKind, ParsedDocument
from ingest.chunk import Counters
from kb.tokens import cl100k_count as count

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = (
    "gate",
    "memory",
    "confidence",
    "half-life",
    "e.g.",
    "3.5",
    "naïve",
    "ledger",
    "Dr.",
    "v2.5.1",
    "decays",
    "(see",
    "it)",
)
HAN = ("记忆", "治理", "置信度", "衰减", "门槛", "半衰期", "检索", "知识库", "昨天", "验证")
CLUSTERS = ("👩‍👩‍👧‍👦", "e\u0301\u0323", "🇨🇳", "नि", "👍🏽", "각", "ก็")
GAPS = ("\n", "\n\n", "\n\n\n\n", "\n \n")


def by_bytes(texts: Sequence[str]) -> list[int]:
    """An embedder's tokenizer unlike cl100k: dear for other scripts than Latin."""
    return [len(text.encode()) // 3 + 4 for text in texts]


COUNTERS = Counters(cl100k=count, embedder=by_bytes)

english = st.lists(st.sampled_from(WORDS + CLUSTERS), min_size=3, max_size=14).map(" ".join).map(lambda s: f"{s}.")
chinese = st.builds(
    lambda words, end: "".join(words) + end,
    st.lists(st.sampled_from((*HAN, "，", "、", "API")), min_size=3, max_size=20),
    st.sampled_from(("。", "！", "？", "；", "……", "。”")),
)
endless = st.builds(lambda s, n: s * n, st.sampled_from(("x", "汉", "ab ", "-", *CLUSTERS)), st.integers(50, 900))
sentence = st.one_of(english, chinese)
paragraph = st.builds(
    lambda sentences, joint: joint.join(sentences),
    st.lists(sentence, min_size=1, max_size=12),
    st.sampled_from((" ", "\n", "\n\n", "\n- ")),
)
texts = st.one_of(paragraph, paragraph, paragraph, endless).map(
    lambda s: Block(kind=BlockKind.TEXT, text=s, start=0, end=0)
)


def heading(level: int, title: str) -> Block:
    return Block(kind=BlockKind.HEADING, text=f"{'#' * level} {title}", start=0, end=0, level=level, title=title)


headings = st.builds(
    heading, st.integers(1, 4), st.sampled_from(("Gate", "半衰期", "How it decays", "API v2 👍🏽", "Gate"))
)


def table(width: int, cells: list[str]) -> Block:
    rows = [" | ".join(cells[i : i + width]) for i in range(0, len(cells), width)]
    head = " | ".join(f"col{i}" for i in range(width)) + "\n" + " | ".join(["---"] * width)
    return Block(kind=BlockKind.TABLE, text="\n".join([head, *rows]), start=0, end=0, header_lines=2)


tables = st.builds(
    table, st.integers(1, 5), st.lists(st.sampled_from((*WORDS, *HAN, "x" * 300)), min_size=1, max_size=80)
)


def code(lines: list[str], opening: str, closing: str) -> Block:
    text = "\n".join([opening, *lines, closing]) if opening else "\n".join(lines)
    return Block(kind=BlockKind.CODE, text=text, start=0, end=0, opening=opening, closing=closing)


code_lines = st.lists(
    st.sampled_from(("def decay(c):", "    return c / 2", "", "x = '汉字'", "y" * 700, "    # 👩‍👩‍👧‍👦")),
    min_size=1,
    max_size=60,
)
codes = st.builds(
    lambda lines, marks: code(["start()", *lines, "end()"], *marks),
    code_lines,
    st.sampled_from((("```python", "```"), ("~~~~", "~~~~"), ("", ""))),
)
blocks = st.one_of(headings, texts, texts, tables, codes)


def document(made: list[Block], gaps: list[str], title: str = "A title") -> ParsedDocument:
    """Lay blocks out as one text."""
    text, placed = "", []
    for i, block in enumerate(made):
        if i:
            text += gaps[i % len(gaps)]
        placed.append(replace(block, start=len(text), end=len(text) + len(block.text)))
        text += block.text
    return ParsedDocument(text=text, blocks=tuple(placed), title=title)


documents = st.builds(document, st.lists(blocks, max_size=14), st.lists(st.sampled_from(GAPS), min_size=1, max_size=4))
