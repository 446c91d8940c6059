"""Names, codes, quoted words and numbers of a text, English and Chinese: what a rewrite must keep. Pure.

Rules, no model: a capitalised run is a name unless it is only the first word of a sentence and a common one; Chinese
names are known by their last word (大学, 公司, 版), by a title after them, or from a short list of places and firms.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kb.terms import terms
from kb.words.figures import figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_TEXT = 20_000  # characters read; names come early
MAX_NAME_WORDS = 4  # Chinese words before the word that makes a name

_QUOTED = re.compile(
    r"《([^《》\n]{1,60})》|「([^「」\n]{1,60})」|『([^『』\n]{1,60})』|“([^“”\n]{1,80})”|\"([^\"\n]{1,80})\"|`([^`\n]{1,80})`"
    r"|(?<!\w)'([^'\n]{2,60})'(?!\w)|‘([^‘’\n]{2,60})’"
)
_CAP = r"(?:[a-z]{1,2}(?=[A-Z]))?[A-Z][A-Za-z0-9À-ɏ]*(?:[&'’\-.+#][A-Za-z0-9À-ɏ+#]+)*[+#]*"
_LINK = r"(?:of|de|del|della|di|da|du|des|la|le|van|von|der|den|y|the|zu|bin|al)"
_RUN = re.compile(rf"(?<![A-Za-z0-9À-ɏ_\-./@]){_CAP}(?:(?:\s{_LINK}){{0,2}}\s{_CAP}|\s\d+(?:\.\d+)*(?![\w%.:,/-]))*")
_CODE = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z0-9_]+(?:[-_./:@\\]+[A-Za-z0-9_]+)*[+#]*")
_IS_CODE = re.compile(
    r"(?=.*\d)(?=.*[A-Za-z]).*|.*[a-z][A-Z].*|[A-Z]{2,}s?|.+_.+|.+@.+\..+|[A-Za-z0-9_-]+\.[a-z]{1,5}|[A-Za-z]+(?:\+\+|#)|[vV]?\d+(?:\.\d+){2,}"
)
_NO_CODE = re.compile(
    r"(?i:q[1-4]|h[12]|[1-4]q|[12]h|[fc]y\d+|(?:[fc]y)?\d{2,4}-?[qh][1-4]|[1-4]q\d{2,4}|[qh][1-4]-?\d{2,4}|\d+(?:st|nd|rd|th|s)"
    r"|\d+(?:\.\d+)?(?:[kmgt]i?b|ms|s|h|d|k|m|bn|w|kw|mw|hz|khz|mhz|ghz|cm|mm|km|kg|g|px|x|eur|usd)|e\.g|i\.e|etc|ok)"
)
_HAN_RUN = re.compile(r"[\u3007\u3400-\u4dbf\u4e00-\u9fff]{2,}")
_TITLES = re.compile("先生|女士|教授|博士|院士|老师|医生|总经理|(?<!总)经理|主任|董事长|局长|部长|是谁")
_LATE_YEAR = re.compile(r"[12]\d{3}")
_NO_NAME = re.compile(r"第|.*(?:季度|半年|年度)$")
_EDITION = re.compile(
    r"[^\W\da-zA-Z_的和与及或了是在对比有从到用][^\W\da-zA-Z_的和与及或了是在对比有从到用]版(?![本权面块图税式])"
)


def entities(text: str) -> tuple[str, ...]:
    """Return the names, codes and quoted words of a text, each once, in order of place; periods are none.

    A name inside a longer one that starts at the same place is left out.
    """
    text = text[:MAX_TEXT]
    found = sorted((*_quoted(text), *_runs(text), *_codes(text), *_han_names(text)), key=lambda f: (f[0], -len(f[1])))
    kept: dict[str, str] = {}
    reach = -1
    for at, name in found:
        if at >= reach:
            kept.setdefault(same(name), name)
            reach = at + len(name)
    return tuple(kept.values())


def numbers(text: str) -> tuple[str, ...]:
    """Return the quantities of a text in one notation: "1,999 euros" and "€1999" are both `1999 money:eur`."""
    return tuple(dict.fromkeys(f"{q.number:.12g} {q.unit}".strip() for q in figures(text[:MAX_TEXT]).quantities))


def same(name: str) -> str:
    """Return what two spellings of one name share: no case, no width, no blanks at the ends, one blank inside."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def words_of(run: str) -> list[str]:
    """Return the words of a run of Han characters; joined they are the run, as far as it can be cut."""
    found = terms(run).split()
    words, at, i = [], 0, 0
    while i < len(found):
        chosen = i
        for j in range(i, min(i + 12, len(found))):  # the parts of a long word are listed before it
            if run.startswith(found[j], at) and (
                j == i or all(part != found[j] and part in found[j] for part in found[i:j])
            ):
                chosen = j
        words.append(found[chosen])
        at += len(found[chosen])
        i = chosen + 1
    return words


