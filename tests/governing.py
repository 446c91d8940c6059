"""Stores for laws of governance: memories of every kind and age, policies of every severity, plans applied by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from governance.policy import ClassRules, Policy
from kb.history import Edge, EdgeKind
from kb.ids import embed_hash
from kb.model import DocumentId, Kind, Memory, MemoryId, Passage, SourceClass, Standing
from kb.passages import embedded_as
from kb.settings import Settings
from kb.sweeps import ActionKind
from kb.trust import DAY_MS, trusted
from tests.stores import T0

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from governance.plan import Plan
    from kb.memories import Memories
    from kb.model import Instant

KINDS = {
    SourceClass.CURATED: Kind.DOCUMENT,
    SourceClass.DOCUMENT: Kind.DOCUMENT,
    SourceClass.PERSON: Kind.NOTE,
    SourceClass.AGENT: Kind.NOTE,
    SourceClass.WEB: Kind.WEB,
    SourceClass.ANSWER: Kind.ANSWER,
}
DEFAULTS = Settings.model_construct().policies


def a_policy(
    tenant: str = "default",
    *,
    half_life: float | None = None,
    prune_below: float = 0.2,
    prune_after: float = 14.0,
    restore: float = 30.0,
    **others: Any,
) -> Policy:
    """Return the default policy with what is said, the same for every source class."""
    trust = {c: p if half_life is None else replace(p, half_life_days=half_life) for c, p in DEFAULTS.items()}
    rules = ClassRules(prune_below=prune_below, prune_after_days=prune_after, restore_days=restore)
    values: dict[str, Any] = {"gate": 0.7, "trust": trust, "rules": dict.fromkeys(SourceClass, rules), **others}
    return Policy(tenant=tenant, **values)


def governed(
    name: str,
    source_class: SourceClass = SourceClass.DOCUMENT,
    *,
    policy: Policy,
    confidence: float | None = None,
    age: float = 0.0,
    verified: bool = False,
    anchor: Instant | None = None,
    shown: float | None = None,
    **changes: Any,
) -> Memory:
    """Return a memory of the policy's tenant that is `age` days old at T0 and decays from then on, or from `anchor`."""
    own, created = policy.trust[source_class], T0 - round(age * DAY_MS)
    trust = trusted(
        own.confidence if confidence is None else confidence,
        created if anchor is None else anchor,
        own.half_life,
        verified_at=created if verified else None,
    )
    memory = Memory(
        id=MemoryId(f"{policy.tenant}-{name}"),
        tenant=policy.tenant,
        kind=KINDS[source_class],
        source_class=source_class,
        source=f"{KINDS[source_class].value}://handbook/{name}",
        text=f"What {name} says.",
        trust=replace(trust, shown=shown),
        created_at=created,
        updated_at=created,
        valid_from=created,
    )
    memory = replace(memory, **changes)
    return replace(memory, embed_hash=embed_hash(embedded_as(memory)))


@st.composite
def policies(draw: st.DrawFn, tenant: str = "default") -> Policy:
    """Draw a policy whose classes differ."""
    days = st.sampled_from([1.0, 1.8, 2.5, 7.0, 30.0, 90.0])
    trust = {c: replace(p, half_life_days=draw(days)) for c, p in DEFAULTS.items()}
    rules = {
        c: ClassRules(
            prune_below=draw(st.sampled_from([0.0, 0.2, 0.35, 0.65, 0.8])),
            prune_after_days=draw(st.sampled_from([0.0, 3.0, 14.0])),
            restore_days=draw(st.sampled_from([0.0, 1.5, 30.0])),
        )
        for c in SourceClass
    }
    return Policy(tenant=tenant, gate=draw(st.sampled_from([0.0, 0.5, 0.7, 0.7, 0.95])), trust=trust, rules=rules)


@st.composite
def stored(draw: st.DrawFn, policy: Policy, *, most: int = 14) -> list[Memory]:
    """Draw memories of every class, age and standing; those of four documents have neighbours."""
    return [draw(_one(policy, n)) for n in range(draw(st.integers(1, most)))]


