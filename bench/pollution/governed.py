"""The product's own policy: its gate, its evidence, its sweeps. Nothing here decides; it only calls what users call."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bench.pollution.policies import CLASSES, K, Shown, prefix_of, source_of
from bench.pollution.shelf import TENANT, keep, passage
from crag_runtime.evidence import Citation, Finding, Outcome, Verdict
from crag_runtime.recording.feedback import give_feedback
from crag_runtime.recording.findings import finding_id
from crag_runtime.recording.learned import Learned, SearchedFor
from crag_runtime.recording.recorder import Recorder
from crag_runtime.recording.spool import Spool
from crag_runtime.store import Lookup, Store
from governance.actor import Actor
from governance.checks import Checkable, checkables, results
from governance.comparing.sayings import passed
from governance.corroborate import plan_promote
from governance.plan import Plan
from governance.planning import planned
from governance.policy import policy_of
from governance.ports import Checked, Claim
from governance.ports import Outcome as Found
from governance.recheck import outside_checks, plan_recheck, stored_checks
from governance.review import decide
from governance.rollback import carried_out, surveyed
from governance.selection import Selection
from governance.sweep import apply
from governance.waiting import borne_out
from ingest.version import due_for_renewal
from kb.errors import InputError
from kb.history import AnswerId
from kb.memories import Memories
from kb.model import Kind, MemoryId, Scope, SourceClass, Standing
from kb.settings import ClassSettings
from kb.sweeps import SweepJob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.pollution.outside import Desk, Page
    from bench.pollution.policies import Given
    from bench.pollution.schedule import Arrival
    from governance.policy import Policy as Rules
    from kb.settings import Settings
    from kb.sweeps import Action

CHECK_EVERY = 7  # days between checks of one question
CHECK_BUDGET = 0.055  # share of questions that may be checked: what others get as well
PRUNE_EVERY = 7
LASTING_DAYS = 36_500.0  # a half-life that no run outlasts
RENEW_EVERY = 3  # days; what is due is found by then, and a nightly sync would find the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the product does, each part of which an ablation takes away.

    Args:
        feedback: counts.
        decay: confidence fades and is renewed by its source; else it never fades.
        keys: answers are keys to what they cited.
        checks: disputed and unanswered questions are checked outside, and at night what fell due or waits.
        lineage: a rollback takes what was made from what is bad.
        echoes_are_evidence: answers come back as trusted passages, as nothing in the product does.
        web_is_trusted: findings count as documents at once: no quarantine, no independence asked.
        own_extractor: disputes are found by the product's own comparison in the nightly recheck; else the reader's
            sight of both values is taken for it (ideal extraction).
        reviewed: somebody verifies at night what the day's checks found, as a reviewer with those checks would.
    """

    feedback: bool = True
    decay: bool = True
    keys: bool = True
    checks: bool = True
    lineage: bool = True
    echoes_are_evidence: bool = False
    web_is_trusted: bool = False
    own_extractor: bool = False
    reviewed: bool = False


