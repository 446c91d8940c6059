"""The review console for tests: a real server in a thread, and tenants that hold something of everything it shows."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import httpx

from kb.history import AnswerId, AnswerRecord, CitedMemory, Edge, EdgeKind, EvidenceEvent, EvidenceKind
from kb.keys import Holder, KeyScope
from kb.model import SourceClass, Standing
from kb.trust import DAY_MS, trusted
from tests.disputing import FIFTY, FORTY, FUENFZIG, POLICIES, VIERZIG, keep, policy, recheck, said
from tests.served import open_server
from tests.stores import T0, FakeClock, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory
    from tests.served import Served

PEOPLE = (KeyScope.QUERY, KeyScope.GOVERN)
TOKEN = re.compile(r'name="csrf" value="([^"]*)"')
OLD = "The ferry leaves the east pier at nine on working days."
NOTE = "The east pier is closed for repairs until spring."
DERIVED = "Ships of more than 40 tons must take the new bridge."


@dataclass
class Console:
    """A running console.

    Args:
        url: of it, without a slash at its end.
        memories: of its server.
        clock: of them.
        served: the server.
    """

    url: str
    memories: Memories
    clock: FakeClock
    served: Served
    visits: list[Visit] = field(default_factory=list)

    def key(self, tenant: str, *scopes: KeyScope, holder: Holder = Holder.PERSON, name: str = "ada") -> str:
        """Make a key that may look and decide, unless scopes are given, and return its text."""
        return self.served.key(*(scopes or PEOPLE), tenant=tenant, holder=holder, name=name)

    def visitor(self, tenant: str, *scopes: KeyScope, **options: Any) -> Visit:
        """Return a visitor who has logged in."""
        visit = self.stranger()
        assert visit.login(self.key(tenant, *scopes, **options)).status_code == 303
        return visit

    def stranger(self) -> Visit:
        """Return a visitor who has not logged in."""
        self.visits.append(Visit(self.url))
        return self.visits[-1]


class Visit(httpx.Client):
    """A browser without scripts, as far as the console needs one."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, timeout=60)

    def login(self, key: str, **options: Any) -> httpx.Response:
        """Send the form of the login page."""
        return self.post("/login", data={"key": key}, **options)

    def token(self, page: str = "/") -> str:
        """Return what the forms of a page carry."""
        return TOKEN.findall(self.get(page).text)[0]

    def decide(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form with this session's token."""
        return self.post(path, data={"csrf": self.token(), **fields})


@contextmanager
def open_console(data_dir: Path, *, clock: FakeClock | None = None, **options: Any) -> Iterator[Console]:
    """Serve the console of a new store, by a thread of its own. `options` are those of `open_server`."""
    clock = clock or FakeClock()
    with open_store(data_dir / "data", clock=clock) as memories:
        serve = {"console": True, **options.pop("serve", {})}
        loop, stands, ends = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        made: list[Served] = []

        async def run() -> None:
            async with open_server(memories, data_dir, serve=serve, **options) as served:
                made.append(served)
                stands.set()
                await ends.wait()

        def work() -> None:
            try:
                loop.run_until_complete(run())
            finally:
                stands.set()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert stands.wait(120)
            assert made, "the server did not come up"
            console = Console(f"{made[0].url}/console", memories, clock, made[0])
            yield console
            for visit in console.visits:
                visit.close()
        finally:
            loop.call_soon_threadsafe(ends.set)
            thread.join()
            loop.close()


def of_tenant(tenant: str, name: str, text: str, **options: Any) -> Memory:
    """Return a memory of a tenant, whose id is no other tenant's."""
    memory = said(f"{tenant}-{name}", text, **options)
    return replace(memory, tenant=tenant)


def contested(memories: Memories, tenant: str, *, in_chinese: bool = False) -> tuple[Memory, Memory]:
    """Store two memories that contradict each other, and find that out."""
    one, other = (VIERZIG, FUENFZIG) if in_chinese else (FORTY, FIFTY)
    tag = "zh-" if in_chinese else ""
    pair = of_tenant(tenant, f"{tag}one", one), of_tenant(tenant, f"{tag}other", other)
    keep(memories, *pair)
    recheck(memories, by=policy(tenant=tenant))
    return pair


def due(memories: Memories, tenant: str) -> Memory:
    """Store a memory whose verification has run out."""
    memory = of_tenant(tenant, "due", OLD, verified=True)
    half_life = POLICIES[memory.source_class].half_life
    memory = replace(memory, trust=trusted(0.95, T0 - 3 * DAY_MS, half_life, verified_at=T0 - 183 * DAY_MS))
    keep(memories, memory)
    return memory


def waiting(memories: Memories, tenant: str, *texts: str) -> list[Memory]:
    """Store notes of an agent that wait in quarantine."""
    made = [of_tenant(tenant, f"w{n:03}", t, by=SourceClass.AGENT) for n, t in enumerate(texts or (NOTE,))]
    keep(memories, *made)
    return made


def answered(memories: Memories, tenant: str, cited: Memory, **changes: Any) -> AnswerRecord:
    """Record an answer that cited a memory, and a note that was written from it."""
    answer = AnswerRecord(
        id=AnswerId(f"a-{tenant}"),
        tenant=tenant,
        question="What does the Harbour Bridge carry?",
        text="It carries 40 tons [1].",
        outcome="answered",
        verdict="correct",
        citations=(CitedMemory(memory_id=cited.id, rev=cited.rev, source=cited.source, quote="40 tons"),),
        report={"path": [{"node": "retrieve", "why": "first of all"}], "usage": {"searches": 1}},
        created_at=T0,
    )
    answer = replace(answer, **changes)
    child = of_tenant(tenant, "derived", DERIVED, by=SourceClass.AGENT)
    keep(memories, child)
    with memories.ledger.write() as tx:
        tx.answers.add(answer)
        edge = Edge(tenant=tenant, parent=cited.id, child=answer.id, kind=EdgeKind.CITED, at=T0)
        tx.lineage.add([edge, replace(edge, parent=answer.id, child=child.id, kind=EdgeKind.DERIVED)])
    return answer


def witnessed(memories: Memories, memory: Memory, *reasons: str) -> None:
    """Record evidence for a memory, one event a day."""
    with memories.ledger.write() as tx:
        tx.evidence.add(
            [
                EvidenceEvent(
                    memory_id=memory.id,
                    tenant=memory.tenant,
                    kind=EvidenceKind.FEEDBACK,
                    weight=0.5,
                    witness=f"reader {n}",
                    reason=reason,
                    at=T0 - (len(reasons) - n) * DAY_MS,
                )
                for n, reason in enumerate(reasons)
            ]
        )


def furnished(memories: Memories, tenant: str) -> dict[str, Memory]:
    """Give a tenant something of everything, and return its memories by a name."""
    one, other = contested(memories, tenant)
    old, (note, *_) = due(memories, tenant), waiting(memories, tenant)
    faded = of_tenant(tenant, "faded", "An old tram once ran along the quay.", by=SourceClass.WEB)
    faded = replace(
        faded,
        created_at=T0 - 900 * DAY_MS,
        trust=trusted(0.6, T0 - 900 * DAY_MS, POLICIES[SourceClass.WEB].half_life),
        standing=Standing.ACTIVE,
        standing_reason="",
    )
    keep(memories, faded)
    answered(memories, tenant, one)
    witnessed(memories, note, "marked as helpful", "asked the harbour master")
    return {"one": one, "other": other, "due": old, "note": note, "faded": faded}


def standing_of(console: Console, memory: Memory) -> Standing:
    """Return how a memory stands now."""
    return now_of(console, memory).standing


def now_of(console: Console, memory: Memory) -> Memory:
    """Return a memory as it is stored now."""
    with console.memories.ledger.read() as tx:
        return tx.memories.get([memory.id])[memory.id]
