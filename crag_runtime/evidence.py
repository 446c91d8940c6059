"""The runtime's words as frozen values: what is asked, what was found, how it was graded, what is answered.

Every value is made of plain parts, so that `crag_runtime.codec` can put it into a checkpoint and take it out again.
Instants are epoch milliseconds, UTC; relevance and confidence are in [0, 1] and never mean one another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kb.dates.period import TimeIntent
from kb.model import Instant, SourceClass

if TYPE_CHECKING:
    from kb.ports import Vector


class QuestionType(StrEnum):
    """What kind of answer is wanted; sets gate and thresholds."""

    FACTUAL = "factual"
    ANALYTICAL = "analytical"
    CREATIVE = "creative"


class Label(StrEnum):
    """A passage's grade for a question."""

    RELEVANT = "relevant"  # relevance >= upper
    AMBIGUOUS = "ambiguous"  # lower <= relevance < upper
    IRRELEVANT = "irrelevant"  # relevance < lower
    UNKNOWN = "unknown"  # the evaluator failed; no verdict may rest on it


class Verdict(StrEnum):
    """Of one retrieval as a whole."""

    CORRECT = "correct"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """How a question ended."""

    ANSWERED = "answered"
    PARTIAL = "partial"  # some of it is covered; the answer says what is not
    CONFLICT = "conflict"  # trusted evidence disagrees; both sides are shown
    REFUSED = "refused"


class Origin(StrEnum):
    """Where a piece of evidence came from in this run."""

    MEMORY = "memory"
    WEB = "web"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be looked for.

    Args:
        question: self-contained: a follow-up with what it took over from the last turn.
        sub_questions: one to three, each one fact; the question itself when it is simple.
        type: sets gate and thresholds.
        time: of the whole question.
        carried: words taken over from the last turn by rule, "" when none were; shown in the result.
        planner: `rules`, or the model's name.
    """

    question: str
    sub_questions: tuple[str, ...]
    type: QuestionType = QuestionType.FACTUAL
    time: TimeIntent = field(default_factory=TimeIntent)
    carried: str = ""
    planner: str = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An earlier question of a thread and the quotes that answered it; never a model's words."""

    question: str  # self-contained
    answer: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A question as an evaluator sees it.

    Args:
        question: one sub-question, self-contained.
        type: of the whole question.
        time: of this sub-question.
        today: the instant of asking.
        tenant: whose.
        vector: float32, shape (dim,), unit length; None when there is no embedder.
    """

    question: str
    type: QuestionType
    time: TimeIntent
    today: Instant
    tenant: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """A passage that may answer, with all that an evaluator or a generator may know of it.

    Args:
        id: memory id, or the id a web finding will have as a memory.
        origin: memory or web.
        text: verbatim.
        title: of its document or page.
        heading_path: headings above it.
        source: URI.
        url: where a reader can open it; "" for local sources.
        source_class: prior trust.
        root: root source, e.g. `docs` or a web host; two pieces are independent only if their roots differ.
        dated: when it was published or became valid; None when unknown.
        fetched: when it was fetched; None for memories.
        verified: a person, an owner or a check has vouched for it.
        confidence: effective, now.
        rev: revision of the memory; 0 for a web finding.
        score: retrieval rank score in [0, 1].
        vector: float32, shape (dim,), unit length; None when it has none.
    """

    id: str
    origin: Origin
    text: str
    title: str = ""
    heading_path: tuple[str, ...] = ()
    source: str = ""
    url: str = ""
    source_class: SourceClass = SourceClass.DOCUMENT
    root: str = ""
    doc_id: str = ""
    dated: Instant | None = None
    fetched: Instant | None = None
    verified: bool = False
    confidence: float = 0.0
    rev: int = 0
    score: float = 0.0
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStrip:
    """Characters [start, end) of an evidence's text, and how relevant they are."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """One passage graded for one question.

    Args:
        id: the evidence's.
        label: by the thresholds of the question's type.
        relevance: None exactly when the label is UNKNOWN.
        reason: one line, for people and traces.
        answer: span of the text that answers, verbatim; "" when the evaluator gives none.
        strips: windows that were read and their scores, where the evaluator reads windows.
        evaluator: name of what graded it.
        model: what ran.
        version: of criteria, coefficients and thresholds.
    """

    id: str
    label: Label
    relevance: float | None
    reason: str = ""
    answer: str = ""
    strips: tuple[ScoredStrip, ...] = ()
    evaluator: str = ""
    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a web search, normalised: plain text, no markup, bounded."""

    url: str
    title: str
    text: str
    published: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A kept piece of an evidence: characters [start, end) of its text."""

    id: str
    start: int
    end: int
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Excerpt:
    """What a generator may use of one evidence for one sub-question: its kept strips, in original order."""

    evidence: Evidence
    sub: int  # index of the sub-question
    strips: tuple[str, ...]
    relevance: float
    label: Label
    answer: str = ""  # span that answers, verbatim in one of the strips; "" when unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a conflict: a value, and the evidence that gives it."""

    value: str
    ids: tuple[str, ...]
    quote: str
    source: str
    dated: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Trusted evidence that gives different values for one sub-question; at least two sides."""

    sub: int
    kind: str  # number, date, version, negation or name
    sides: tuple[Side, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A numbered reference of an answer: `[n]` in its text."""

    number: int
    id: str
    quote: str
    supports: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an answer cost so far. Adds up."""

    llm_calls: int = 0
    searches: int = 0
    embeddings: int = 0  # texts embedded
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            llm_calls=self.llm_calls + other.llm_calls,
            searches=self.searches + other.searches,
            embeddings=self.embeddings + other.embeddings,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a generator wrote.

    Args:
        text: with `[n]` after every sentence that rests on evidence.
        citations: what the numbers mean.
        missing: sub-questions it could not answer from the evidence.
        usage: what it cost.
        generator: `extractive`, or the model's name.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    missing: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    generator: str = "extractive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Whether a draft may be given out."""

    is_supported: bool  # every claim is in what it cites
    is_answer: bool  # it answers the question
    complaint: str = ""  # what is wrong, for the next attempt and for people
    unanswered: tuple[str, ...] = ()  # sub-questions that had evidence, and that the draft says nothing about


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What a generator is asked to do.

    Args:
        plan: the question and its parts.
        excerpts: the only evidence it may use; never empty.
        missing: sub-questions without evidence; the answer says so.
        conflicts: to be shown with both sides, dated.
        today: the instant of asking.
        is_uncertain: the evidence is only ambiguous; the answer must say so.
        complaint: what was wrong with the first draft; "" at the first attempt.
    """

    plan: Plan
    excerpts: tuple[Excerpt, ...]
    missing: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    today: Instant
    is_uncertain: bool = False
    complaint: str = ""