@dataclass(slots=True)
class Governed:
    """The store with governance."""

    memories: Memories
    settings: Settings
    parts: Parts
    check: Callable[[str, int], Sequence[Page]]
    says: Callable[[str, str], str | None]  # question, text → the value it gives: how a check's words are matched
    checker: Callable[[int], Desk]  # by day: who is asked in the nightly recheck
    checks: int = 0
    _asked: int = 0
    _went_short: bool = False  # something that was seen today was not checked, for want of budget
    _found: list[MemoryId] = field(default_factory=list)
    _checked: dict[str, int] = field(default_factory=dict)
    _owned: list[MemoryId] = field(default_factory=list)
    _findings: dict[str, tuple[SearchedFor, ...]] = field(default_factory=dict)
    _store: Store | None = None
    _recorder: Recorder | None = None

    def __post_init__(self) -> None:
        if not self.parts.decay:
            self._never_fade()
        self._store = Store(self.memories)
        self._recorder = Recorder(self._store, Spool(self.settings.data_dir), "bench")

    def _never_fade(self) -> None:
        """Open the store anew, still empty, with half-lives that no run outlasts: its search must know them, too."""
        own = self.memories
        trust = {c: ClassSettings(half_life_days=LASTING_DAYS) for c in own.policies}
        self.settings = self.settings.model_copy(update={"trust": trust})
        self.memories = Memories(
            ledger=own.ledger,
            generations=own.generations,
            embedder=own.embedder,
            settings=self.settings,
            clock=own.clock,
        )

    def arrive(self, arrivals: Sequence[Arrival]) -> None:
        """Take in documents as documents, and what the web says as findings."""
        made = []
        for a in arrivals:
            kind, own = CLASSES[a.is_owned or self.parts.web_is_trusted]
            made.append(
                passage(self.memories, a.text, source=source_of(a), kind=kind, source_class=own, is_governed=True)
            )
        new = keep(self.memories, made)
        self._owned += [m.id for m in new if m.kind is Kind.DOCUMENT]

    def shown(self, question: str, day: int) -> Shown:
        """Retrieve as the runtime does: gate inside the search, freshness, answer-keys."""
        del day
        self._asked += 1
        assert self._store is not None
        gate = self.memories.gate
        lookup = Lookup(tenant=TENANT, k=K, gate=gate, explain=False)
        (found,) = self._store.retrieve([question], lookup).passages
        with self.memories.ledger.read() as tx:
            memories = tx.memories.get([MemoryId(id_) for id_, _ in found[:K]])
        return Shown(ids=tuple(memories), texts=tuple(m.text for m in memories.values()))

    def answered(self, given: Given) -> None:
        """Record the answer as the runtime does: citations, lineage, key; never as evidence."""
        assert self._recorder is not None
        findings = self._findings.pop(given.question, ())
        learned = Learned(
            answer_id=AnswerId(given.id),
            tenant=TENANT,
            scope=Scope(),
            thread="",
            question=given.question,
            text=given.echo,
            outcome=Outcome.ANSWERED,
            verdict=Verdict.CORRECT,
            citations=tuple(Citation(number=n, id=id_, quote="") for n, id_ in enumerate(given.support, 1)),
            evaluations=(),
            retrieved=given.support,
            relevant=given.support,
            findings=findings,
            agreements=(),
            conflicts=(),
            is_key=self.parts.keys and not findings,
            report={"question": given.question, "usage": {}},
            at=self.memories.clock.now(),
        )
        self._recorder.record(learned)
        if self.parts.echoes_are_evidence:
            echo = passage(
                self.memories,
                given.echo,
                source=f"note://agent/{given.id}",
                kind=Kind.NOTE,
                source_class=SourceClass.DOCUMENT,
                is_governed=True,
            )
            keep(self.memories, [echo])

    def unanswered(self, question: str, day: int, shown: Shown) -> Shown | None:
        """Ask outside, as the runtime searches the web when nothing trusted answers; what it finds is quarantined."""
        del shown
        pages = self._asked_outside(question, day)
        if not pages:
            return None
        found = [Finding(url=f"https://{p.host}/", title="", text=p.text) for p in pages]
        ids = [MemoryId(finding_id(f, tenant=TENANT, scope=Scope())) for f in found]
        self._found += ids
        self._findings[question] = tuple(
            SearchedFor(id=id_, finding=f, query=question) for id_, f in zip(ids, found, strict=True)
        )
        return Shown(ids=tuple(ids), texts=tuple(p.text for p in pages))

    def disputed(self, question: str, day: int, sides: tuple[Sequence[MemoryId], Sequence[MemoryId]]) -> None:
        """Check a dispute outside; what it comes to for each side is what a recheck makes of it."""
        if self.parts.own_extractor:
            return
        pages = self._asked_outside(question, day)
        if not pages:
            return
        value, now = self.says(question, pages[0].text), self.memories.clock.now()
        roots = tuple(sorted(p.host for p in pages))
        with self.memories.ledger.read() as tx:
            stored = tx.memories.get([id_ for side in sides for id_ in side])
            history = {id_: tx.evidence.of_memory(id_) for id_ in stored}
        actions: list[Action] = []
        for memory in stored.values():
            is_for = self.says(question, memory.text) == value
            checked = Checked(outcome=Found.SUPPORTED if is_for else Found.CONTRADICTED, roots=roots)
            asked = Checkable(claim=Claim(memory_id=memory.id, said=passed(memory)), sides=(memory,))
            result = results(asked, checked, history, now)
            actions += (*result.actions, *result.vouches)
        self._apply(self._rechecked(actions))

    def feedback(self, given: Given, *, is_good: bool) -> None:
        """Give feedback as `kb feedback` does."""
        if self.parts.feedback:
            try:
                give_feedback(self.memories, AnswerId(given.id), TENANT, is_good=is_good, by=given.id)
            except InputError:  # the answer rests on nothing that could be credited
                return

    def night(self, day: int) -> None:
        """Renew what its source still holds; then recheck, promote, decay, and weekly prune."""
        if day % RENEW_EVERY == 0:
            self._renew()
        if self.parts.reviewed:
            self._review()
        now = self.memories.clock.now()
        self._recheck(day)
        self._apply(plan_promote(self.memories, self._policy, now))
        self._apply(planned(self.memories, SweepJob.DECAY, self._policy, now))
        if day % PRUNE_EVERY == PRUNE_EVERY - 1:
            self._apply(planned(self.memories, SweepJob.PRUNE, self._policy, now))

    def roll_back(self, sources: Sequence[str], *, with_lineage: bool) -> None:
        """Roll back as `kb rollback --source` does."""
        for source in sources:
            wanted = Selection(source=f"{prefix_of(source)}*")
            radius = surveyed(self.memories, wanted, self._policy, self.memories.clock.now())
            if not (with_lineage and self.parts.lineage):
                roots = set(self._of(source))
                plan = radius.plan
                radius = replace(
                    radius, plan=replace(plan, actions=tuple(a for a in plan.actions if a.memory_id in roots))
                )
            carried_out(self.memories, wanted, radius, policy=self._policy, actor="bench")

    def _recheck(self, day: int) -> None:
        """Run the product's recheck as far as the budget for checks goes, but for disputes where the reader sees them.

        What two pages of one search say the same was a check already.
        """
        now, left = self.memories.clock.now(), self._left_at_night() if self.parts.checks else 0
        policy, desk = replace(self._policy, checks=left), self.checker(day) if left else None
        if self.parts.own_extractor:
            plan = plan_recheck(self.memories, policy, now, checker=desk)
            self.checks += 0 if desk is None else desk.asked
            self._apply(plan)
            return
        with self.memories.ledger.read() as tx:
            agreed = list(borne_out(tx, TENANT))
            history = {m.id: tx.evidence.of_memory(m.id) for m, _ in agreed}
            settled = frozenset(str(m.id) for m, _ in agreed)
            wanted = checkables(tx, policy, now, (), {}, settled=settled) if desk is not None else []
        actions = stored_checks(agreed, history, now)
        if desk is not None and wanted:
            actions += outside_checks(self.memories, wanted, desk, now)[0]
            self.checks += desk.asked
        self._apply(self._rechecked(actions))

    def _rechecked(self, actions: Sequence[Action]) -> Plan:
        now = self.memories.clock.now()
        return Plan(tenant=TENANT, job=SweepJob.RECHECK, policy=self._policy.hash, at=now, actions=tuple(actions))

    def _left_at_night(self) -> int:
        """Return how many checks may go to what fell due or waits: disputes come first, also those of tomorrow."""
        went_short, self._went_short = self._went_short, False
        return 0 if went_short and not self.parts.own_extractor else self._left()

    def _left(self) -> int:
        """Return how many checks the budget still has."""
        return max(0, math.ceil(1 + CHECK_BUDGET * self._asked - self.checks))

    @property
    def _policy(self) -> Rules:
        return replace(policy_of(self.settings, TENANT), trust=self.memories.policies)

    def _apply(self, plan: Plan) -> None:
        if plan.actions:
            apply(self.memories, plan, policy=self._policy, actor="bench", allow_mass=True)

    def _review(self) -> None:
        with self.memories.ledger.read() as tx:
            waiting = [m.id for m in tx.memories.get(self._found).values() if m.standing is Standing.QUARANTINED]
        self._found = []
        if waiting:
            reviewer = Actor(name="reviewer")
            decide(self.memories, waiting, SweepJob.VERIFY, policy=self._policy, actor=reviewer)

    def _renew(self) -> None:
        now = self.memories.clock.now()
        with self.memories.ledger.write() as tx:
            held = list(tx.memories.get(self._owned).values())
            due = due_for_renewal(held, self.memories.policies, self.memories.gate, now)
            tx.memories.replace(due)
            tx.outbox.mark([m.id for m in due], now)
        self.memories.projector.drain()

    def _asked_outside(self, question: str, day: int) -> Sequence[Page]:
        if not self.parts.checks or day - self._checked.get(question, -CHECK_EVERY) < CHECK_EVERY:
            return ()
        if not self._left():
            self._went_short = True
            return ()
        self._checked[question] = day
        self.checks += 1
        return self.check(question, day)

    def _of(self, source: str) -> list[MemoryId]:
        with self.memories.ledger.read() as tx:
            return [m.id for m in tx.memories.page("", 10_000, tenant=TENANT, source_prefix=prefix_of(source))]