@st.composite
def _one(draw: st.DrawFn, policy: Policy, n: int) -> Memory:
    source_class = draw(st.sampled_from([c for c in SourceClass if c is not SourceClass.ANSWER]))
    is_document = KINDS[source_class] is Kind.DOCUMENT
    age = draw(st.floats(0, 200) | st.sampled_from([0.0, 14.0, 30.0]))
    held = draw(st.sampled_from([0, 0, 0, 5, 180]))
    often_not = st.sampled_from([False, False, False, False, True])
    return governed(
        str(n),
        source_class,
        policy=policy,
        confidence=draw(st.floats(0, 1) | st.sampled_from([0.0, 0.15, 0.5, 0.8, 0.9, 0.95])),
        age=age,
        verified=draw(often_not),
        anchor=T0 + round((held - draw(st.floats(0, age))) * DAY_MS),
        doc_id=DocumentId(f"{policy.tenant}-d{draw(st.integers(0, 3))}") if is_document else None,
        passage=Passage(ordinal=draw(st.integers(0, 3))),
        standing=draw(st.sampled_from([*[Standing.ACTIVE] * 5, *Standing])),
        pinned=draw(often_not),
        contested=draw(often_not),
        shown=draw(st.none() | st.sampled_from([0.0, 0.1, 0.45, 0.721])),
    )


def fill(memories: Memories, added: Sequence[Memory], edges: Sequence[Edge] = (), *, is_embedded: bool = True) -> None:
    """Put memories into the ledger; with vectors, unless none of them will be projected."""
    if is_embedded:
        memories.generations.ensured(memories.embedder.identity, T0)
        memories.embed({m.embed_hash: embedded_as(m) for m in added})
    with memories.ledger.write() as tx:
        tx.memories.add(added)
        tx.lineage.add(edges)


def a_key(name: str, cited: Iterable[Memory], *, policy: Policy, **changes: Any) -> tuple[Memory, list[Edge]]:
    """Return the key of an answer that cited memories, and the steps that lead to it."""
    key = governed(
        name, SourceClass.ANSWER, policy=policy, **{"standing": Standing.QUARANTINED, "age": 20.0, **changes}
    )
    answer = f"answer-{key.id}"
    steps = [Edge(tenant=key.tenant, parent=m.id, child=answer, kind=EdgeKind.CITED) for m in cited]
    return key, [*steps, Edge(tenant=key.tenant, parent=answer, child=key.id, kind=EdgeKind.KEY)]


def all_of(memories: Memories, tenant: str) -> dict[MemoryId, Memory]:
    """Return a tenant's memories by id."""
    with memories.ledger.read() as tx:
        return {m.id: m for m in tx.memories.page("", 10_000, tenant=tenant)}


def applied_purely(memories: Memories, plan: Plan) -> None:
    """Do what a plan of decay, prune or gc says, row by row, without a sweep."""
    with memories.ledger.write() as tx:
        for action in plan.actions:
            id_ = MemoryId(action.memory_id)
            memory = tx.memories.get([id_])[id_]
            assert memory.rev == action.rev
            if action.kind is ActionKind.ERASE:
                tx.memories.remove([id_])
                continue
            if action.kind is ActionKind.SHOW:
                after = replace(memory, trust=replace(memory.trust, shown=action.detail["confidence"]))  # type: ignore[arg-type]
            else:
                assert action.kind is ActionKind.RETIRE
                after = replace(memory, standing=Standing.RETIRED)
            tx.memories.replace([replace(after, rev=memory.rev + 1, updated_at=max(memory.updated_at, plan.at))])


def what_stands(memories: Memories, tenant: str) -> dict[MemoryId, tuple[Standing, float | None]]:
    """Return what two stores must agree in, by id: standing, and what those that are in the index show there."""
    return {
        i: (m.standing, None if m.standing is Standing.RETIRED else m.trust.shown)
        for i, m in all_of(memories, tenant).items()
    }
