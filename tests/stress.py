"""Many writers on one ledger, each with connections of its own: all that governance and its neighbours do at once."""

from __future__ import annotations

import asyncio
import random
import threading
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crag_runtime.evidence import Finding
from crag_runtime.recording.feedback import give_feedback
from crag_runtime.result import AskRequest
from governance.actor import Actor
from governance.reach import Wanted
from governance.review import decide
from governance.rollback import carried_out, surveyed
from governance.selection import Selection
from governance.sweep import resume
from governance.undo import undo
from jobs.command import run_at_once
from jobs.context import JobContext
from jobs.erasure import forget
from jobs.names import JobName
from jobs.vectors import mend
from kb.errors import IndexUnavailable, InputError, Locked, Refused
from kb.memories import Note
from kb.model import Kind, MemoryId, SourceClass
from kb.rebuild import reindex
from kb.settings import Settings
from kb.sweeps import SweepJob
from kb.trust import DAY_MS
from tests.asking import by_words, open_runtime
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.search import FakeSearch
from tests.rolling import sync
from tests.stores import T0, InProcessServer, open_store, write
from tests.swept import policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kb.memories import Memories

BRIDGES = ("Anping", "Beihai", "Chaoyang", "Dongting", "Emei")
FILLER = " ".join(f"Sentence {n} of the guide adds a detail that nobody asks for." for n in range(14))
ROOTS = ("docs", "more")
HOUR = 3_600_000
SWEEPS = (JobName.DECAY, JobName.PROMOTE, JobName.RECHECK, JobName.PRUNE, JobName.GC)
CARE = (JobName.RECONCILE, JobName.VERIFY_INDEX)
DECISIONS = (
    SweepJob.VERIFY,
    SweepJob.REJECT,
    SweepJob.PIN,
    SweepJob.UNPIN,
    SweepJob.RESTORE,
    SweepJob.ANNOTATE,
)
BY = Actor(name="ann")
MAY_BE = (Locked, Refused, InputError)  # what somebody is told who comes too late, or is not alone


class SharedClock:
    """Moves when told, by any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._instant = T0

    def now(self) -> int:
        with self._mutex:
            self._instant += 1
            return self._instant

    def advance(self, milliseconds: int) -> None:
        with self._mutex:
            self._instant += milliseconds


class SharedServer(InProcessServer):
    """An index that many threads write to, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.mutex = threading.RLock()

    def open(self, name: str, dim: int) -> Any:
        del dim
        return _OneAtATime(self, name)


class _OneAtATime:
    def __init__(self, server: SharedServer, name: str) -> None:
        self._server = server
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with self._server.mutex:
                found = self._server.collections.get(self._name)
                if found is None:
                    raise IndexUnavailable("the collection was dropped")
                got = getattr(found, method)(*args)
                return iter(list(got)) if method == "revisions" else got

        return call


@dataclass
class World:
    """One ledger, one index, two folders, one calendar."""

    home: Path
    url: str | None
    clock: Any = field(default_factory=SharedClock)
    server: Any = field(default_factory=SharedServer)
    done: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    erased: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        given: dict[str, Any] = {} if self.url is None else {"ledger_url": self.url}
        return Settings(data_dir=self.home / "kb", **given)

    @contextmanager
    def opened(self) -> Iterator[Memories]:
        """Open the store on connections of its own."""
        given: dict[str, Any] = {} if self.url is None else {"ledger_url": self.url}
        with open_store(self.home / "kb", server=self.server, clock=self.clock, **given) as memories:
            yield memories

    def folder(self, root: str) -> Path:
        made = self.home / root
        made.mkdir(exist_ok=True)
        return made


