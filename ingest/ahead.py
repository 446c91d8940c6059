"""Works a little ahead: while one document is chunked and embedded, the next are read and parsed elsewhere."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

DEPTH = 4  # parsed documents may be large; a few hide the parser's time, more would only hold memory


def ahead(items: Iterable[T], work: Callable[[T], R], depth: int = DEPTH) -> Iterator[tuple[T, R]]:
    """Yield (item, work(item)) in order, working on up to `depth` items beforehand, one at a time in another thread.

    An exception of `work` is raised where its item would have come. Work that is under way when the reader stops is
    waited for, what has not begun is dropped.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(copy_context().run, work, item)))  # spans find their parent
                if len(waiting) > depth:
                    first, done = waiting.popleft()
                    yield first, done.result()
            while waiting:
                first, done = waiting.popleft()
                yield first, done.result()
        finally:
            for _, left in waiting:
                left.cancel()
