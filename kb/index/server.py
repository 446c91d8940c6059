"""Where the settings say that collections live: the owned Milvus Lite server, or any Milvus by its URI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.index.lite import LiteServer
from kb.index.milvus import MilvusServer

if TYPE_CHECKING:
    from kb.settings import Settings

LITE_FOLDER = "index"


def open_server(settings: Settings) -> MilvusServer:
    """Return the index server of the settings. Nothing connects, or starts, before the first call that needs it."""
    token = settings.index_token.get_secret_value() if settings.index_token else ""
    return MilvusServer(settings.index_uri or lite_server(settings), token=token, timeout=settings.index_timeout)


def lite_server(settings: Settings) -> LiteServer:
    """Return the owned server of the settings' data directory."""
    return LiteServer(settings.data_dir / LITE_FOLDER, settings.index_idle_seconds)
