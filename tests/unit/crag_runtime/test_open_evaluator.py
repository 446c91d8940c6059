"""Who grades by what the settings say: nobody needs a key who does not ask a chat model."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crag_runtime.evaluators import open_evaluator
from crag_runtime.threads import Threads
from kb.errors import ConfigError
from kb.settings import Settings
from tests.fakes.chat import FakeChat
from tests.stores import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.ports import Evaluator


@contextmanager
def opened(name: str, *, chat: FakeChat | None = None, **ask: Any) -> Iterator[Evaluator]:
    threads = Threads(1)
    settings = Settings(ask={"evaluator": name, **ask})  # type: ignore[arg-type] # as from a file
    try:
        yield open_evaluator(
            settings, chat=chat, cache=None, threads=threads, clock=FakeClock(), vector_space="multilingual-e5-small"
        )
    finally:
        threads.close()


@pytest.mark.parametrize(("name", "has_chat", "who"), [
    ("auto", False, "reader"),
    ("auto", True, "cascade"),
    ("fast", False, "fast"),
    ("fast", True, "fast"),
    ("reader", True, "reader"),
    ("llm", True, "llm"),
    ("cascade", True, "cascade"),
])  # fmt: skip
def test_each_choice_is_who_it_says_and_auto_is_the_best_there_is(name: str, who: str, *, has_chat: bool) -> None:
    with opened(name, chat=FakeChat() if has_chat else None) as evaluator:
        assert evaluator.identity.name == who


@pytest.mark.parametrize("name", ["llm", "cascade"])
def test_a_choice_that_needs_a_chat_model_says_which_setting_is_missing(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the {name} evaluator needs a chat model") as refused, opened(name):
        pass
    assert "KB_CHAT__MODEL" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["fast", "reader"])
def test_other_thresholds_make_it_another_version(name: str) -> None:
    with opened(name) as one, opened(name, thresholds={"creative": {"lower": 0.11}}) as other:
        assert one.identity.version != other.identity.version
        assert one.identity.name == other.identity.name
