"""Decides the encoding of text that is neither UTF-8 nor marked nor declared: what surprises its readers least.

Every encoding that can hold the bytes gives a reading; its cost is what its characters cost in the language it is
written for (nats, see commonness.py) and a handicap for how seldom such files are met. The cheapest reading wins:

* bytes that are common words in several encodings at once (one or two characters can be) are taken for GB18030 before
  cp1252, for cp1252 before Big5, and for these before the others: nothing in the file can settle it, so the likeliest
  kind of file does;
* the same holds for a word or two that are valid UTF-8 by chance: they are UTF-8 unless that mixes alphabets inside a
  word while another reading is of common words;
* of single-byte encodings only cp1252 and the Russian ones are judged here, by how letters stand in words; when no
  reading is believable, the rest is asked of charset-normalizer.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from ingest.parse.commonness import Language, common, surprise

ASCII_END = 0x80
SAMPLE = 100_000  # bytes looked at
BELIEVED = 2.5  # nats a character may cost in a double-byte reading that is believed
BELIEVED_FREE = {"gb18030": 8.0}  # nats it may cost besides, however short it is: a rare name in Chinese, above all
BELIEVED_FREE_ELSEWHERE = 4.0
RUSSIAN_ENOUGH = 0.7

BROKEN = 6.0  # cost of a byte that does not fit
BROKEN_SHARE = 0.005  # of the bytes that may not fit, in a reading that is considered at all
ALONE = 1.5  # cost of one ideograph or syllable between Latin letters
SPACED = 1.0  # cost of a blank between ideographs: Chinese and Japanese words follow each other without one
LONE_LINE = 2.0  # cost of a piece of a drawn line that joins no other
FADING = 0.5  # by which each common character found lessens the handicap of the languages with fewer of them
LEAST = 0.1  # handicap that stays: where all is common in Chinese too, it is Chinese
ACCENT = 1.5  # cost of a letter with an accent, as seldom as they are
TURNED_CASE = 2.0  # cost of a capital behind a small letter
OUT_OF_PLACE = 3.0  # cost of a mark inside a word, of a Latin letter beside a Russian one, of a letter of neither

CHANCE = 64  # non-ASCII bytes from which being valid UTF-8 is no accident
UTF8_CREDIT = 5.0  # nats by which another reading must be better than one in UTF-8

_WESTERN = frozenset("àâäáãåæçéèêëíìîïñóòôöõøœúùûüýÿßšžÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÚÙÛÜÝŠŽ")
_ICELANDIC = frozenset("áéíóúýþæöðÁÉÍÓÚÝÞÆÖÐ")  # Turkish has other letters where Icelandic has þ, ð and ý
_WESTERN_MARKS = frozenset("“”‘’„–—…•€£©®°§«»·™½¼¾²³¹·µ¥¢±¡¿´¨ªº× \xad†‚‰‹›")
_RUSSIAN_LOWER = frozenset("абвгдежзийклмнопрстуфхцчшщъыьэюяё")
_RUSSIAN_OFTEN = frozenset("оеаинтсрвлкмдпуяыьгз")
_RUSSIAN_MARKS = frozenset("«»“”„–—…№°§© \xad")
_STRAY = re.compile("(?<=[A-Za-z])[“”„«»‹›€£©®°§•¿¡†‡‰](?=[A-Za-z])|(?<!\\S)[”»›](?=[A-Za-z])|¢(?=[A-Za-z|])")
_RUSSIAN_WORD = re.compile("[А-Яа-яЁё][а-яё]")
_SMALL_FIGURE = re.compile("[²³¹¼½¾][a-zß-ÿ]")  # a letter of the east of Europe
_TWO_ALPHABETS = re.compile("[A-Za-z](?=[а-яё])|[а-яё](?=[A-Za-z])")
_LONE_LINE = re.compile("(?<![\u2500-\u257f])[\u2500-\u257f](?![\u2500-\u257f])")
_SPACED = re.compile("[\u4e00-\u9fff] (?=[\u4e00-\u9fff])")
_TURNED = re.compile("[a-zß-öø-ÿа-яё](?=[A-ZÀ-ÖØ-ÞА-ЯЁ])")
_BROAD = "\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef"
_ALONE = re.compile(
    f"(?<=[A-Za-z])[\u4e00-\u9fff\uac00-\ud7a3](?![{_BROAD}])|(?<![{_BROAD}])[\u4e00-\u9fff\uac00-\ud7a3](?=[A-Za-z])"
)
_CYRILLIC = ("cp1251", "cp866", "koi8_r")
_WORDS = re.compile("[^\x00-\x7f]+")
# Letters of dead or phonetic alphabets, which many Chinese words are by chance.
_RARE_LETTERS = (
    "[\u01a2-\u01ae\u01b1-\u01bf\u01dd-\u01f8\u01fa-\u0217\u021c-\u024f\u02b3-\u02ba\u02bd-\u02c5\u02d0-\u02d7"
    "\u02de-\u02ff\u0370-\u0383\u03cf-\u03ff\u0460-\u048f\u0500-\u052f\u0591-\u05af]"
)
_RARE = re.compile(f"{_RARE_LETTERS}|(?<={_RARE_LETTERS})[\u0300-\u036f]")
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "KATAKANA-HIRAGANA", "IDEOGRAPHIC"})
_SPELLINGS = {
    "sjis": "shift-jis",
    "windows-949": "cp949",
    "windows-31j": "cp932",
    "windows-874": "cp874",
    "gb-2312-80": "gb2312",
}
_SUPERSETS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "gb2312": "gb18030",
    "gbk": "gb18030", "big5": "big5hkscs", "cp950": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip
_NO_FILES = frozenset(
    {"idna", "punycode", "unicode_escape", "raw-unicode-escape", "unicode-escape", "utf-7", "undefined", "charmap"}
)
_FEW = 20  # letters that prove nothing
_ALIASES = {"cp1125": "cp866"}
# Mainframe sets, in which no file comes; sets that need a mark; and those judged here, and not believed.
_NOT_ASKED = (
    "cp037", "cp273", "cp424", "cp500", "cp875", "cp1026", "cp1140", "utf_7", "utf_8", "utf_16_be", "utf_16_le",
    "gb2312", "gbk", "gb18030", "big5", "big5hkscs", "cp950", "cp932", "shift_jis", "shift_jis_2004", "shift_jisx0213",
    "euc_jp", "euc_jis_2004", "euc_jisx0213", "cp949", "euc_kr", "johab",
)  # fmt: skip
_ISO2022 = re.compile(rb"\x1b\$[@B]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """An encoding and what its reading costs.

    Args:
        encoding: Python's name; "" when nothing reads the bytes.
        cost: nats; 0 for a text of common Chinese characters.
    """

    encoding: str
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _DoubleByte:
    encoding: str
    language: Language
    handicap: float  # nats


_DOUBLE_BYTE = (
    _DoubleByte(encoding="gb18030", language=Language.SIMPLIFIED, handicap=0.0),
    _DoubleByte(encoding="gb18030", language=Language.TRADITIONAL, handicap=3.0),
    _DoubleByte(encoding="big5hkscs", language=Language.TRADITIONAL, handicap=2.0),
    _DoubleByte(encoding="cp950", language=Language.TRADITIONAL, handicap=2.2),  # Microsoft's, which has the euro sign
    _DoubleByte(encoding="cp932", language=Language.JAPANESE, handicap=2.5),
    _DoubleByte(encoding="euc_jp", language=Language.JAPANESE, handicap=3.0),
    _DoubleByte(encoding="cp949", language=Language.KOREAN, handicap=2.5),
)
_HANDICAP_WESTERN = 1.0
_HANDICAP_RUSSIAN = 3.0
_NOTHING = Guess(encoding="", cost=float("inf"))


def guessed(data: bytes) -> str:
    """Return the name of the encoding that reads `data` best; "" when none does.

    Args:
        data: bytes that are not valid UTF-8 (or hold the escapes of ISO-2022-JP).
    """
    sample = data[:SAMPLE]
    if _ISO2022.search(sample) and _read(sample, "iso2022_jp") is not None:
        return "iso2022_jp"
    wide, narrow = double_byte(data), min(_western(sample), _russian(sample), key=lambda guess: guess.cost)
    if narrow.cost < wide.cost:
        return narrow.encoding
    free = BELIEVED_FREE.get(wide.encoding, BELIEVED_FREE_ELSEWHERE)
    return wide.encoding if wide.cost <= BELIEVED * _high(sample) / 2 + free else _asked(sample)


def double_byte(data: bytes) -> Guess:
    """Return the East Asian encoding that reads `data` best, believable or not."""
    sample = data[:SAMPLE]
    return min((_double_byte(sample, reading) for reading in _DOUBLE_BYTE), key=lambda guess: guess.cost)


def is_utf8_by_chance(data: bytes, text: str) -> bool:
    """Tell whether `data`, though it reads as `text` in UTF-8, is a word or two in an East Asian encoding."""
    if _high(data) > CHANCE:
        return False
    odd = len(_RARE.findall(text)) + sum(_alphabets_met(word) for word in _WORDS.findall(text))
    return odd > 0 and OUT_OF_PLACE * odd >= UTF8_CREDIT + double_byte(data).cost


def is_utf8_in_ruins(data: bytes, broken: int) -> bool:
    """Tell whether UTF-8 with `broken` bytes that do not fit is a better reading than any East Asian one."""
    return broken * BROKEN * min(SAMPLE / len(data), 1.0) <= double_byte(data).cost


def _high(data: bytes) -> int:
    return len(data.translate(None, bytes(range(ASCII_END))))


def _alphabets_met(word: str) -> int:
    """Count where a letter follows one of another alphabet."""
    names = (unicodedata.name(char, "").split(" ")[0] for char in word if unicodedata.category(char)[0] in "LM")
    alphabets = ["CJK" if name in _EAST_ASIAN else name for name in names if name != "COMBINING"]
    return sum(one != other for one, other in pairwise(alphabets))


def canonical(name: str) -> str:
    """Return Python's name for an encoding as a page or a mail declares it; "" for none, or none that files have.

    Declared supersets are what writers mean: gb2312 is read as gb18030, latin-1 as cp1252 (the web's rule).
    """
    low = re.sub(r"^(?:x-|cn-)+", "", name.strip().lower().replace("_", "-"))
    try:
        found = codecs.lookup(_SPELLINGS.get(low, low)).name
        b"kb".decode(found)
    except (LookupError, UnicodeError, ValueError):  # Python has none, or it gives no text
        return ""
    return "" if found in _NO_FILES else _SUPERSETS.get(found, found)


def _read(sample: bytes, encoding: str, *, strictly: bool = False) -> str | None:
    """Return the text of `sample`; None when more than a few bytes do not fit.

    A file may be cut in the middle of a character, and so may a sample of it.
    """
    try:
        return sample.decode(encoding)
    except UnicodeDecodeError:
        if strictly:
            return None
        text = sample.decode(encoding, "ignore")
    return text if _broken(sample, text, encoding) <= max(BROKEN_SHARE * len(sample), 1) else None


def _broken(sample: bytes, text: str, encoding: str) -> int:
    return max(len(sample) - len(text.encode(encoding, "ignore")), 0)


def _double_byte(sample: bytes, reading: _DoubleByte) -> Guess:
    text = _read(sample, reading.encoding)
    if text is None or text.isascii():
        return _NOTHING
    handicap = reading.handicap
    if reading.language in {Language.JAPANESE, Language.KOREAN}:
        handicap = max(handicap - FADING * common(text, reading.language), LEAST)
    cost = handicap + surprise(text, reading.language) + BROKEN * _broken(sample, text, reading.encoding)
    cost += LONE_LINE * len(_LONE_LINE.findall(text))
    cost += ALONE * len(_ALONE.findall(text)) + SPACED * len(_SPACED.findall(text))
    return Guess(encoding=reading.encoding, cost=cost)


def _western(sample: bytes) -> Guess:
    text = _read(sample, "cp1252", strictly=True)
    if not text or not _is_western(text):
        return _NOTHING
    cost = ACCENT * sum(not char.isascii() for char in text) + TURNED_CASE * len(_TURNED.findall(text))
    cost += OUT_OF_PLACE * len(_STRAY.findall(text))
    return Guess(encoding="cp1252", cost=cost + _HANDICAP_WESTERN)


def _is_western(text: str) -> bool:
    high = [char for char in text if not char.isascii()]
    icelandic = {char for char in high if char.isalpha()} <= _ICELANDIC and any(char in "áíúæ" for char in high)
    letters = sum(char in (_ICELANDIC if icelandic else _WESTERN) for char in high)
    marks = sum(char in _WESTERN_MARKS for char in high)
    # words of Latin letters carry few accents; a page of nothing but accents is another alphabet
    latin = sum(char.isascii() and char.isalpha() for char in text)
    if _SMALL_FIGURE.search(text):
        return False
    return letters + marks == len(high) and (latin >= letters or len(high) == 1)


def _russian(sample: bytes) -> Guess:
    readings = ((name, _read(sample, name, strictly=True) or "") for name in _CYRILLIC)
    guesses = [Guess(encoding=name, cost=_russian_cost(text)) for name, text in readings if _is_russian(text)]
    return min(guesses, key=lambda guess: guess.cost, default=_NOTHING)


def _russian_cost(text: str) -> float:
    counts = Counter(char.lower() for char in text if not char.isascii())
    seldom = sum(n for char, n in counts.items() if char in _RUSSIAN_LOWER - _RUSSIAN_OFTEN)
    odd = sum(n for char, n in counts.items() if char not in _RUSSIAN_LOWER | _RUSSIAN_MARKS)
    odd += len(_TWO_ALPHABETS.findall(text))
    return _HANDICAP_RUSSIAN + seldom + OUT_OF_PLACE * odd + TURNED_CASE * len(_TURNED.findall(text))


def _is_russian(text: str) -> bool:
    high = [char for char in text if not char.isascii()]
    if not _RUSSIAN_WORD.search(text):
        return False
    vowels = sum(char in "оеаинт" for char in high)
    lower = sum(char in _RUSSIAN_LOWER for char in high)
    if len(high) > _FEW and not any(char in "ыьэюя" or char.isupper() for char in high):  # Hebrew, most likely
        return False
    return lower >= RUSSIAN_ENOUGH * len(high) and vowels > 0.25 * len(high)


def _asked(sample: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - loaded when first needed

    best = from_bytes(sample, cp_exclusion=list(_NOT_ASKED)).best()
    return "" if best is None else _ALIASES.get(best.encoding, best.encoding)
