"""What a run did, counted once each thing is in the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.clock import iso
from kb.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kb.errors import KbError
    from kb.model import Instant, Json

DOCUMENT_KEYS = ("added", "changed", "renamed", "metadata_changed", "unchanged", "removed", "failed", "skipped")
LIGHTEST_FIRST = (
    ExitCode.DONE,
    ExitCode.PARTIAL,
    ExitCode.LOCKED,
    ExitCode.REFUSED,
    ExitCode.USAGE,
    ExitCode.DEPENDENCY,
    ExitCode.UNEXPECTED,
)
MEMORY_KEYS = ("added", "superseded", "renewed", "unchanged")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLine:
    """A document that was not ingested, and what to do about it."""

    source: str
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedLine:
    """A file that was not meant to be ingested, and why."""

    source: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Report:
    """Counts and lists of one run. The document counts add up to the files scanned plus the documents removed."""

    source_name: str
    run_id: str = ""
    documents: Counter[str] = field(default_factory=Counter)
    memories: Counter[str] = field(default_factory=Counter)
    embedded: int = 0
    failures: list[FailureLine] = field(default_factory=list)
    skipped: list[SkippedLine] = field(default_factory=list)
    warnings: list[SkippedLine] = field(default_factory=list)
    leaves_gate_at: Instant | None = None
    pending: int = 0
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    error: KbError | None = None  # of several runs, what kept this one from being done

    @property
    def exit_code(self) -> ExitCode:
        """The error's; PARTIAL when a document failed, else DONE."""
        if self.error is not None:
            return self.error.exit_code
        return ExitCode.PARTIAL if self.failures else ExitCode.DONE

    def fail(self, line: FailureLine) -> None:
        """Note a document that was not ingested."""
        self.failures.append(line)
        self.documents["failed"] += 1

    def skip(self, line: SkippedLine) -> None:
        """Note a file that was passed over."""
        self.skipped.append(line)
        self.documents["skipped"] += 1

    def as_json(self) -> dict[str, Json]:
        """Return the report under the stable keys of docs/reference/json.md."""
        return {
            "source_name": self.source_name,
            "run_id": self.run_id,
            "documents": {key: self.documents[key] for key in DOCUMENT_KEYS},
            "memories": {key: self.memories[key] for key in MEMORY_KEYS},
            "embedded": self.embedded,
            "failures": [
                {"source": f.source, "code": f.code, "message": f.message, "hint": f.hint} for f in self.failures
            ],
            "skipped": [{"source": s.source, "reason": s.reason} for s in self.skipped],
            "warnings": [{"source": w.source, "message": w.reason} for w in self.warnings],
            "leaves_gate_at": iso(self.leaves_gate_at),
            "outbox_pending": self.pending,
            "notices": list(self.notices),
            "seconds": round(self.seconds, 3),
            **({} if self.error is None else {"error": error_json(self.error)}),
        }


def error_json(error: KbError) -> dict[str, Json]:
    """Return an error under the stable keys of docs/reference/json.md."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "hint": error.hint,
        "exit_code": int(error.exit_code),
    }


def gravest(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the exit code of several runs: that of the run which went worst; DONE without any."""
    return max(codes, key=LIGHTEST_FIRST.index, default=ExitCode.DONE)


def combined(reports: Sequence[Report]) -> dict[str, Json]:
    """Return several runs as one object: counts added up, lists joined, the runs themselves under `runs`."""
    if len(reports) == 1:
        return reports[0].as_json()
    total = Report(source_name=", ".join(r.source_name for r in reports))
    for r in reports:
        total.documents.update(r.documents)
        total.memories.update(r.memories)
        total.embedded += r.embedded
        total.failures += r.failures
        total.skipped += r.skipped
        total.warnings += r.warnings
        total.notices += r.notices
        total.seconds += r.seconds
        total.pending = r.pending
    total.leaves_gate_at = min((r.leaves_gate_at for r in reports if r.leaves_gate_at is not None), default=None)
    return {**total.as_json(), "runs": [r.as_json() for r in reports]}
