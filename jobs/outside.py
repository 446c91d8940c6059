"""Whom `recheck` may ask outside the store: a web search, and a chat model behind the rules, as the settings say."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.ports import WebSearch
    from governance.ports import Checker, Comparer
    from kb.settings import Settings

ASKS = 'external checks are paid for and nobody can be asked here; `search.approve = "always"` lets them be made'


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Who is asked; `note` says why nobody is, where somebody could be."""

    checker: Checker | None
    comparer: Comparer
    note: str = ""


@contextmanager
def outside(settings: Settings, *, checks: int, is_dry: bool) -> Iterator[Outside]:
    """Open whom a recheck asks, and close it after. A dry run asks nobody: asking costs.

    Args:
        settings: `[search]`, `[chat]` and `govern.judge`.
        checks: that the tenant's policy allows; 0: no search is opened.
        is_dry: whether the plan is only to be looked at.

    Raises:
        ConfigError: what the chosen search or model needs is missing or wrong.
    """
    from governance.contradict import compare  # noqa: PLC0415 - import what is used

    if is_dry:
        yield Outside(checker=None, comparer=compare)
        return
    with ExitStack() as stack:
        search = _search(settings, stack) if checks else None
        may_ask = search is None or not search.is_paid or settings.search.approve == "always"
        yield Outside(
            checker=_checker(search) if search is not None and may_ask else None,
            comparer=_comparer(settings, stack),
            note="" if may_ask else ASKS,
        )


def _search(settings: Settings, stack: ExitStack) -> WebSearch | None:
    from crag_runtime.searchers import open_search  # noqa: PLC0415 - import what is used
    from crag_runtime.threads import Threads  # noqa: PLC0415

    if settings.search.provider == "none" or settings.search.approve == "never":
        return None
    threads = Threads()
    stack.callback(threads.close)
    return open_search(settings, threads)


def _checker(search: WebSearch) -> Checker:
    from jobs.checker import WebChecker  # noqa: PLC0415 - import what is used

    return WebChecker(search)


def _comparer(settings: Settings, stack: ExitStack) -> Comparer:
    from governance.contradict import compare  # noqa: PLC0415 - import what is used

    if not settings.govern.judge:
        return compare
    from governance.judge import JudgedCompare  # noqa: PLC0415 - import what is used
    from kb.chat import open_chat  # noqa: PLC0415

    chat = open_chat(settings)
    return compare if chat is None else stack.enter_context(JudgedCompare(chat))
