"""Answers of which it is known whether they were right: from a log, or from the feedback that the ledger keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.calibrating.lines import read_lines
from crag_runtime.calibrating.sources import Judged
from crag_runtime.evidence import Outcome, QuestionType
from kb.history import EvidenceKind
from kb.ids import digest, raw_digest
from kb.independence import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from crag_runtime.calibrating.lines import Line
    from kb.history import AnswerId, AnswerRecord
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories

FORM = (
    'one JSON object a line: {"question": "...", "sources": 2, "right": true}; '
    "type may stand for the question, and a list of names for the number of sources"
)
_JUDGED = (Outcome.ANSWERED.value, Outcome.PARTIAL.value)  # others say nothing themselves that could be right


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """Answers and where they are from.

    Args:
        answers: in the log's order.
        name: for people.
        hash: of the log, hex; the same answers have the same one.
        left_out: answers that cannot be used, by why.
    """

    answers: tuple[Judged, ...]
    name: str
    hash: str
    left_out: dict[str, int]


def read_log(path: Path, type_of: Callable[[str], QuestionType]) -> JudgedLog:
    """Return the answers of a JSON-lines log.

    Args:
        path: of the log.
        type_of: tells the type of a question where the line does not.

    Raises:
        InputError: the file cannot be read, or a line is no answer; the message says which and why.
    """
    answers = tuple(_judged(line, type_of) for line in read_lines(path, FORM))
    return JudgedLog(answers=answers, name=path.name, hash=raw_digest(path.read_bytes()), left_out={})


def read_history(memories: Memories, tenant: str, type_of: Callable[[str], QuestionType]) -> JudgedLog:
    """Return a tenant's answers that got feedback: right where more of it is good than bad.

    Sources are counted as for a verdict: the distinct root sources of what an answer cites as support. A person's
    word on a question counts once, however often it was answered.

    Args:
        memories: the store.
        tenant: whose.
        type_of: tells the type of a question where the answer's plan does not.

    Raises:
        LedgerUnavailable: the history cannot be read.
    """
    found: list[Judged] = []
    left_out: dict[str, int] = {}
    parts = []
    with memories.ledger.read() as tx:
        for answer_id, weight in sorted(_feedback(tx, tenant).items()):
            record = tx.answers.get(answer_id, tenant)
            why, sources = _usable(tx, record, weight)
            if record is None or why:
                left_out[why] = left_out.get(why, 0) + 1
                continue
            found.append(Judged(type=_type(record, type_of), sources=sources, right=weight > 0))
            parts.append(f"{answer_id} {found[-1]}")
    return JudgedLog(
        answers=tuple(found), name=f"the feedback of tenant {tenant}", hash=digest("judged", *parts), left_out=left_out
    )


def _feedback(tx: LedgerTx, tenant: str) -> dict[AnswerId, float]:
    """Return what feedback says of each answer: positive for right."""
    said: dict[AnswerId, float] = {}
    for event in tx.evidence.since(tenant, 0):
        if event.kind is EvidenceKind.FEEDBACK and event.answer_id is not None:
            said[event.answer_id] = said.get(event.answer_id, 0.0) + event.weight
    return said


def _usable(tx: LedgerTx, record: AnswerRecord | None, weight: float) -> tuple[str, int]:
    """Return why an answer cannot be used, "" where it can, and how many independent sources it has."""
    if record is None:
        return "the answer is gone", 0
    if record.outcome not in _JUDGED:
        return "it states nothing itself", 0
    if weight == 0.0:
        return "feedback is as much for it as against it", 0
    cited = {c.memory_id for c in record.citations if c.supports}
    known = tx.memories.get(sorted(cited))
    if not cited or len(known) < len(cited):
        return "what it cites is gone", 0
    return "", len({root for memory in known.values() if (root := root_of(memory))})


def _type(record: AnswerRecord, type_of: Callable[[str], QuestionType]) -> QuestionType:
    plan = record.report.get("plan")
    kind = str(plan.get("type")) if isinstance(plan, dict) else ""
    return QuestionType(kind) if kind in set(QuestionType) else type_of(record.question)


def _judged(line: Line, type_of: Callable[[str], QuestionType]) -> Judged:
    line.need("sources", "right")
    kind = line.kind()
    if kind is None:
        line.need("question")
        kind = type_of(line.text("question"))
    return Judged(type=kind, sources=_sources(line), right=line.truth("right"))


def _sources(line: Line) -> int:
    value = line.row["sources"]
    if isinstance(value, list) and _are_names(value):
        return len(set(value))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise line.fault("sources must be a number of 0 or more, or a list of names")
    return value


def _are_names(values: Sequence[object]) -> bool:
    return all(isinstance(v, str) and v for v in values)