class Worker(threading.Thread):
    """Does one thing after the other, as its seed says.

    Args:
        world: where.
        seed: what.
        steps: how many things.
        deeds: names of what it may do; None: all of them.
    """

    def __init__(self, world: World, seed: int, steps: int, deeds: tuple[str, ...] | None = None) -> None:
        super().__init__(name=f"worker-{seed}")
        self._world = world
        self._seed = seed
        self._numbers = random.Random(seed)
        self._steps = steps
        self._deeds = deeds or tuple(WEIGHTS)

    def run(self) -> None:
        with self._world.opened() as memories:
            weights = [WEIGHTS[name] for name in self._deeds]
            for _ in range(self._steps):
                (name,) = self._numbers.choices(self._deeds, weights)
                self._world.clock.advance(self._numbers.randrange(6 * HOUR))
                try:
                    getattr(self, name)(memories)
                except MAY_BE as error:
                    self._world.told[f"{name}: {type(error).__name__}"] += 1
                except Exception:  # noqa: BLE001 - whatever it is, it is what the test looks for
                    self._world.troubles.append(f"{self.name} {name}: {traceback.format_exc()[-3000:]}")
                self._world.done[name] += 1

    def sync(self, memories: Memories) -> None:
        root = self._numbers.choice(ROOTS)
        self._edit(self._world.folder(root))
        report = sync(memories, self._world.folder(root), allow_mass_delete=True)
        for failure in report.failures:
            if failure.code not in ("store_failed", "vanished"):  # others write to the ledger, and to the folder
                self._world.troubles.append(f"{self.name} sync: {failure}")
            self._world.told[f"sync: {failure.code} {failure.message[:60]}"] += 1

    def _edit(self, folder: Path) -> None:
        for _ in range(self._numbers.randrange(3)):
            name = f"{self._numbers.choice(BRIDGES[:3])}_md"
            match self._numbers.randrange(6):
                case 0:
                    (folder / name.replace("_md", ".md")).unlink(missing_ok=True)
                case 1:
                    self._put(folder, name, f"# Guide\n\n{self._says()}\n")
                case _:
                    said = [f"## Part {n}\n\n{self._says()} {FILLER.replace('guide', f'part {n}')}" for n in range(3)]
                    self._put(folder, name, "\n\n".join(["# Guide", *said]) + "\n")

    def _put(self, folder: Path, name: str, content: str) -> None:
        """Put a file in place whole: who syncs meanwhile reads the old one or the new one, never an empty one."""
        drafts = self._world.home / f"drafts-{self._seed}"
        write(drafts, **{name: content})
        file = name.replace("_md", ".md")
        folder.mkdir(parents=True, exist_ok=True)
        (drafts / file).replace(folder / file)

    def _says(self) -> str:
        bridge, tons = self._numbers.choice(BRIDGES), self._numbers.choice((20, 40, 90))
        return f"The {bridge} bridge carries {tons} tons on a dry day."

    def ask(self, memories: Memories) -> None:
        bridge = self._numbers.choice(BRIDGES)
        pages = [
            Finding(url=f"https://{host}.test/{bridge}", title=bridge, text=self._says().replace("Anping", bridge))
            for host in self._numbers.sample(("maps", "roads", "news"), 2)
        ]

        async def story() -> None:
            script = by_words({f"{bridge} bridge": 0.9 if self._numbers.random() < 0.7 else 0.4})
            parts: dict[str, Any] = {"evaluator": FakeEvaluator(script), "search": FakeSearch(pages, is_paid=False)}
            async with open_runtime(memories, self._world.home / f"spool-{self._seed}", **parts) as runtime:
                question = f"How many tons does the {bridge} bridge carry on a dry day?"
                await runtime.ask(AskRequest(question=question, tenant="default", approve="always"))

        asyncio.run(story())

    def feedback(self, memories: Memories) -> None:
        with memories.ledger.read() as tx:
            answers = [a for a in tx.answers.page("default", limit=1000) if a.citations]
        if answers:
            answer = self._numbers.choice(answers)
            only = self._numbers.choice(answer.citations).memory_id
            is_good, by = self._numbers.random() < 0.6, self._numbers.choice(("ada", "bob", "cai"))
            give_feedback(memories, answer.id, "default", is_good=is_good, only=only, by=by)

    def note(self, memories: Memories) -> None:
        parents = self._some(memories, 2) if self._numbers.random() < 0.6 else []
        by = self._numbers.choice((SourceClass.PERSON, SourceClass.AGENT))
        memories.add_note(Note(text=self._says(), tenant="default", by=by, derived_from=tuple(parents)))

    def roll_back(self, memories: Memories) -> None:
        match self._numbers.randrange(4):
            case 0:
                selection = Selection(source=self._numbers.choice((*ROOTS, "maps.test", "roads.test")))
            case 1:
                selection = Selection(since=self._world.clock.now() - self._numbers.randrange(2 * DAY_MS))
            case _:
                selection = Selection(memories=tuple(self._some(memories, 1)) or ("none",))
        radius = surveyed(memories, selection, policy(), memories.clock.now())
        carried_out(memories, selection, radius, policy=policy(), actor="ann")

    def undo(self, memories: Memories) -> None:
        with memories.ledger.read() as tx:
            sweeps = tx.sweeps.list(12, tenant="default")
        if sweeps:
            undo(memories, self._numbers.choice(sweeps).id, "default", actor="ann", policy=policy())

    def decide(self, memories: Memories) -> None:
        ids = [MemoryId(id_) for id_ in self._some(memories, 3)]
        if ids:
            job = self._numbers.choice(DECISIONS)
            decide(memories, ids, job, policy=policy(), actor=BY, reason="so it is")

    def job(self, memories: Memories) -> None:
        self._job(memories, self._numbers.choice(SWEEPS))

    def care(self, memories: Memories) -> None:
        self._job(memories, self._numbers.choice(CARE))

    def reindex(self, memories: Memories) -> None:
        reindex(memories, re_embed=False)

    def _job(self, memories: Memories, job: JobName) -> None:
        @contextmanager
        def opened() -> Iterator[Memories]:
            yield memories

        context = JobContext(
            settings=self._world.settings, open_memories=opened, clock=self._world.clock, tenant="default"
        )
        for trouble in run_at_once(job, context, memories.ledger).troubles:
            if isinstance(trouble.error, (*MAY_BE, IndexUnavailable)):  # the last: a reindex dropped what was searched
                self._world.told[f"{job.value}: {type(trouble.error).__name__}"] += 1
            else:
                self._world.troubles.append(f"{self.name} {job.value}: {trouble.where}: {trouble.error!r}")

    def erase(self, memories: Memories) -> None:
        ids = self._some(memories, 1)
        if not ids:
            return
        done = forget(
            memories,
            self._world.settings,
            Wanted(
                selection=Selection(memories=tuple(ids)),
                with_derived=self._numbers.random() < 0.3,
                with_copies=self._numbers.random() < 0.3,
            ),
            policy=policy(),
            actor=BY,
            consent=lambda _: None,
        )
        if not done.is_complete:
            self._world.told[f"erase: {done.problems} {done.left}"] += 1
        self._world.erased += ids

    def days(self, _: Memories) -> None:
        self._world.clock.advance(self._numbers.randrange(12) * DAY_MS)

    def _some(self, memories: Memories, number: int) -> list[str]:
        with memories.ledger.read() as tx:
            page = [m.id for m in tx.memories.page("", 10_000, tenant="default") if m.kind is not Kind.ANSWER]
        return self._numbers.sample(page, min(number, len(page)))


WEIGHTS = {
    "sync": 6,
    "ask": 6,
    "feedback": 6,
    "note": 5,
    "roll_back": 3,
    "undo": 4,
    "decide": 6,
    "job": 8,
    "care": 2,
    "reindex": 0.3,
    "erase": 0.7,
    "days": 1.5,
}


def worked(world: World, *, seed: int, workers: int, steps: int) -> None:
    """Let workers work side by side, until all have done their steps."""
    with world.opened() as memories:
        for root in ROOTS:
            for bridge in BRIDGES[:2]:
                write(world.folder(root), **{f"{bridge}_md": f"# Guide\n\nThe {bridge} bridge carries 40 tons.\n"})
            sync(memories, world.folder(root))
    threads = [Worker(world, seed * 1000 + n, steps) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def settled(world: World) -> None:
    """Let what was interrupted be gone on with, files be as their folders, and nothing wait for anything."""
    with world.opened() as memories:
        resume(memories, "default", policy())
        for root in ROOTS:
            sync(memories, world.folder(root), allow_mass_delete=True)
        mend(memories)