def _quoted(text: str) -> Iterator[tuple[int, str]]:
    for match in _QUOTED.finditer(text):
        inner = match[match.lastindex or 0].strip()
        if inner:
            yield match.start(match.lastindex or 0), inner


def _runs(text: str) -> Iterator[tuple[int, str]]:
    common = _listed("starters_en.txt")
    for match in _RUN.finditer(text):
        at, words = match.start(), match[0].split(" ")
        if at == 0 and len(words) > 1 and words[0].lower() in _listed("attributes.txt"):
            at += len(words.pop(0)) + 1
        while words and (words[0].lower().split("'")[0] in common or words[0].isdigit() or words[0] == "I"):
            at += len(words.pop(0)) + 1
        while words and (words[-1].lower() in common or _LATE_YEAR.fullmatch(words[-1])):
            words.pop()
        name = re.sub(r"['’]s$", "", " ".join(words))
        if name and not name[0].isdigit() and not _NO_CODE.fullmatch(name):
            yield at, name


def _codes(text: str) -> Iterator[tuple[int, str]]:
    for match in _CODE.finditer(text):
        if _IS_CODE.fullmatch(match[0]) and not _NO_CODE.fullmatch(match[0]):
            yield match.start(), match[0]


def _han_names(text: str) -> Iterator[tuple[int, str]]:
    for run in _HAN_RUN.finditer(text):
        yield from _persons(run)
        for match in _EDITION.finditer(run[0]):
            yield run.start() + match.start(), match[0]
        yield from _listed_names(run)
        words = words_of(run[0])
        if "".join(words) == run[0]:
            yield from _ended_names(words, run.start())


def _persons(run: re.Match[str]) -> Iterator[tuple[int, str]]:
    for title in _TITLES.finditer(run[0]):
        for length in (3, 2):
            at = title.start() - length
            if at >= 0 and run[0][at] in _listed("surnames_zh.txt"):
                yield run.start() + at, run[0][at : title.start()]
                break


def _may_name(word: str) -> bool:
    return word not in _listed("name_stops_zh.txt") and not _NO_NAME.match(word)


def _listed_names(run: re.Match[str]) -> Iterator[tuple[int, str]]:
    listed, firsts = _listed("names_zh.txt"), _first_letters("names_zh.txt")
    for at, letter in enumerate(run[0]):
        if letter not in firsts:
            continue
        for length in (6, 5, 4, 3, 2):
            if run[0][at : at + length] in listed:
                yield run.start() + at, run[0][at : at + length]
                break


def _ended_names(words: Sequence[str], offset: int) -> Iterator[tuple[int, str]]:
    """Yield runs of words that end like a name: 清华大学, 宁德时代有限公司, 团队版."""
    ends, letters = _ends()
    at = offset
    for i, word in enumerate(words):
        end = next((e for e in ends if word.endswith(e)), None) if word[-1] in letters else None
        at += len(word)
        if end is None:
            continue
        first = i
        while first > 0 and i - first < MAX_NAME_WORDS and _may_name(words[first - 1]):
            first -= 1
        name = "".join(words[first : i + 1])
        if len(name) > len(end) and _may_name(name) and (len(word) > len(end) or first < i):
            yield at - len(name), name


@lru_cache(maxsize=1)
def _ends() -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the endings of names, the longest first, and their last letters."""
    ends = sorted(_listed("name_ends_zh.txt"), key=lambda end: (-len(end), end))
    return tuple(ends), frozenset(end[-1] for end in ends)


@lru_cache(maxsize=8)
def _listed(name: str) -> frozenset[str]:
    return frozenset((files("crag_runtime") / "data" / name).read_text(encoding="utf-8").split())


@lru_cache(maxsize=4)
def _first_letters(name: str) -> frozenset[str]:
    return frozenset(word[0] for word in _listed(name))
