"""Evaluators, one a file; `open_evaluator` puts them together as the settings say: chosen, guarded, remembered.

Whoever is chosen has stand-ins that need no service: the reader, then the fast one. A stand-in is always said aloud.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, assert_never

from crag_runtime.policy import bands_of
from kb.errors import ConfigError, EvaluatorUnavailable

if TYPE_CHECKING:
    from crag_runtime.evaluators.reader import ReaderEvaluator
    from crag_runtime.ports import Evaluator, GradeCache
    from crag_runtime.threads import Threads
    from kb.chat import Chat
    from kb.ports import Clock
    from kb.settings import Settings


def open_evaluator(
    settings: Settings,
    *,
    chat: Chat | None,
    cache: GradeCache | None,
    threads: Threads,
    clock: Clock,
    vector_space: str,
    is_warm: bool = False,
) -> Evaluator:
    """Return the configured evaluator. Models are loaded with the first grade, or now for one that is to be warm.

    Raises:
        ConfigError: `llm` or `cascade` without a chat model, or thresholds that do not rise.
    """
    from crag_runtime.breaker import Breaker  # noqa: PLC0415 - only what runs is loaded
    from crag_runtime.evaluators.guarded import Guarded  # noqa: PLC0415
    from crag_runtime.evaluators.remembered import Remembered  # noqa: PLC0415

    fast, reader = _fast(settings, threads, vector_space), _reader(settings, threads)
    stand_ins: list[Evaluator] = [reader, fast]
    name = _chosen(settings, chat)
    if is_warm and name in ("reader", "cascade"):
        with contextlib.suppress(EvaluatorUnavailable):  # the first grade will say it, and who stands in
            reader.warm()
    match name:
        case "fast":
            chosen, stand_ins = fast, []
        case "reader":
            chosen, stand_ins = reader, [fast]
        case "llm":
            chosen = _llm(settings, chat, threads)
        case "cascade":
            from crag_runtime.evaluators.cascade import Cascade  # noqa: PLC0415

            chosen = Cascade(Guarded(reader, [fast], Breaker(), clock), _llm(settings, chat, threads))
        case other:
            raise ConfigError(f"ask.evaluator is {other!r}")
    guarded = Guarded(chosen, stand_ins, Breaker(), clock)
    return guarded if cache is None else Remembered(guarded, cache, threads)


def _chosen(settings: Settings, chat: Chat | None) -> str:
    named = settings.ask.evaluator
    match named:
        case "auto":
            return "reader" if chat is None else "cascade"
        case "fast" | "reader":
            return named
        case "llm" | "cascade":
            if chat is None:
                raise ConfigError(
                    f"the {named} evaluator needs a chat model", hint="set KB_CHAT__MODEL, or [chat] model"
                )
            return named
        case _:
            assert_never(named)


def _fast(settings: Settings, threads: Threads, vector_space: str) -> Evaluator:
    from crag_runtime.evaluators.fast import FastEvaluator, own_bands  # noqa: PLC0415

    return FastEvaluator(bands_of(settings, own_bands()), threads, vector_space=vector_space)


def _reader(settings: Settings, threads: Threads) -> ReaderEvaluator:
    from crag_runtime.evaluators.reader import BANDS, open_reader  # noqa: PLC0415

    return open_reader(settings.cache_dir, bands_of(settings, BANDS), threads)


def _llm(settings: Settings, chat: Chat | None, threads: Threads) -> Evaluator:
    from crag_runtime.evaluators.criteria import BANDS  # noqa: PLC0415
    from crag_runtime.evaluators.llm import LlmEvaluator  # noqa: PLC0415

    assert chat is not None
    return LlmEvaluator(chat, bands_of(settings, BANDS), threads=threads)
