"""What the local model runs on, built from the bundled weights once: encoder.onnx and tokenizer.json."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kb.embedders.built import Recipe, built
from kb.embedders.e5_graph import encoder_bytes
from kb.embedders.e5_tokenizer import E5Tokenizer, tokenizer_json

if TYPE_CHECKING:
    from pathlib import Path

    from kb.embedders.e5_weights import E5Weights

FORMAT = 1  # of the built files; grows when they would differ for the same weights
NAME = "e5-small-int8"
ENCODER, TOKENIZER = "encoder.onnx", "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """Verified files."""

    encoder: Path
    tokenizer: bytes


def built_model(cache_dir: Path, weights: E5Weights) -> BuiltModel:
    """Return the files built from `weights`, building them under `cache_dir` if they are missing or damaged.

    Raises:
        EmbedderUnavailable: they are not there and cannot be built: no space, no right to write, no onnx package.
    """
    recipe = Recipe(
        name=NAME,
        format=FORMAT,
        source=weights.path,
        files=(ENCODER, TOKENIZER),
        make=lambda _: {ENCODER: encoder_bytes(weights), TOKENIZER: tokenizer_json(weights).encode("utf-8")},
    )
    made = built(cache_dir, recipe)
    return BuiltModel(encoder=made.folder / ENCODER, tokenizer=made.contents[TOKENIZER])


def shared_tokenizer(data: bytes, weights: E5Weights) -> E5Tokenizer:
    """Return the tokenizer saved in `data`: one a process, however many use it (0.3 GB of memory).

    Loading takes 0.7 s during which no other Python thread runs: do it before an event loop has work. It is let go of
    with its last user.

    Raises:
        EmbedderUnavailable: see `E5Tokenizer.load`.
    """
    key = hashlib.sha256(data).digest()
    with _loading:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = E5Tokenizer.load(data, weights.normalisation())
        return found


_loading = threading.Lock()
_loaded: WeakValueDictionary[bytes, E5Tokenizer] = WeakValueDictionary()
