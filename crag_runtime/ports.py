"""The seams of the runtime.

Each Protocol's docstring is its contract; a suite in tests/contract holds every implementation to it, fakes included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crag_runtime.evidence import Asked, Draft, Evidence, Finding, Grade, Plan, Task, Turn, Usage
    from kb.model import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorIdentity:
    """Who grades. `model` and `version` are part of every cached grade's key.

    Args:
        name: fast, reader, llm or cascade.
        model: what runs, e.g. "e5ce-lora int8" or the chat model's name.
        version: of prompt, criteria, coefficients and thresholds; changes whenever a grade could.
    """

    name: str
    model: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """Grades of one call, in the order of the evidence, and what they cost.

    `degraded` says why somebody else than the configured evaluator graded; "" when it did itself.
    """

    grades: tuple[Grade, ...]
    usage: Usage
    degraded: str = ""


class Evaluator(Protocol):
    """Grades passages for a question, batch first.

    One grade for each piece of evidence, in order, with its id. Grades are independent of one another: the same
    passage with the same question gets the same grade whatever stands beside it. A passage that cannot be graded gets
    UNKNOWN and a reason; the others get theirs. Relevance is in [0, 1] and larger is better; a label agrees with the
    thresholds of the question's type, inclusive at `upper` and `lower` (see `crag_runtime.verdict`). An empty list
    gives no grades and costs nothing.

    Raises:
        EvaluatorUnavailable: it cannot grade at all now.
        ModelUnavailable: likewise, when it is a chat model.
    """

    @property
    def identity(self) -> EvaluatorIdentity:
        """Name, model and version."""
        ...

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage."""
        ...


class WebSearch(Protocol):
    """Searches the web; one call is one paid search where `is_paid`.

    Findings are plain text without markup, best first, with absolute http(s) URLs, distinct, at most `limit`; a
    result without URL or text is left out, never an error.

    Raises:
        SearchUnavailable: with the fault; it does not retry by itself.
    """

    @property
    def name(self) -> str:
        """tavily, searxng..."""
        ...

    @property
    def is_paid(self) -> bool:
        """Whether a search costs money, so that a person may have to approve it."""
        ...

    async def search(self, query: str, *, limit: int) -> list[Finding]:
        """Return what the web says."""
        ...


class Planner(Protocol):
    """Turns a question, and the thread's last turns, into a plan. Falls back to rules by itself, never fails.

    Returns the plan, what it cost, and why it fell back ("" when it did not).
    """

    async def plan(self, question: str, turns: Sequence[Turn], now: Instant) -> tuple[Plan, Usage, str]:
        """Return a plan of one to three sub-questions."""
        ...


class Rewriter(Protocol):
    """Rewrites a query that found too little: same meaning, entities, numbers and language; other words.

    Never returns a query that is in `tried` (compared without case and blanks); "" when it knows no other. Falls back
    to rules by itself, never fails; the last part of the result says why it did.
    """

    async def rewrite(self, query: str, tried: Sequence[str], plan: Plan, now: Instant) -> tuple[str, Usage, str]:
        """Return another query."""
        ...


class Generator(Protocol):
    """Writes an answer from the task's excerpts and nothing else.

    Every citation's id is an excerpt's; every `[n]` in the text is a citation; the text is never empty and is in the
    question's language. `on_token` gets the pieces of the text as they come; joined they are the draft's text.

    Raises:
        ModelUnavailable: with the fault; what was streamed until then is void.
    """

    @property
    def name(self) -> str:
        """`extractive`, or the model's name."""
        ...

    async def generate(self, task: Task, on_token: Callable[[str], None]) -> Draft:
        """Return a draft."""
        ...


class GradeCache(Protocol):
    """Keeps grades by key, with a time to live; losing an entry is no error. Thread-safe.

    Values are JSON texts. `purge` forgets all of a tenant's entries for these memories, whatever the question. A
    cache that cannot be reached acts as an empty one and never raises.
    """

    def get(self, keys: Sequence[GradeKey]) -> dict[GradeKey, str]:
        """Return what is there and not expired."""
        ...

    def put(self, entries: Mapping[GradeKey, str]) -> None:
        """Keep entries for the cache's time to live."""
        ...

    def purge(self, tenant: str, memory_ids: Sequence[str]) -> int:
        """Forget these memories; return how many entries went."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeKey:
    """What a grade depends on. Another revision, model or prompt is another key, so a changed memory never hits.

    Args:
        tenant: whose; grades never cross tenants.
        question: digest of the normalised sub-question, its type and, where the answer depends on time, the day.
        memory_id: of the passage.
        rev: of the memory; for web findings 0, their id being from their content.
        evaluator: name, model and version, joined.
    """

    tenant: str
    question: str
    memory_id: str
    rev: int
    evaluator: str
