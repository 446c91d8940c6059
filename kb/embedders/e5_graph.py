"""The encoder of multilingual-e5-small as an int8 ONNX graph: twelve layers, whose weights are quantised here.

Activations are quantised in each call with one scale for the whole input. Two things follow:

* a window's vector would depend on what else is in the call, so the embedder runs one window a call: exact, no padding,
  and measured faster than a padded batch on one core;
* the first and last token (the model parks huge activations on them) would eat the whole range, so they are quantised
  apart from the rest: mean cosine to full precision rises from .9965 to .9989 at the same speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from onnx import ModelProto

    from kb.embedders.e5_weights import Shape
    from kb.ports import Vector

OPSET = 18
IR_VERSION = 9
FUSED = "com.microsoft"  # onnxruntime's own operators
INPUT, OUTPUT = "embedded", "hidden"
LEVELS = 63  # 7 bits: processors without VNNI saturate on full int8 sums, and vectors must agree on every machine
END = 2**31 - 1  # a slice to the end


class EncoderWeights(Protocol):
    """What a graph is made from: the weights as they are bundled, or as an adapter changes them."""

    @property
    def shape(self) -> Shape:
        """Dimensions."""
        ...

    def floats(self, name: str) -> Vector:
        """Return a bias or a norm's factor, float32, flat."""
        ...

    def matrix(self, name: str, columns: int) -> Vector:
        """Return a matrix as float32, shape (rows, columns)."""
        ...


def encoder_bytes(weights: EncoderWeights, *, opening: int = 1) -> bytes:
    """Return the serialised ONNX model: `embedded`, float32 (1, tokens, hidden), to `hidden` of the same shape.

    Args:
        weights: what it is made from.
        opening: 1 or 2: tokens at the front that are quantised apart, with the last one. An input has one more than
            those `opening + 1` at least.

    Raises:
        ImportError: the package onnx is not installed.
    """
    serialised: bytes = _Graph(weights, opening).model().SerializeToString()
    return serialised


def quantised(matrix: Vector) -> tuple[NDArray[np.int8], Vector]:
    """Return `matrix` (inputs, outputs) as int8 and its scales, one an output column."""
    scales = np.abs(matrix).max(axis=0) / LEVELS
    scales[scales == 0] = 1.0
    return np.rint(matrix / scales).astype(np.int8), scales.astype(np.float32)


class _Graph:
    """Collects nodes and initializers; `current` names the tensor that flows on."""

    def __init__(self, weights: EncoderWeights, opening: int) -> None:
        import onnx  # noqa: PLC0415 - heavy, and only needed to build

        self.onnx = onnx
        self.weights = weights
        self.opening = opening
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.indices: set[str] = set()

    def model(self) -> ModelProto:
        helper, shape = self.onnx.helper, self.weights.shape
        epsilon = shape.epsilon
        first = [INPUT, self.vector("emb.ln.w"), self.vector("emb.ln.b")]
        current = self.node("LayerNormalization", first, "normal", epsilon=epsilon, axis=-1)
        for layer in range(shape.layers):
            current = self.layer(f"l{layer}.", current)
        self.node("Identity", [current], OUTPUT)
        dims = [1, "tokens", shape.hidden]
        graph = helper.make_graph(
            self.nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info(INPUT, self.onnx.TensorProto.FLOAT, dims)],
            [helper.make_tensor_value_info(OUTPUT, self.onnx.TensorProto.FLOAT, dims)],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        made: ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        return made

    def layer(self, prefix: str, current: str) -> str:
        shape = self.weights.shape
        projected = self.matmul(current, [prefix + n for n in ("q.w", "k.w", "v.w")], shape.hidden, prefix + "qkv")
        parts = [prefix + part for part in ("Q", "K", "V")]
        self.nodes.append(self.onnx.helper.make_node("Split", [projected], parts, axis=-1, num_outputs=3))
        biases = np.concatenate([self.weights.floats(prefix + n) for n in ("q.b", "k.b", "v.b")])
        attended = self.fused(
            "MultiHeadAttention",
            [*parts, self.constant(prefix + "qkv.b", biases)],
            prefix + "context",
            num_heads=shape.heads,
        )
        attended = self.matmul(attended, [prefix + "ao.w"], shape.hidden, prefix + "attention")
        current = self.skip_norm(attended, current, prefix, ("aln.w", "aln.b", "ao.b"))
        inner = self.matmul(current, [prefix + "fi.w"], shape.hidden, prefix + "inner")
        inner = self.fused("BiasGelu", [inner, self.vector(prefix + "fi.b")], prefix + "gelu")
        outer = self.matmul(inner, [prefix + "fo.w"], shape.ffn, prefix + "outer")
        return self.skip_norm(outer, current, prefix, ("oln.w", "oln.b", "fo.b"))

    def skip_norm(self, new: str, skipped: str, prefix: str, names: tuple[str, str, str]) -> str:
        inputs = [new, skipped, *(self.vector(prefix + name) for name in names)]
        return self.fused("SkipLayerNormalization", inputs, new + ".normal", epsilon=self.weights.shape.epsilon)

    def matmul(self, source: str, names: Sequence[str], columns: int, output: str) -> str:
        """Multiply by the int8 form of the named matrices, side by side; edge tokens apart from inner ones."""
        matrix = np.concatenate([self.weights.matrix(name, columns) for name in names]).T
        levels, scales = quantised(matrix)
        weight = [self.constant(output + ".w", levels), self.constant(output + ".scale", scales)]
        edges = [
            self.tokens(source, 0, self.opening, output + ".first"),
            self.tokens(source, -1, END, output + ".last"),
        ]
        edge = self.node("Concat", edges, output + ".edges", axis=1)
        edge = self.fused("DynamicQuantizeMatMul", [edge, *weight], output + ".edge")
        inner = self.tokens(source, self.opening, -1, output + ".inside")
        inner = self.fused("DynamicQuantizeMatMul", [inner, *weight], output + ".inner")
        ends = [output + ".begin", output + ".end"]  # a split of three in two is one of two and one of one
        self.nodes.append(self.onnx.helper.make_node("Split", [edge], ends, axis=1, num_outputs=2))
        return self.node("Concat", [ends[0], inner, ends[1]], output, axis=1)

    def tokens(self, source: str, start: int, stop: int, output: str) -> str:
        """Slice `source` along its tokens."""
        bounds = [self.index(start), self.index(stop), self.index(1)]
        return self.node("Slice", [source, *bounds], output)

    def index(self, value: int) -> str:
        name = f"index.{value}"
        if name not in self.indices:
            self.indices.add(name)
            self.constant(name, np.array([value], np.int64))
        return name

    def vector(self, name: str) -> str:
        return self.constant(name, self.weights.floats(name))

    def constant(self, name: str, array: NDArray[np.float32 | np.int8 | np.int64]) -> str:
        self.initializers.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def fused(self, operator: str, inputs: Sequence[str], output: str, **attributes: float) -> str:
        return self.node(operator, inputs, output, domain=FUSED, **attributes)

    def node(self, operator: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: float) -> str:
        made = self.onnx.helper.make_node(operator, inputs, [output], domain=domain, **attributes)  # type: ignore[arg-type] # its stub mistakes attributes
        self.nodes.append(made)
        return output
