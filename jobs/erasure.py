"""Erasure over all lanes: ledger and index by a sweep, then the runtime's caches, threads and write-backs, then files.

Crash-safe: what is to go is in the sweep's journal before anything is done; that the rest is still to be done stands in
the ledger from the transaction that took the first row. So whoever comes next (the same command, or gc) goes on where
a process died, and everything may be done twice. Only when nothing is left to purge does the journal let go of the ids.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from governance.actor import vouching
from governance.effects.erased import ANSWER, GRADED
from governance.erase import erased_before, read_back, still_wanted, surveyed
from governance.late_copies import unbar_resumed
from governance.policy import policy_of
from governance.reach import exceeds
from governance.rounds import ROUNDS, erased
from governance.running import Run
from governance.sweep import GONE, resume
from kb.erased import strings
from kb.errors import DependencyError, InputError, KbError, Refused
from kb.index.projector import LOCK as PROJECTOR
from kb.ledger.erasure import FILES
from kb.ledger.scrubbing import scrub
from kb.log import get_logger
from kb.model import MemoryId
from kb.sweeps import ActionKind, SweepStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crag_runtime.ports import GradeCache
    from governance.actor import Actor
    from governance.policy import Policy
    from governance.reach import Reach, Wanted
    from jobs.context import JobContext
    from jobs.report import Tally
    from kb.ledger.erasure import Pending
    from kb.memories import Memories
    from kb.model import Json
    from kb.settings import Settings
    from kb.sweeps import Sweep, SweepId

LOCK = "erasure"
LOCK_WAIT_S = 60.0  # for a sync of the same source, and for another erasure
PAGE = 1_000


@dataclass(slots=True, kw_only=True)
class Erased:
    """What came of an erasure.

    Args:
        sweeps: that were carried out, or finished.
        reach: what was to go; None when an earlier command had erased it.
        left: rows about it that the ledger still has, by table; all zero when it is done.
        index_rows: rows of it that the index still has.
        purged: what went from beside the ledger, by kind.
        problems: what could not be reached or cleaned; then it is to be repeated.
        resumed: sweeps of earlier commands that were finished, too.
        stayed: memories that say what those took, and were written while they were at work: nobody was told of them.
    """

    sweeps: list[Sweep] = field(default_factory=list)
    reach: Reach | None = None
    left: dict[str, int] = field(default_factory=dict)
    index_rows: int = 0
    purged: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    resumed: list[SweepId] = field(default_factory=list)
    stayed: list[MemoryId] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether nothing of it is left, as far as can be read back."""
        return not self.problems and not any(self.left.values()) and not self.index_rows

    def as_json(self) -> dict[str, Json]:
        """Return the report under the stable keys of docs/reference/json.md."""
        return {
            "sweep_id": self.sweeps[0].id if self.sweeps else None,
            "sweeps": [s.id for s in self.sweeps],
            "resumed": [*self.resumed],
            "resumed_copies_not_erased": [*self.stayed],
            "purged": dict(self.purged),
            "left": dict(self.left),
            "index_rows": self.index_rows,
            "complete": self.is_complete,
            "problems": list(self.problems),
            **({} if self.reach is None else self.reach.as_json()),
        }

    def add(self, counts: dict[str, int]) -> None:
        """Count what went."""
        for name, number in counts.items():
            self.purged[name] = self.purged.get(name, 0) + number


def forget(
    memories: Memories,
    settings: Settings,
    wanted: Wanted,
    *,
    policy: Policy,
    actor: Actor,
    reason: str = "",
    consent: Callable[[Reach], None],
    caches: Sequence[GradeCache] = (),
) -> Erased:
    """Erase for good, everywhere, and read back that it is gone. Interrupted erasures are finished first.

    Args:
        memories: the store.
        settings: where everything else is kept.
        wanted: what is to go.
        policy: of the tenant.
        actor: a person.
        reason: in the person's own words; stays in the journal, unless it quotes what goes.
        consent: asked with what would go, and again when more would by the time of the answer; raises to decline.
        caches: grade caches that are open in this process.

    Raises:
        Refused: the actor is no person, or did not consent.
        InputError: the tenant has nothing of that name, and never erased anything of it.
        Locked: a source of it is being synced, or another sweep or erasure is running.
    """
    vouching(actor, "erase")
    done = Erased()
    with memories.ledger.lock(LOCK, wait_seconds=LOCK_WAIT_S):
        resume(memories, policy.tenant, policy)
        done.resumed = _finished_all(memories, settings, done, caches)
        wanted = still_wanted(memories, wanted, policy.tenant)
        try:
            shown = surveyed(memories, wanted, policy, memories.clock.now())
        except InputError:
            if not erased_before(memories, wanted.selection, policy.tenant):
                raise
            return done
        with _consented(memories, wanted, policy, shown, consent) as reach:
            done.problems.clear()  # what could not be finished before is tried again below
            rounds = erased(memories, wanted, reach, policy=policy, actor=actor.name, reason=reason)
        done.reach, done.sweeps, done.problems = rounds.reach, rounds.sweeps, rounds.problems
        _finished_all(memories, settings, done, caches)
        done.left = read_back(memories, done.reach)
    return done


