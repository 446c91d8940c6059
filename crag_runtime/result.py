"""What a question comes back with: an answer, or a search that waits for a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crag_runtime.codec import restored
from crag_runtime.evidence import Draft, Outcome, Usage, Verdict
from crag_runtime.state import plan_of
from kb.errors import InputError
from kb.history import AnswerId
from kb.ledger.checks import checked_name
from kb.model import FOREVER, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.evidence import Citation, Evidence, Excerpt
    from crag_runtime.state import RunState
    from kb.model import Instant, Json

MAX_QUESTION = 8_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRequest:
    """What is asked.

    Args:
        question: the words; at most 8,000 characters.
        tenant: whose memories.
        scope: whose inside the tenant.
        thread: conversation it belongs to; "" for none.
        at: instant to answer for; None is now.
        sources: source URIs allowed; empty for all.
        doc_ids: documents allowed; empty for all.
        approve: ask, always or never: who decides on a paid search; "" for the setting.
    """

    question: str
    tenant: str
    scope: Scope = field(default_factory=Scope)
    thread: str = ""
    at: Instant | None = None
    sources: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    approve: str = ""

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise InputError("the question is empty")
        if len(self.question) > MAX_QUESTION:
            raise InputError(f"the question is longer than {MAX_QUESTION:,} characters")
        if not self.tenant:
            raise InputError("the tenant is empty: every question names one")
        if self.at is not None and not 0 <= self.at < FOREVER:
            raise InputError("the instant asked for is out of range")
        if self.approve not in ("", "ask", "always", "never"):
            raise InputError(f"approve is {self.approve!r}; it must be ask, always or never")
        whose = self.scope  # an answer is kept under these names: now is the time to say that they cannot stand there
        for name, value in (("agent", whose.agent), ("user", whose.user), ("conversation", whose.conversation)):
            checked_name(value, name)
        checked_name(self.thread, "thread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A numbered reference of the answer."""

    number: int
    memory_id: str
    source: str
    url: str
    title: str
    quote: str
    supports: bool
    verified: bool
    effective_confidence: float
    dated: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a question ended, and everything that explains it.

    Args:
        answer_id: for `kb trace` and feedback.
        outcome: answered, partial, conflict or refused.
        text: the answer, or the refusal in words.
        verdict: of retrieval.
        citations: in the order of their numbers.
        path: every step and why.
        suppressed: what matched and was stopped; never its text.
        usage: what it cost.
        degraded: what did not work as configured; empty when all did.
        reasons: of refusal or of partial coverage.
        missing: sub-questions without an answer.
        conflicts: both sides each.
        plan: what was looked for.
    """

    answer_id: AnswerId
    outcome: Outcome
    text: str
    verdict: Verdict
    citations: tuple[Cited, ...]
    path: tuple[Mapping[str, Json], ...]
    suppressed: tuple[Mapping[str, Json], ...]
    usage: Usage
    degraded: tuple[str, ...]
    reasons: tuple[str, ...]
    missing: tuple[str, ...]
    conflicts: tuple[Mapping[str, Json], ...]
    plan: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """Evidence for a caller whose own model writes the answer.

    Args:
        answer: how retrieval and grading ended; its text is empty, or the refusal in words.
        excerpts: the only evidence that may be used, refined; empty when refused.
    """

    answer: Answer
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A question that waits for a person, before a search or with what was found: `resume` it by its thread.

    Args:
        answer_id: of the answer to come.
        thread: what to resume.
        provider: who would search; "" where no search waits.
        queries: what would be searched; where no search waits, the sub-questions that what was found does not settle.
        max_searches: at most so many searches, repeats included.
        kind: what is decided on: a search, or the evidence that was found.
        found: that evidence, the most relevant first, never its text: memory_id, source, url, title, label, relevance.
    """

    answer_id: AnswerId
    thread: str
    provider: str
    queries: tuple[str, ...]
    max_searches: int
    kind: str = "search"
    found: tuple[Mapping[str, Json], ...] = ()


def answer_of(state: RunState, evidence: Mapping[str, Evidence] | None) -> Answer:
    """Return the answer that a finished state holds.

    Args:
        state: after write_back.
        evidence: of the cited ids, as it stands now; None when it cannot be read, which loses no citation.
    """
    draft = restored(Draft, state["draft"]) if state["draft"] else Draft(text="")
    plan = plan_of(state)
    return Answer(
        answer_id=AnswerId(state["answer_id"]),
        outcome=Outcome(state["outcome"]),
        text=state["text"],
        verdict=Verdict(state["verdict"] or Verdict.UNKNOWN),
        citations=tuple(
            _cited(c, None if evidence is None else evidence[c.id])
            for c in draft.citations
            if evidence is None or c.id in evidence
        ),
        path=tuple({"node": s["node"], "why": s["why"]} for s in state["path"]),
        suppressed=tuple(state["suppressed"]),
        usage=Usage(**state["usage"]),
        degraded=tuple(state["degraded"]),
        reasons=tuple(state["reasons"]),
        missing=tuple(plan.sub_questions[sub] for sub in state["missing"]),
        conflicts=tuple(state["conflicts"]),
        plan=state["plan"],
    )


def _cited(citation: Citation, evidence: Evidence | None) -> Cited:
    return Cited(
        number=citation.number,
        memory_id=citation.id,
        source=evidence.source if evidence else "",
        url=evidence.url if evidence else "",
        title=evidence.title if evidence else "",
        quote=citation.quote,
        supports=citation.supports,
        verified=evidence is not None and evidence.verified,
        effective_confidence=evidence.confidence if evidence else 0.0,
        dated=evidence.dated if evidence else None,
    )


def cited_ids(state: RunState) -> list[str]:
    """Return the ids a finished state cites."""
    return [c.id for c in restored(Draft, state["draft"]).citations] if state["draft"] else []


def as_json(answer: Answer) -> dict[str, Json]:
    """Return an answer under the stable keys of docs/reference/json.md."""
    usage = answer.usage
    return {
        "answer_id": answer.answer_id,
        "outcome": answer.outcome.value,
        "answer": answer.text,
        "verdict": answer.verdict.value,
        "citations": [
            {
                "number": c.number,
                "memory_id": c.memory_id,
                "source": c.source,
                "url": c.url or None,
                "title": c.title,
                "quote": c.quote,
                "supports": c.supports,
                "verified": c.verified,
                "effective_confidence": round(c.effective_confidence, 6),
            }
            for c in answer.citations
        ],
        "path": [dict(s) for s in answer.path],
        "suppressed": [dict(s) for s in answer.suppressed],
        "usage": {
            "llm_calls": usage.llm_calls,
            "searches": usage.searches,
            "embeddings": usage.embeddings,
            "tokens": usage.tokens_in + usage.tokens_out,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
        },
        "degraded": list(answer.degraded),
        "reasons": list(answer.reasons),
        "missing": list(answer.missing),
        "conflicts": [dict(c) for c in answer.conflicts],
        "plan": dict(answer.plan),
    }
