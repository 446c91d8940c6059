"""A web search in the test's own process: gives what it was told to, counts what it was asked."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crag_runtime.evidence import Finding
    from kb.errors import SearchUnavailable


class FakeSearch:
    """Implements `crag_runtime.ports.WebSearch`.

    Each call takes the next reply of `script` (findings, or the error to raise); with an empty script, the findings
    of the first key of `by_words` that the query contains (without case); with none, `findings`. While `hold` is
    cleared, calls wait.
    """

    def __init__(
        self,
        findings: Sequence[Finding] = (),
        *,
        script: Iterable[Sequence[Finding] | SearchUnavailable] = (),
        by_words: Mapping[str, Sequence[Finding]] | None = None,
        is_paid: bool = True,
        name: str = "fake",
    ) -> None:
        self.findings = findings
        self.script = deque(script)
        self.by_words = dict(by_words or {})
        self.queries: list[str] = []
        self.limits: list[int] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self._is_paid = is_paid
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_paid(self) -> bool:
        return self._is_paid

    @property
    def calls(self) -> int:
        """How many searches were made, the failed ones included."""
        return len(self.queries)

    async def search(self, query: str, *, limit: int) -> list[Finding]:
        self.queries.append(query)
        self.limits.append(limit)
        await self.hold.wait()
        reply = self.script.popleft() if self.script else self._found(query)
        if isinstance(reply, Exception):
            raise reply
        return list(reply)[: max(0, limit)]

    def _found(self, query: str) -> Sequence[Finding]:
        for words, findings in self.by_words.items():
            if words.casefold() in query.casefold():
                return findings
        return self.findings
