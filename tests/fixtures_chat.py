"""Fixtures of chat models: the scripted server, and a real one that starts only when a test asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fakes.chat import FakeChat
from tests.fakes.chat_server import ChatServer
from tests.real_chat import RealChatServer, missing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def chat_server() -> Iterator[ChatServer]:
    """An OpenAI-compatible endpoint on loopback that says what it is told."""
    with ChatServer() as server:
        yield server


@pytest.fixture
def fake_chat() -> FakeChat:
    """A chat model in the process."""
    return FakeChat()


@pytest.fixture(scope="session")
def real_chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealChatServer]:
    """A real server with a real model, one a session."""
    if reason := missing():
        pytest.skip(reason)
    with RealChatServer(tmp_path_factory.mktemp("real-chat")) as server:
        yield server


@pytest.fixture
def mortal_chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealChatServer]:
    """A real server of the test's own, which it may kill."""
    if reason := missing():
        pytest.skip(reason)
    with RealChatServer(tmp_path_factory.mktemp("mortal-chat")) as server:
        yield server
