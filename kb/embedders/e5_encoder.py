"""Runs an encoder graph of `e5_graph` with onnxruntime: token ids to hidden states. Safe to share between threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.embedders.e5_graph import INPUT, OUTPUT
from kb.embedders.e5_weights import dequantised
from kb.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kb.embedders.e5_weights import E5Weights
    from kb.ports import Vector


class E5Encoder:
    """A graph and the embedding rows it is fed with. One window a call (see `e5_graph`), on the calling thread.

    Args:
        weights: whose rows and positions; they stay packed and mapped.
        graph: file of the graph.

    Raises:
        EmbedderUnavailable: onnxruntime cannot be imported or cannot load the graph.
    """

    def __init__(self, weights: E5Weights, graph: Path) -> None:
        hidden = weights.shape.hidden
        self._session = _session(graph)
        self._rows = weights.blocks("emb.word", hidden)
        positions = weights.floats("emb.pos").reshape(-1, hidden)[: weights.shape.positions]
        self._positions = positions + weights.floats("emb.type")[:hidden]

    def hidden(self, ids: Sequence[int], order: Sequence[int] | None = None) -> Vector:
        """Return the hidden state of each token, float32, shape (len(ids), hidden), in the order of `ids`.

        Args:
            ids: special tokens included, at most as many as the model has positions.
            order: indices into `ids`: the order in which the graph gets them, each with its own position. It changes
                nothing but which tokens are first and last, and so quantised apart.

        Raises:
            EmbedderUnavailable: onnxruntime failed.
        """
        embedded = dequantised(self._rows[np.asarray(ids)]) + self._positions[: len(ids)]
        if order is not None:
            embedded = embedded[np.asarray(order)]
        try:
            states: Vector = self._session.run([OUTPUT], {INPUT: embedded[None]})[0][0]
        except Exception as error:  # onnxruntime's errors share no root but Exception
            raise EmbedderUnavailable(f"onnxruntime failed: {error}") from error
        if order is None:
            return states
        restored = np.empty_like(states)
        restored[np.asarray(order)] = states
        return restored


def _session(graph: Path) -> Any:  # noqa: ANN401 - onnxruntime has no types
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read as it loads: else it reports this machine to its vendor
    try:
        import onnxruntime  # type: ignore[import-untyped] # noqa: PLC0415 - a native library, and only run models need it

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_mem_pattern = False  # it would remember a plan for every length of window
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except ImportError as error:
        raise EmbedderUnavailable(f"onnxruntime cannot be imported: {error}", hint="install onnxruntime") from error
    except Exception as error:  # onnxruntime's errors share no root but Exception
        raise EmbedderUnavailable(f"onnxruntime cannot load {graph}: {error}") from error
