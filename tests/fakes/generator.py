"""A generator in the test's own process: writes what it was told to, instantly, and counts what it was asked."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import TYPE_CHECKING

from crag_runtime.evidence import Citation, Draft, Usage
from kb.errors import Fault, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crag_runtime.evidence import Task


class FakeGenerator:
    """Implements `crag_runtime.ports.Generator`.

    Each call takes the next entry of `script`: a text, a function from the task to a text, a whole draft, or a fault
    (or error) to fail with; with an empty script `text` is used. The default quotes the first strip of the first
    excerpt of each sub-question. `[n]` in a text means the n-th distinct evidence of the task. While `hold` is
    cleared, calls wait. With `pieces`, the text is streamed in pieces of that many characters.
    """

    def __init__(
        self,
        text: str | Callable[[Task], str] | None = None,
        *,
        script: Iterable[str | Callable[[Task], str] | Draft | Fault | ModelUnavailable] = (),
        pieces: int = 8,
        usage: Usage | None = None,
        name: str = "fake",
    ) -> None:
        self.text = text
        self.script = deque(script)
        self.pieces = pieces
        self.usage = usage or Usage()
        self.tasks: list[Task] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def calls(self) -> int:
        """How many drafts were asked for, the failed ones included."""
        return len(self.tasks)

    async def generate(self, task: Task, on_token: Callable[[str], None]) -> Draft:
        if not task.excerpts:
            raise ValueError("a task has no excerpts")
        self.tasks.append(task)
        await self.hold.wait()
        reply = self.script.popleft() if self.script else self.text
        if isinstance(reply, Fault):
            raise ModelUnavailable("the generator was told to fail", fault=reply)
        if isinstance(reply, ModelUnavailable):
            raise reply
        draft = reply if isinstance(reply, Draft) else self._draft(reply, task)
        for start in range(0, len(draft.text), self.pieces):
            on_token(draft.text[start : start + self.pieces])
        return draft

    def _draft(self, reply: str | Callable[[Task], str] | None, task: Task) -> Draft:
        ids = list(dict.fromkeys(excerpt.evidence.id for excerpt in task.excerpts))
        strips = {excerpt.evidence.id: excerpt.strips[0] for excerpt in reversed(task.excerpts)}
        text = (reply if isinstance(reply, str) else (reply or self._quoting)(task)) or "Nothing to say."
        cited = dict.fromkeys(int(n) for n in re.findall(r"\[(\d+)\]", text) if 1 <= int(n) <= len(ids))
        return Draft(
            text=text,
            citations=tuple(Citation(number=n, id=ids[n - 1], quote=strips[ids[n - 1]]) for n in cited),
            missing=task.missing,
            usage=self.usage,
            generator=self._name,
        )

    @staticmethod
    def _quoting(task: Task) -> str:
        ids = list(dict.fromkeys(excerpt.evidence.id for excerpt in task.excerpts))
        first = {excerpt.sub: excerpt for excerpt in reversed(task.excerpts)}
        return "\n".join(f"“{first[sub].strips[0]}” [{ids.index(first[sub].evidence.id) + 1}]" for sub in sorted(first))
