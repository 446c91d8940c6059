"""Strips: the pieces a passage is cut into before use, and how many of the question's words each one has. Pure."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

from kb.boundaries import sentences
from kb.terms import query_terms, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kb.boundaries import Span

WRAPPED_FROM = 50  # columns from which a line without a stop counts as wrapped, not as ended
CODE_WEIGHT = 1.5  # of a number or code against a word that is as rare
LETTER_WEIGHT = 0.5  # of a lone Han letter, which is part of many words
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s*#{1,6}\s+\S")
_ROW = re.compile(r"\s*\||(?:[^|\n]*(?<!\\)\|){2}|(?:[^\t\n]*\S\t){2}")
_STOPPED = re.compile(r"[.!?。！？；…:：;][\"'”’」』）)\]*_`]*\s*$")
_CONTINUES = re.compile(r"\s*[a-z`\u3400-\u9fff(（,，、\"“]")
_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uff60]")
_HAN = re.compile(r"[\u3400-\u9fff]")

# What a question is made of rather than about.
_STOP_WORDS = """a an the of in on at to for from by with as and or but if than then that this these those it
its is are was were be been being am do does did done has have had having will would shall should can could may
might must not no what which who whom whose when where why how many much long often there here about into over
under between among i me my we us our you your he him his she her they them their one ones any some all each
every other such own same so too very just also please tell give name called say said does's what's who's it's
's 这是 那是 都是 就是 也是
的 了 是 在 和 与 及 或 有 被 把 对 于 为 以 从 到 由 向 给 让 使 也 都 就 还 又 而 但 并 且 着 过 地 得 之
其 这 那 这个 那个 这些 那些 哪 哪些 哪个 哪里 哪儿 哪位 哪一 哪年 什么 甚么 怎么 怎样 如何 为什么 为何 何 何时
何地 何人 谁 多少 几 几个 多 吗 呢 吧 啊 呀 么 请问 请 是否 能否 可以 会 能 要 应 应该 它 他 她 我 你 您 们 它们
他们 她们 我们 你们 自己 一个 一种 一 个 种 些 中 里 上 下 时候 时 什么样 属于 叫 叫做 称为 问 是什么 有什么
有哪些 有多少 是谁 关于 其中 之后 之前 以及 等 所 某 该 此 请说 说"""


def split(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans [start, end) of the text's strips, in order and apart, without the white space around them.

    A strip is a sentence of prose (a newline ends one too, unless the line was only wrapped), a list item, a heading, a
    row of a table or a line of code. Every character that is not white space is in exactly one strip.
    """
    return tuple(span for block in _blocks(text) for span in _trimmed(text, block))


def lexical_scores(question: str, strips: Sequence[str]) -> list[float]:
    """Return for each strip the share of the question's words that it has, in [0, 1]; 0 when it has none.

    A word weighs by its rarity among the strips, numbers and codes half as much again; the question's function words
    weigh nothing. A question of nothing but function words gives 0 everywhere.
    """
    wanted = question_terms(question)
    return coverage(wanted, [frozenset(terms(strip).split()) for strip in strips])


def coverage(wanted: frozenset[str], strips: Sequence[frozenset[str]]) -> list[float]:
    """Return the `lexical_scores` of strips whose terms are known."""
    found = [own & wanted for own in strips]
    weights = {term: _weight(term, sum(term in own for own in found), len(strips)) for term in wanted}
    whole = sum(weights[term] for term in sorted(wanted))
    return [min(1.0, sum(weights[term] for term in sorted(own)) / whole) if own else 0.0 for own in found]


def question_terms(question: str) -> frozenset[str]:
    """Return the terms that a question is about: those of `kb.terms` without function and question words."""
    return frozenset(query_terms(question).split()) - stop_terms()


@cache
def stop_terms() -> frozenset[str]:
    """Return the function and question words of English and Chinese, as terms."""
    return frozenset(term for word in _STOP_WORDS.split() for term in (word, *query_terms(word).split()))


def _weight(term: str, holders: int, strips: int) -> float:
    rarity = math.log1p((strips - holders + 0.5) / (holders + 0.5))
    if any(c.isdigit() for c in term):
        return CODE_WEIGHT * rarity
    return LETTER_WEIGHT * rarity if len(term) == 1 and _HAN.match(term) else rarity


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield runs of lines and whether they are prose; a line of a table, of code or of a heading is its own run."""
    begin = position = 0
    in_code = False
    for line in text.splitlines(keepends=True):
        end = position + len(line)
        fence = _FENCE.match(line) is not None
        alone = fence or in_code or _ROW.match(line) or _HEADING.match(line)
        if alone:
            if begin < position:
                yield begin, position, True
            yield position, end, False
            begin = end
        in_code ^= fence
        position = end
    if begin < position:
        yield begin, position, True


def _trimmed(text: str, block: tuple[int, int, bool]) -> Iterator[Span]:
    start, end, is_prose = block
    pieces = _prose(text, start, end) if is_prose else [(start, end)]
    for a, b in pieces:
        piece = text[a:b]
        if piece.strip():
            yield a + len(piece) - len(piece.lstrip()), a + len(piece.rstrip())


def _prose(text: str, start: int, end: int) -> Iterable[Span]:
    for a, b in sentences(text, start, end):
        begin = position = a
        lines = text[a:b].splitlines(keepends=True)
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            position += len(line)
            if not _is_wrapped(line, following):
                yield begin, position
                begin = position
        if begin < b:
            yield begin, b


def _is_wrapped(line: str, following: str) -> bool:
    """Return whether a line goes on in the next: a wide one without a stop, before what cannot begin a sentence."""
    columns = len(line) + len(_WIDE.findall(line))
    if columns < WRAPPED_FROM or _STOPPED.search(line):
        return False
    return _CONTINUES.match(following) is not None
