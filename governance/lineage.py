"""Where a memory came from and what was made from it, all the way, as a value and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from governance.blast import LineageCycle, refuse_cycles
from governance.rollback import excerpt
from kb.clock import iso
from kb.errors import UnknownMemory
from kb.history import AnswerId
from kb.independence import ROOT, SEARCH
from kb.model import MemoryId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.history import Edge
    from kb.ledger.descent import Given, Member
    from kb.ledger.documents import DocumentVersion
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Document, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing on the way, and how it was reached: by `edge`, after `distance` steps, 1 for the next of kin."""

    id: str
    edge: Edge
    distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The kin of one memory or answer.

    Args:
        id: of what was asked for.
        up: what it was made from, nearest first.
        down: what was made from it, nearest first.
        memories: those among all of them, by id.
        answers: likewise.
        document: that it was read in, if any.
        versions: of that document which hold it, oldest first.
        cycle: ids on a circle that the lineage runs in; empty when it is sound.
    """

    id: str
    up: tuple[Step, ...]
    down: tuple[Step, ...]
    memories: Mapping[MemoryId, Member]
    answers: Mapping[AnswerId, Given]
    document: Document | None = None
    versions: tuple[DocumentVersion, ...] = ()
    cycle: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return the trace under the stable keys of docs/reference/json.md; no memory's text is in it."""
        document = self.document
        return {
            **self.node(self.id),
            "document": None
            if document is None
            else {
                "doc_id": document.id,
                "source": document.source,
                "versions": [
                    {"version": v.version, "run_id": v.run_id or None, "created_at": iso(v.created_at)}
                    for v in self.versions
                ],
            },
            "up": [self._step(step, step.edge.child) for step in self.up],
            "down": [self._step(step, step.edge.parent) for step in self.down],
            "cycle": list(self.cycle),
        }

    def node(self, id_: str) -> dict[str, Json]:
        """Return what is known of one id: a memory, an answer, a search, a root source, or something that is gone."""
        if (memory := self.memories.get(MemoryId(id_))) is not None:
            return {
                "id": id_,
                "type": "memory",
                "kind": memory.kind.value,
                "source": memory.source,
                "standing": memory.standing.value,
                "standing_reason": memory.standing_reason,
                "created_at": iso(memory.created_at),
            }
        if (answer := self.answers.get(AnswerId(id_))) is not None:
            return {
                "id": id_,
                "type": "answer",
                "question": excerpt(answer.question),
                "outcome": answer.outcome,
                "user": answer.scope.user or None,
                "agent": answer.scope.agent or None,
                "created_at": iso(answer.created_at),
            }
        kind = "search" if id_.startswith(SEARCH) else "root" if id_.startswith(ROOT) else "gone"
        return {"id": id_, "type": kind}

    def _step(self, step: Step, from_: str) -> dict[str, Json]:
        return {**self.node(step.id), "by": step.edge.kind.value, "from": from_, "distance": step.distance}


def traced(memories: Memories, id_: str, tenant: str, *, up: bool = True, down: bool = True) -> Trace:
    """Return the kin of a memory or an answer.

    Raises:
        UnknownMemory: the tenant has neither with this id.
    """
    with memories.ledger.read() as tx:
        member = tx.descent.members(tenant, [id_]).get(MemoryId(id_))
        if member is None and not tx.descent.answers(tenant, [id_]):
            raise UnknownMemory(f"there is no memory and no answer {id_} in tenant {tenant}")
        above, around = _reached(_above(tx, tenant, id_), id_, is_up=True) if up else ((), ())
        below, circle = _reached(tx.descent.descended(tenant, [id_]), id_, is_up=False) if down else ((), ())
        ids = {id_, *(s.id for s in (*above, *below))}
        known = tx.descent.members(tenant, ids)
        answers = tx.descent.answers(tenant, ids - known.keys())
        document, versions = _document(tx, member)
    return Trace(
        id=id_,
        up=above,
        down=below,
        memories=known,
        answers={a.id: a for a in answers},
        document=document,
        versions=versions,
        cycle=around or circle,
    )


def _document(tx: LedgerTx, member: Member | None) -> tuple[Document | None, tuple[DocumentVersion, ...]]:
    if member is None or member.doc_id is None:
        return None, ()
    document = tx.documents.get(member.doc_id)
    return document, tuple(v for v in tx.documents.versions(member.doc_id) if member.id in v.memory_ids)


def _above(tx: LedgerTx, tenant: str, id_: str) -> list[Edge]:
    """Return all steps that lead to an id, however far; they may run in a circle."""
    seen, level = {id_}, [id_]
    edges: list[Edge] = []
    while level:
        steps = tx.descent.steps_to(tenant, level)
        edges += steps
        level = sorted({e.parent for e in steps} - seen)
        seen.update(level)
    return edges


def _reached(edges: Sequence[Edge], start: str, *, is_up: bool) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Return what steps lead to from `start`, nearest first, and a circle among them, if there is one. Pure."""
    onward: dict[str, list[Edge]] = {}
    for edge in edges:
        onward.setdefault(edge.child if is_up else edge.parent, []).append(edge)
    distances, level = {start: 0}, [start]
    steps: list[Step] = []
    while level:
        found: dict[str, Edge] = {}
        for id_ in level:
            for edge in sorted(onward.get(id_, ()), key=lambda e: (e.parent, e.child, e.kind)):
                found.setdefault(edge.parent if is_up else edge.child, edge)
        distance = distances[level[0]] + 1
        level = sorted(found.keys() - distances.keys())
        distances.update(dict.fromkeys(level, distance))
        steps += [Step(id=id_, edge=found[id_], distance=distance) for id_ in level]
    return tuple(steps), _cycle(distances, edges)


def _cycle(ids: Iterable[str], edges: Iterable[Edge]) -> tuple[str, ...]:
    children: dict[str, list[str]] = {id_: [] for id_ in ids}
    for edge in edges:
        if edge.parent in children and edge.child in children:
            children[edge.parent].append(edge.child)
    try:
        refuse_cycles(children)
    except LineageCycle as found:
        return found.cycle
    return ()


def lines(trace: Trace) -> list[str]:
    """Return the trace for people: what it came from above, what was made from it below, each with its way."""
    own = trace.node(trace.id)
    told = [f"{trace.id}  {_told(own)}"]
    if trace.document is not None:
        held = ", ".join(str(v.version) for v in trace.versions)
        batches = ", ".join(dict.fromkeys(v.run_id for v in trace.versions if v.run_id)) or "none"
        told.append(f"document  {trace.document.source}, version {held or 'none'}; batch {batches}")
    for name, steps in (("from", trace.up), ("made from it", trace.down)):
        told += ["", name, *(_line(trace, step) for step in steps)] if steps else []
    if not trace.up and not trace.down:
        told += ["", "no lineage: nothing was made from it, and it was made from nothing that is stored"]
    if trace.cycle:
        told += ["", f"the lineage runs in a circle: {' → '.join(trace.cycle)}"]
    return told


def _line(trace: Trace, step: Step) -> str:
    return f"{'   ' * step.distance}{step.edge.kind.value:8} {step.id}  {_told(trace.node(step.id))}"


def _told(node: Mapping[str, Json]) -> str:
    match node["type"]:
        case "memory":
            return f"{node['kind']}, {node['standing']}: {node['source']}"
        case "answer":
            return f"answer of {node['created_at']}: {node['question']}"
        case kind:
            return str(kind)
