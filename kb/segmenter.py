"""Cutting Chinese into words, through jieba; its dictionary is loaded with the first word.

jieba's own loader keeps a marshalled copy of the dictionary in the shared temporary folder, where anybody could have
put another, and logs to stderr; so the dictionary is read here, straight from the package.
"""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Segmenter:
    """Cuts runs of Han characters. Safe to share between threads."""

    def __init__(self) -> None:
        self._jieba: Any = None  # jieba has no types
        self._loading = threading.Lock()

    def words(self, run: str) -> Iterator[str]:
        """Yield the words of a run of Han characters, and the shorter words inside long ones (search mode)."""
        if self._jieba is None:
            with self._loading:
                if self._jieba is None:
                    self._jieba = _tokenizer()
        yield from self._jieba.cut_for_search(run)


def _tokenizer() -> Any:  # noqa: ANN401 - jieba has no types
    with warnings.catch_warnings():  # its sources warn when they are compiled, and about pkg_resources
        warnings.simplefilter("ignore")
        import jieba  # type: ignore[import-untyped] # noqa: PLC0415 - 0.2 s, only for Chinese

    tokenizer = jieba.Tokenizer()
    lines = (Path(jieba.__file__).parent / jieba.DEFAULT_DICT_NAME).read_text(encoding="utf-8").splitlines()
    tokenizer.FREQ, tokenizer.total = _frequencies(line.split(" ", 2) for line in lines)
    tokenizer.initialized = True
    return tokenizer


def _frequencies(entries: Iterable[list[str]]) -> tuple[dict[str, int], int]:
    """Return word frequencies with every proper prefix of a word at 0, and their sum: what jieba looks words up in."""
    counted = [(word, int(count)) for word, count, _ in entries]
    prefixes = {word[:end] for word, _ in counted for end in range(1, len(word))}
    return {**dict.fromkeys(prefixes, 0), **dict(counted)}, sum(count for _, count in counted)
