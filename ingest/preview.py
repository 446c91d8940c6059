"""`--plan`: what a run would do and what it would cost, with nothing embedded and nothing written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.kept_out import Skipped
from ingest.plan import Action
from ingest.report import DOCUMENT_KEYS, FailureLine, SkippedLine
from kb.errors import DocumentError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.pipeline import Sync
    from kb.model import Json

_SETTLED = {Action.KEEP: "unchanged", Action.TOUCH: "unchanged", Action.RENAME: "renamed", Action.REMOVE: "removed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDocument:
    """One document and what a run would do to it."""

    source: str
    outcome: str
    memories_added: int
    memories_superseded: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A run that has not happened. `texts` and `tokens` bound what it would embed: the cache may hold some of it."""

    source_name: str
    documents: Mapping[str, int]
    actions: tuple[PlannedDocument, ...]
    failures: tuple[FailureLine, ...]
    skipped: tuple[SkippedLine, ...]
    texts: int
    tokens: int

    @property
    def exit_code(self) -> ExitCode:
        """PARTIAL when a document would fail, else DONE."""
        return ExitCode.PARTIAL if self.failures else ExitCode.DONE

    def as_json(self) -> dict[str, Json]:
        """Return the plan under the stable keys of docs/reference/json.md."""
        return {
            "source_name": self.source_name,
            "plan": True,
            "documents": {key: self.documents.get(key, 0) for key in DOCUMENT_KEYS},
            "actions": [
                {
                    "source": a.source,
                    "action": a.outcome,
                    "memories_added": a.memories_added,
                    "memories_superseded": a.memories_superseded,
                    "tokens": a.tokens,
                }
                for a in self.actions
            ],
            "to_embed": {"texts": self.texts, "tokens": self.tokens},
            "failures": [
                {"source": f.source, "code": f.code, "message": f.message, "hint": f.hint} for f in self.failures
            ],
            "skipped": [{"source": s.source, "reason": s.reason} for s in self.skipped],
        }

    def lines(self) -> list[str]:
        """Return the plan for people."""
        lines = [f"plan for source {self.source_name} (nothing is written)"]
        lines += [f"  {a.outcome.replace('_', ' '):17} {a.source}" for a in self.actions if a.outcome != "unchanged"]
        lines += [f"  failed            {f.source}: {f.code}: {f.message}" for f in self.failures]
        lines += [f"  skipped           {s.source}: {s.reason}" for s in self.skipped]
        counts = ", ".join(f"{n} {key.replace('_', ' ')}" for key, n in self.documents.items() if n)
        return [*lines, f"  {counts or 'no documents'}; at most {self.texts} texts ({self.tokens} tokens) to embed"]


def previewed(sync: Sync) -> Preview:
    """Return what the run would do: documents are read, parsed and chunked, nothing more.

    Raises:
        MassDelete: the run would be refused.
    """
    plan = sync.plan()
    actions: list[PlannedDocument] = []
    failures: list[FailureLine] = []
    skipped = [SkippedLine(source=s.relative, reason=s.reason) for s in plan.scan.skipped]
    texts: dict[str, str] = {}
    for item in plan.items:
        if item.failure is not None and item.action is Action.FAILED_BEFORE:
            f = item.failure
            failures.append(FailureLine(source=f.source, code=f.code, message=f.message, hint=f.hint))
        elif item.action in _SETTLED and not item.is_to_prepare:
            actions.append(_document(item.source, _SETTLED[item.action]))
    for item, outcome in sync.preview(plan):
        if isinstance(outcome, DocumentError):
            line = FailureLine(source=item.source, code=outcome.code, message=str(outcome), hint=outcome.hint)
            failures.append(line)
            continue
        if isinstance(outcome, Skipped):
            skipped.append(SkippedLine(source=item.source, reason=outcome.reason))
            continue
        change = outcome.change
        texts |= change.texts
        added, lost = len(change.added) + len(change.revived), len(change.superseded)
        actions.append(_document(item.source, item.counted(outcome.outcome), added, lost, outcome.tokens))
    counts = Counter(a.outcome for a in actions)
    return Preview(
        source_name=sync.source_name,
        documents={**counts, "failed": len(failures), "skipped": len(skipped)},
        actions=tuple(actions),
        failures=tuple(failures),
        skipped=tuple(skipped),
        texts=len(texts),
        tokens=sum(a.tokens for a in actions),
    )


def _document(source: str, outcome: str, added: int = 0, superseded: int = 0, tokens: int = 0) -> PlannedDocument:
    return PlannedDocument(
        source=source, outcome=outcome, memories_added=added, memories_superseded=superseded, tokens=tokens
    )
