"""What a run of a job did: counts, sweeps, actions, and what failed where."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.report import error_json, gravest
from jobs.turn import Outcome
from kb.errors import DependencyError, ExitCode, KbError, Locked, Refused
from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from governance.plan import Plan
    from jobs.names import JobName
    from kb.model import Json
    from kb.sweeps import Sweep

SHOWN_ERRORS = 20  # in the record of a slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What failed, and where: a tenant, a source, a part of a job."""

    where: str
    error: KbError

    @property
    def may_pass(self) -> bool:
        """Whether the same may work later, so that it is worth another attempt."""
        return isinstance(self.error, DependencyError | Locked) or self.error.exit_code is ExitCode.UNEXPECTED

    def as_json(self) -> dict[str, Json]:
        """Return it under the stable keys of docs/reference/json.md."""
        return {"where": self.where, **error_json(self.error)}


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a run has done so far; every part that failed is noted, and keeps no other part from running."""

    job: JobName
    is_dry: bool = False
    sweep_ids: list[str] = field(default_factory=list)
    actions: list[dict[str, Json]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    parts: int = 0  # that were attempted
    failed_items: int = 0  # single documents or memories
    is_stopped: bool = False
    seconds: float = 0.0

    def attempt(self, where: str, work: Callable[[], None]) -> None:
        """Do one part, a tenant's for example; what it raises is noted."""
        self.parts += 1
        try:
            work()
        except KbError as error:
            self.trouble(where, error)
        except Exception as error:  # noqa: BLE001 - a defect that one tenant meets must not stop the others' jobs
            at = [f"{f.filename}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
            get_logger().error("job_met_a_defect", job=self.job.value, where=where, kind=type(error).__name__, at=at)
            self.trouble(where, KbError(f"{type(error).__name__}: {error}", hint="this is a defect; see the log"))

    def trouble(self, where: str, error: KbError) -> None:
        """Note that a part failed."""
        self.troubles.append(Trouble(where=where, error=error))

    def planned(self, plan: Plan) -> None:
        """Note what a sweep would do."""
        self._act(plan)
        self.counts.update(plan.counts)

    def swept(self, plan: Plan | None, sweep: Sweep) -> None:
        """Note what a sweep did; without its plan when it only went on with what an earlier run had begun."""
        self.sweep_ids.append(sweep.id)
        self.counts.update(sweep.counts)
        if plan is not None:
            self._act(plan)

    def _act(self, plan: Plan) -> None:
        self.actions += [
            {"memory_id": a.memory_id, "action": a.kind.value, "reason": a.reason, "tenant": plan.tenant}
            for a in plan.actions
        ]
        self.notes += [f"{plan.tenant}: {note}" for note in plan.notes]

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        if self.is_stopped:
            return Outcome.STOPPED
        if not self.troubles:
            return Outcome.PARTIAL if self.failed_items else Outcome.DONE
        if any(t.may_pass for t in self.troubles):
            return Outcome.FAILED
        is_refusal = all(isinstance(t.error, Refused) for t in self.troubles)
        return Outcome.REFUSED if is_refusal else Outcome.PARTIAL

    @property
    def exit_code(self) -> ExitCode:
        """PARTIAL when some parts failed, that of the gravest when all did; INTERRUPTED when it was told to end."""
        if self.is_stopped:
            return ExitCode.INTERRUPTED
        if self.troubles and len({t.where for t in self.troubles}) >= self.parts:
            return gravest(t.error.exit_code for t in self.troubles)
        return ExitCode.PARTIAL if self.troubles or self.failed_items else ExitCode.DONE

    def as_json(self) -> dict[str, Json]:
        """Return the report under the stable keys of docs/reference/json.md."""
        return {
            **self.summary(),
            "dry_run": self.is_dry,
            "actions": [*self.actions],
            "errors": [t.as_json() for t in self.troubles],
        }

    def summary(self) -> dict[str, Json]:
        """Return what the ledger keeps of a run: without its actions, which stand in the sweeps' journals."""
        return {
            "job": self.job.value,
            "outcome": self.outcome.value,
            "exit_code": int(self.exit_code),
            "sweep_ids": [*self.sweep_ids],
            "counts": counts_json(self.counts),
            "errors": [t.as_json() for t in self.troubles[:SHOWN_ERRORS]],
            "notes": [*self.notes],
            "seconds": round(self.seconds, 3),
        }


def counts_json(counts: Mapping[str, int]) -> dict[str, Json]:
    """Return counts in the order of their names, without those of nothing."""
    return {name: n for name, n in sorted(counts.items()) if n}
