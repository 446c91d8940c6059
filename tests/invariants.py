"""What must hold of a ledger and its index when nobody writes any more, whoever wrote what before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from kb.ledger.barring import barred_texts
from kb.ledger.schema import answers, citations, documents, evidence, lineage, memories, outbox, utility
from kb.ledger.schema_governance import actions, contradictions, images, sweeps
from kb.model import FOREVER, Kind, Standing
from kb.rebuild import reconcile
from kb.sweeps import ActionKind

if TYPE_CHECKING:
    from kb.memories import Memories
    from kb.model import Memory
    from kb.sweeps import Tombstone

Row = Any
Tables = dict[str, list[Any]]


def broken(store: Memories) -> list[str]:
    """Return what does not hold, each in a line; the index is drained before."""
    while store.projector.drain().pending:
        pass
    found: list[str] = []
    with store.ledger.read() as tx:
        stored = {m.id: m for m in tx.memories.page("", 10**6)}
        texts = [m.text for m in stored.values()]
        bars = barred_texts(tx, "default", texts)
    with store.ledger.engines.reads.connect() as connection:
        tables: Tables = {t.name: list(connection.execute(sa.select(t))) for t in _TABLES}
    found += _journal(tables)
    found += _images(tables, stored)
    found += _documents(tables, stored)
    found += _orphans(tables, stored)
    found += _conflicts(tables, stored)
    found += _standings(tables, stored)
    found += _barred(tables, stored, bars)
    found += [f"the outbox still has {len(tables['outbox'])} entries"] if tables["outbox"] else []
    if (differs := reconcile(store)).ids:
        found.append(f"the index differs: {differs}")
    return found


_TABLES = (
    actions, answers, citations, contradictions, documents, evidence, images, lineage, outbox, sweeps, utility, memories
)  # fmt: skip


def _journal(tables: Tables) -> list[str]:
    found = [f"sweep {s.id} ({s.job}) still runs" for s in tables["sweeps"] if s.status == "running"]
    found += [f"{a.sweep_id}/{a.seq} was never applied" for a in tables["actions"] if a.applied_at is None]
    for sweep in tables["sweeps"]:
        own = [a for a in tables["actions"] if a.sweep_id == sweep.id]
        counted = Counter("skipped" if a.skipped else a.kind for a in own)
        if dict(counted) != dict(sweep.counts):
            found.append(f"sweep {sweep.id} says {sweep.counts}, its journal {dict(counted)}")
        if sorted(a.seq for a in own) != list(range(len(own))):
            found.append(f"the journal of sweep {sweep.id} has holes")
    return found


def _images(tables: Tables, stored: dict[Any, Memory]) -> list[str]:
    found = []
    steps: dict[str, list[tuple[int, int]]] = {}
    skipped = {(a.sweep_id, a.seq) for a in tables["actions"] if a.skipped}
    for image in tables["images"]:
        if (image.sweep_id, image.seq) in skipped:
            found.append(f"{image.sweep_id}/{image.seq} was skipped and has an image")
        if image.kind == "memory" and image.before and image.after:
            steps.setdefault(image.key, []).append((image.before["rev"], image.after["rev"]))
    came_again = _collected(tables) & set(map(str, stored))  # gc took it, and somebody said it again
    for key, own in steps.items():
        if key in came_again:
            continue
        if any(b != a + 1 for a, b in own) or len({a for a, _ in own}) < len(own):
            found.append(f"memory {key} was changed twice from one revision: {sorted(own)}")
        if key in stored and stored[key].rev < max(b for _, b in own):
            found.append(f"memory {key} went back to revision {stored[key].rev}: {sorted(own)}")
    return found


def _documents(tables: Tables, stored: dict[Any, Memory]) -> list[str]:
    live = [d for d in tables["documents"] if d.deleted_at is None]
    collected, listed = _collected(tables), {id_ for d in live for id_ in d.memory_ids}
    found = [f"a live document lists {id_}, which is gone" for id_ in listed - collected if id_ not in stored]
    past = (Standing.SUPERSEDED, Standing.STAGED)
    found += [f"a live document lists {m.id}, which is {m.standing}" for m in stored.values() if m.id in listed
              and m.standing in past]  # fmt: skip
    decided = {a.memory_id for a in tables["actions"] if a.kind in ("verify", "restore") and not a.skipped}
    lost = [m for m in stored.values() if m.doc_id and m.standing is Standing.ACTIVE and m.id not in listed]
    found += [f"{m.id} is active, and no live document lists it" for m in lost if m.id not in decided]
    return found


def _collected(tables: Tables) -> set[str]:
    kind, why = ActionKind.ERASE.value, "restore_window_ended"
    return {a.memory_id for a in tables["actions"] if a.kind == kind and a.reason == why and not a.skipped}


def _orphans(tables: Tables, stored: dict[Any, Memory]) -> list[str]:
    given = {a.id for a in tables["answers"]}
    there = {*stored, *given, *_collected(tables)}
    found = [
        f"lineage {e.kind} names {id_}, which is gone"
        for e in tables["lineage"]
        for id_ in (e.parent, e.child)
        if id_ not in there and "://" not in id_
    ]
    found += [f"{e.kind} of {e.memory_id}, which is gone" for e in tables["evidence"] if e.memory_id not in there]
    found += [f"utility of {u.memory_id}, which is gone" for u in tables["utility"] if u.memory_id not in there]
    found += [f"a citation of {c.memory_id}, which is gone" for c in tables["citations"] if c.memory_id not in there]
    keys: dict[str, set[str]] = {}
    for edge in tables["lineage"]:
        if edge.kind == "key":
            keys.setdefault(edge.child, set()).add(edge.parent)
    found += [f"key {key} leads to {len(own)} answers" for key, own in keys.items() if len(own) != 1]
    return found


def _conflicts(tables: Tables, stored: dict[Any, Memory]) -> list[str]:
    rows = tables["contradictions"]
    found = [f"a contradiction names {i}, which is gone" for c in rows for i in (c.one, c.other) if i not in stored]
    sides = {id_ for c in rows if c.settled_at is None for id_ in (c.one, c.other)}
    found += [
        f"{m.id} ({m.standing}) is contested: {m.contested}; open rows say otherwise"
        for m in stored.values()
        if m.contested is not (m.id in sides)
    ]
    return found


def _standings(tables: Tables, stored: dict[Any, Memory]) -> list[str]:
    found = []
    retired = {a.memory_id for a in tables["actions"] if a.kind == "retire" and not a.skipped}
    for memory in stored.values():
        if memory.standing is Standing.STAGED:
            found.append(f"{memory.id} is still staged")
        if memory.standing is Standing.SUPERSEDED and (memory.valid_to == FOREVER or not memory.standing_reason):
            found.append(f"{memory.id} is superseded: {memory.valid_to} {memory.standing_reason!r}")
        if memory.standing is Standing.ACTIVE and memory.valid_to != FOREVER:
            found.append(f"{memory.id} is active until {memory.valid_to}")
        if memory.standing is Standing.RETIRED and memory.id not in retired:
            found.append(f"{memory.id} is retired and no sweep has retired it")
        if memory.standing is Standing.QUARANTINED and not memory.standing_reason:
            found.append(f"{memory.id} is quarantined without a reason")
    return found


def _barred(tables: Tables, stored: dict[Any, Memory], bars: Any) -> list[str]:
    """Return who says what must not be said: nobody what was erased, nothing new what was rolled back.

    New is what was written since, but for the time that the rollback was undone, until that was undone, too.
    """
    found = []
    for memory in stored.values():
        bar = bars.get(memory.text)
        if bar is None or memory.kind is Kind.ANSWER:
            continue
        if bar.tombstone.is_erased:
            whole = "all" if bar.is_whole else "part"
            found.append(
                f"{memory.id} ({memory.kind}, {memory.standing_reason!r}, since {memory.created_at}) says {whole} of"
                f" {bar.tombstone}"
            )
        elif _speaks(memory) and memory.kind is not Kind.DOCUMENT and _stood(tables, bar.tombstone, memory.created_at):
            found.append(f"{memory.id} ({memory.kind}) is active since {memory.created_at} and says {bar.tombstone}")
    return found


def _stood(tables: Tables, tombstone: Tombstone, at: int) -> bool:
    undone = {s.id: s.started_at for s in tables["sweeps"] if s.undoes == tombstone.sweep_id}
    redone = [(undone[s.undoes], s.finished_at) for s in tables["sweeps"] if s.undoes in undone]
    return at > tombstone.at and not any(since <= at <= until for since, until in redone)


def _speaks(memory: Memory) -> bool:
    return memory.standing is Standing.ACTIVE and not memory.trust.verified