def finish(context: JobContext, memories: Memories, tally: Tally) -> None:
    """Finish erasures whose process died, or met something that was away; for gc."""
    with memories.ledger.read() as tx:
        if not tx.erasure.pending():
            return
    done = Erased()
    with memories.ledger.lock(LOCK, wait_seconds=LOCK_WAIT_S):
        resumed = _finished_all(memories, context.settings, done, ())
    tally.counts["erasures_finished"] += len(resumed)
    if done.stayed:
        get_logger().warning("erasure_copies_stay", memory_ids=done.stayed[:10], count=len(done.stayed))
    if done.problems:
        raise DependencyError("an erasure is not finished: " + "; ".join(done.problems), hint="gc tries again")


@contextmanager
def _consented(
    memories: Memories, wanted: Wanted, policy: Policy, shown: Reach, consent: Callable[[Reach], None]
) -> Iterator[Reach]:
    """Hold off syncs, and yield what goes: no memory and no document that was not in what somebody has consented to.

    Raises:
        Refused: nobody has consented, or it grew each time that they had.
    """
    for _ in range(ROUNDS):
        consent(shown)
        with _unsynced(memories, policy.tenant, shown.roots):
            reach = surveyed(memories, wanted, policy, memories.clock.now())
            if not exceeds(reach, shown):
                yield reach
                return
        shown = reach
    raise Refused("nothing was erased: what would go grew again and again", hint="stop what writes it meanwhile")


@contextmanager
def _unsynced(memories: Memories, tenant: str, roots: Sequence[str]) -> Iterator[None]:
    """Hold off syncs of sources: one that has read a file already would write what is erased meanwhile."""
    with ExitStack() as stack:
        for root in sorted(roots):
            lock = memories.ledger.lock(f"ingest-{tenant}-{root}", wait_seconds=LOCK_WAIT_S)
            stack.enter_context(lock)
        yield


def _finished_all(memories: Memories, settings: Settings, done: Erased, caches: Sequence[GradeCache]) -> list[SweepId]:
    """Finish what is pending; return the sweeps that are finished now."""
    done.index_rows = 0
    with memories.ledger.read() as tx:
        pending = tx.erasure.pending()
    ready: list[Pending] = []
    for one in pending:
        try:
            problems = [] if one.stage == FILES else _without_rows(memories, settings, one, done, caches)
        except KbError as error:
            problems = [str(error)]
        if problems:
            get_logger().warning("erasure_not_finished", sweep_id=one.sweep_id, problems=problems)
        else:
            ready.append(one)
        done.problems += problems
    if not ready:
        return []
    if problems := _cleaned(memories, settings):
        done.problems += problems
        return []
    with memories.ledger.write() as tx:
        for one in ready:
            tx.erasure.end(one)
    return [one.sweep_id for one in ready]


