"""Memories of several sources that say the same, or something else, and how a store stands after a sweep of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from governance.corroborate import plan_promote
from governance.policy import policy_of
from governance.ports import Checked, Outcome
from governance.recheck import plan_recheck
from governance.sweep import apply
from kb.history import Edge, EdgeKind
from kb.ids import embed_hash
from kb.model import FOREVER, DocumentId, Kind, Memory, MemoryId, Passage, Scope, SourceClass, Standing
from kb.passages import embedded_as
from kb.settings import Settings
from kb.trust import DAY_MS, prior, trusted
from tests.stores import T0

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from governance.policy import Policy
    from governance.ports import Claim
    from kb.memories import Memories
    from kb.sweeps import Sweep

FORTY = "The Harbour Bridge carries a load of 40 tons on dry days."
FIFTY = "The Harbour Bridge carries a load of 55 tons on dry days."
VIERZIG = "海港大桥晴天的最大载重量为40吨。"
FUENFZIG = "海港大桥晴天的最大载重量为55吨。"
FILLER = tuple(f"Gate number {n} of the old harbour is painted green every spring by its keeper." for n in range(12))
POLICIES = Settings.model_construct().policies


def policy(**changes: Any) -> Policy:
    """Return the default tenant's policy."""
    return replace(policy_of(Settings(), "default"), **changes)


def said(
    name: str,
    text: str,
    *,
    by: SourceClass = SourceClass.DOCUMENT,
    source: str = "",
    doc: str | None = None,
    verified: bool = False,
    standing: Standing | None = None,
    scope: Scope | None = None,
    **changes: Any,
) -> Memory:
    """Return a memory that says `text`; its source, and with it its root, is its own unless one is given."""
    kinds = {SourceClass.AGENT: Kind.NOTE, SourceClass.PERSON: Kind.NOTE, SourceClass.WEB: Kind.WEB}
    kind = kinds.get(by, Kind.ANSWER if by is SourceClass.ANSWER else Kind.DOCUMENT)
    own = POLICIES[by]
    trust = trusted(0.95, T0 + 180 * DAY_MS, own.half_life, verified_at=T0) if verified else prior(own, T0)
    waits = Standing.QUARANTINED if own.quarantined and not verified else Standing.ACTIVE
    schemes = {Kind.WEB: f"https://{name}.example/page", Kind.DOCUMENT: f"file://{name}/page.md"}
    memory = Memory(
        id=MemoryId(f"m-{name}"),
        tenant="default",
        kind=kind,
        source_class=by,
        source=source or schemes.get(kind, f"note://{by.value}"),
        text=text,
        trust=trust,
        standing=waits if standing is None else standing,
        standing_reason="waits for corroboration or verification" if waits is Standing.QUARANTINED else "",
        doc_id=DocumentId(doc or f"d-{name}") if kind is Kind.DOCUMENT else None,
        passage=Passage(end=len(text)),
        scope=scope or Scope(),
        valid_from=T0,
        valid_to=FOREVER,
        created_at=T0,
        updated_at=T0,
    )
    memory = replace(memory, **changes)
    return replace(memory, embed_hash=embed_hash(embedded_as(memory)))


def keep(store: Memories, *made: Memory) -> None:
    """Store memories and project them."""
    store.generations.ensured(store.embedder.identity, T0)
    store.embed({m.embed_hash: embedded_as(m) for m in made})
    with store.ledger.write() as tx:
        tx.memories.add(list(made))
        tx.outbox.mark([m.id for m in made], T0)
    while store.projector.drain().pending:
        pass


def derive(store: Memories, child: Memory, *parents: str) -> None:
    """Record what a memory was written from."""
    with store.ledger.write() as tx:
        tx.lineage.add(
            [Edge(tenant="default", parent=p, child=child.id, kind=EdgeKind.DERIVED, at=T0) for p in parents]
        )


def cite(store: Memories, *memories: Memory, times: int = 1) -> None:
    """Count memories as cited by so many answers."""
    with store.ledger.write() as tx:
        for _ in range(times):
            tx.utility.bump(cited=[m.id for m in memories], now=T0)


def search_for(store: Memories, query: str, *pages: Memory) -> None:
    """Record that one search has found these pages."""
    with store.ledger.write() as tx:
        parent = f"search://fake/{query}"
        tx.lineage.add([Edge(tenant="default", parent=parent, child=p.id, kind=EdgeKind.FOUND, at=T0) for p in pages])


def recheck(store: Memories, *, by: Policy | None = None, **options: Any) -> Sweep:
    """Plan a recheck and apply it."""
    own = by or policy()
    plan = plan_recheck(store, own, store.clock.now(), **options)
    return apply(store, plan, policy=own, actor="test")


def promote(store: Memories, *, by: Policy | None = None) -> Sweep:
    """Plan a promotion and apply it."""
    own = by or policy()
    return apply(store, plan_promote(store, own, store.clock.now()), policy=own, actor="test")


def now_of(store: Memories, *memories: Memory) -> list[Memory]:
    """Return memories as they are stored now."""
    with store.ledger.read() as tx:
        found = tx.memories.get([m.id for m in memories])
    return [found[m.id] for m in memories]


def open_contradictions(store: Memories) -> list[tuple[str, str, str, str, str]]:
    """Return the open contradictions: ids, kind and values."""
    with store.ledger.read() as tx:
        return [(c.one, c.other, c.kind, c.one_value, c.other_value) for c in tx.contradictions.open("default")]


def events_of(store: Memories, memory: Memory) -> list[tuple[str, float, str]]:
    """Return a memory's evidence: kind, weight, witness."""
    with store.ledger.read() as tx:
        return [(e.kind.value, e.weight, e.witness) for e in tx.evidence.of_memory(memory.id)]


class FakeChecker:
    """Implements `governance.ports.Checker`: answers what it is told to, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Claim], Checked]) -> None:
        self.answer = answer
        self.asked: list[Claim] = []

    def check(self, claims: Sequence[Claim]) -> list[Checked]:
        self.asked += claims
        return [self.answer(claim) for claim in claims]


def found(outcome: Outcome, *roots: str) -> Checked:
    """Return the result of a check that these sources decided."""
    return Checked(outcome=outcome, roots=roots, urls=tuple(f"https://{r}/" for r in roots))
