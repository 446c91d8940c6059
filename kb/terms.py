"""Our own analysis of text into terms for BM25: pure, and the same on every backend.

Chinese is cut into words; Latin words are lower-cased, stripped of accents and stemmed; codes, versions, paths, emails
and identifiers are kept whole and in parts (`SKU-2024-X5` gives `sku-2024-x5 sku 2024 x5`); scripts written without
blanks that no dictionary is at hand for (kana, Thai...) become pairs of letters. Punctuation is dropped. Terms are
separated by one blank, for a tokenizer that cuts at blanks.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from kb.segmenter import Segmenter

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 65_535  # of all terms of a text: the server's limit for the column
MAX_TERM = 128  # characters; longer runs are blobs nobody searches for
STEMMED_FROM = 3  # shorter words have no suffix to lose
CJK_WEIGHT = 3  # letters of a Latin script that say as much as one Han, kana or Hangul character

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_PAIRED = "\u3040-\u30ff\u31f0-\u31ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # kana, Thai, Lao, Burmese, Khmer
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
# Marks that belong to the letter before them but are no letters to Python: combining, Hebrew, Arabic, Indic.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0dff"
_WORD = rf"(?:[^\W_{_HAN}{_PAIRED}]|[{_MARKS}])"
_RUNS = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<paired>[{_PAIRED}]+)"
    rf"|(?P<number>\d{{1,3}}(?:,\d{{3}})+(?![\w,]))"
    rf"|(?P<language>(?<!\w)[A-Za-z](?:\+\+|\#)(?!\w))"
    rf"|(?P<word>{_WORD}+(?:['._\-/\\@:+&=~]{{1,3}}{_WORD}+)*)"
)
_PLAIN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_PARTS = re.compile(rf"{_WORD}+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VERSION = re.compile(r"[vV]?(\d+(?:\.\d+)+(?:[-.]?[A-Za-z]\w*)?)")
_SEGMENTS = re.compile(r"[/\\@:=&~]+")
_NUMBERED = re.compile(r"(?<![^\W_])([A-Za-z]{3,})(\d+(?:\.\d+)*)(?![^\W_])")  # utf8, python3.11
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_LATIN_LETTER, _CJK_LETTER = re.compile(f"[{_LATIN}]"), re.compile(f"[{_HAN}{_HANGUL}\u3040-\u30ff\u31f0-\u31ff]")
_LETTER = re.compile(r"[^\W\d_]")


class Script(StrEnum):
    """What most of a text's letters are. Two texts of different script share hardly a term."""

    LATIN = "latin"
    CJK = "cjk"
    OTHER = "other"
    NONE = "none"  # no letters at all


def terms(text: str) -> str:
    """Return the text's terms in order, blank-separated: at most 65,535 bytes of UTF-8, whole terms only."""
    return _joined(_terms(text))


def query_terms(text: str) -> str:
    """Return the text's distinct terms, each where it first stands."""
    return _joined(iter(dict.fromkeys(_terms(text))))


def script_of(text: str) -> Script:
    """Return the script that has the largest share of the text's letters, a CJK letter weighing three others."""
    text = unicodedata.normalize("NFKC", text)
    latin, cjk = len(_LATIN_LETTER.findall(text)), len(_CJK_LETTER.findall(text))
    other = len(_LETTER.findall(text)) - latin - cjk
    shares = {Script.CJK: cjk * CJK_WEIGHT, Script.LATIN: latin, Script.OTHER: other}
    script = max(shares, key=lambda name: shares[name])
    return script if shares[script] else Script.NONE


def _joined(found: Iterator[str]) -> str:
    kept: list[str] = []
    size = -1  # the first term has no blank before it
    for term in found:
        size += len(term.encode("utf-8")) + 1
        if size > MAX_BYTES:
            break
        kept.append(term)
    return " ".join(kept)


def _terms(text: str) -> Iterator[str]:
    text = unicodedata.normalize("NFKC", text.encode("utf-8", "ignore").decode("utf-8")).replace("\u2019", "'")
    for run in _RUNS.finditer(text):
        found = run.group()
        match run.lastgroup:
            case "han":
                yield from _segmenter.words(found)
            case "paired":
                yield from _pairs(found)
            case "language":  # C++, F#
                yield found.lower()
            case "number":
                yield found.replace(",", "")
            case _ if len(found) <= MAX_TERM:
                yield from _word_terms(found)
            case _:  # a blob: not worth remembering
                yield from _word_terms.__wrapped__(found)


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


@lru_cache(maxsize=32_768)
def _word_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a run that is no Chinese: of a plain word one, of a code the whole and its parts."""
    plain = _folded(word)
    if _PLAIN.fullmatch(plain) and not _CAMEL.search(plain):
        return _bounded([_stemmed(plain.lower())])
    version = _VERSION.fullmatch(word)
    if version:
        return _bounded([word.lower(), *_version_parts(version.group(1).lower())])
    wholes = [plain, *_SEGMENTS.split(plain)]
    return _bounded(
        [*(whole.lower() for whole in wholes), *(part for segment in wholes[1:] for part in _parts(segment))]
    )


def _parts(segment: str) -> Iterator[str]:
    """Yield the parts of a code: between its marks, at its inner capitals, and before a number at its end."""
    for part in _PARTS.findall(segment):
        if _CAMEL.search(part):
            yield part.lower()
        for piece in _CAMEL.split(part.lower() if part.isupper() else part):
            yield _stemmed(piece.lower())
    for name, number in _NUMBERED.findall(segment):
        yield from (_stemmed(name.lower()), number)


def _version_parts(number: str) -> list[str]:
    """Return `2.3.1` and `2.3` of the version 2.3.1: who asks for the minor version means its patches too."""
    numbers = number.split(".")
    return [number, ".".join(numbers[:2])] if len(numbers) > 2 else [number]  # noqa: PLR2004 - major.minor


def _bounded(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for term in found if 0 < len(term) <= MAX_TERM))


def _folded(word: str) -> str:
    """Return the word without the accents of Latin letters: people type `cafe` for `café`."""
    if not _ACCENTED.search(word):
        return word
    decomposed = _ACCENTED.sub(lambda letter: unicodedata.normalize("NFD", letter.group())[0], word)
    return unicodedata.normalize("NFC", decomposed)


def _stemmed(word: str) -> str:
    if len(word) < STEMMED_FROM or not word.isascii() or not word[0].isalpha():
        return word
    stemmer = getattr(_stemmers, "english", None)
    if stemmer is None:
        from Stemmer import Stemmer  # type: ignore[import-not-found] # noqa: PLC0415 - a native library, not needed to import this module

        stemmer = _stemmers.english = Stemmer("english")
    stem: str = stemmer.stemWord(word)
    return stem


_segmenter = Segmenter()
_stemmers = threading.local()  # a stemmer must not be shared between threads