def _without_rows(
    memories: Memories, settings: Settings, one: Pending, done: Erased, caches: Sequence[GradeCache]
) -> list[str]:
    """Purge all that is kept beside the ledger, then let the journal go of ids; return what was out of reach."""
    with memories.ledger.read() as tx:
        sweep = tx.sweeps.get(one.sweep_id)
    if sweep is not None and sweep.status is SweepStatus.RUNNING:
        ended = resume(memories, one.tenant, policy_of(settings, one.tenant))
        if any(s.id == one.sweep_id and s.status is SweepStatus.RUNNING for s in ended):
            return [f"the sweep {one.sweep_id} was stopped"]  # what it has not taken yet must be purged, too
    if all(own.id != one.sweep_id for own in done.sweeps):  # what this command erased, it has looked after
        done.stayed += unbar_resumed(memories, one.tenant, one.sweep_id)
    taken = _taken(memories, one.sweep_id)
    problems = _purged(memories, settings, one, taken, done, caches)
    if not problems:  # no sweep is at work on the journal meanwhile
        with Run(memories=memories, policy=policy_of(settings, one.tenant)).alone(), memories.ledger.write() as tx:
            tx.erasure.redact(one.sweep_id, taken.memories)
            tx.erasure.advance(one)
    return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What a sweep took: memories with the keys of answers, answers, and memories that were graded for these."""

    memories: list[MemoryId] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    graded: list[str] = field(default_factory=list)


def _taken(memories: Memories, sweep_id: SweepId) -> _Taken:
    taken, after = _Taken(), -1
    with memories.ledger.read() as tx:
        while page := tx.sweeps.journal(sweep_id, after=after, limit=PAGE):
            after = page[-1].seq
            for journaled in page:
                action = journaled.action
                if action.kind is not ActionKind.ERASE:  # what another memory had heard is withdrawn: that one stays
                    continue
                if journaled.applied_at is not None and journaled.skipped in ("", GONE) and action.memory_id:
                    taken.memories.append(MemoryId(action.memory_id))
                elif ANSWER in action.detail:
                    taken.answers.append(str(action.detail[ANSWER]))
                taken.graded.extend(strings(action.detail.get(GRADED)))
    return taken


def _purged(
    memories: Memories,
    settings: Settings,
    one: Pending,
    taken: _Taken,
    done: Erased,
    caches: Sequence[GradeCache],
) -> list[str]:
    """Take ids out of the index and of all that the runtime keeps; return what could not be reached."""
    from crag_runtime.forgetting import forget as forgotten  # noqa: PLC0415 - import what is used

    drained = memories.projector.drain()
    problems = [f"index: {drained.problem}"] if drained.problem else []
    if not problems and (left := _index_rows(memories, taken.memories)):
        done.index_rows += left
        problems = [f"the index has {left} rows of it still"]
    with memories.ledger.read() as tx:
        tenants = tx.tenants.list() if settings.ask.backup_tenant == one.tenant else [one.tenant]
    ids = [*taken.memories, *taken.answers]
    gone = forgotten(settings, memories.clock, ids, graded=taken.graded, tenants=tenants, caches=caches)
    done.add({"grades": gone.grades, "threads": gone.threads, "write_backs": gone.write_backs})
    return problems + gone.problems


def _index_rows(memories: Memories, wanted: Sequence[MemoryId]) -> int:
    """Delete rows from every collection of this ledger, also those that a reindex left; return how many are there.

    What has the same id and is there again, as the key of a question that was answered anew, keeps its row: while the
    projector's lock is ours, nobody writes one between the look and the deletion.

    Raises:
        Locked: somebody else is writing the index for a minute.
    """
    server, opened = memories.generations.server, []
    with memories.ledger.lock(PROJECTOR, wait_seconds=LOCK_WAIT_S):
        with memories.ledger.read() as tx:
            known, again = tx.collections.list(), tx.memories.get(wanted).keys()
        gone = {id_ for id_ in wanted if id_ not in again}
        for collection in known:
            if server.has(collection.name):
                opened.append(server.open(collection.name, collection.dim))
                opened[-1].delete(sorted(gone))
    left = [id_ for index in opened for id_, _ in index.revisions() if id_ in gone]
    with memories.ledger.read() as tx:
        again = tx.memories.get(left).keys()
    return sum(id_ not in again for id_ in left)


def _cleaned(memories: Memories, settings: Settings) -> list[str]:
    """Leave no byte of deleted rows in any file that is ours; return what could not be cleaned."""
    from crag_runtime.forgetting import clean  # noqa: PLC0415 - import what is used

    with memories.ledger.read() as tx:
        names = [c.name for c in tx.collections.list()]
    problems = clean(settings)
    for what in (partial(scrub, memories.ledger), partial(memories.generations.server.scrub, names)):
        try:
            what()
        except DependencyError as error:
            problems.append(str(error))
    return problems
