"""Which answers set a sweep off: a promotion or a recheck leads to the write-backs whose evidence it acts on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kb.history import AnswerId, EdgeKind
from kb.model import MemoryId
from kb.sweeps import SweepJob
from kb.telemetry import KEPT_AS, Attr, Span, followed, is_traced, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.sweeps import Sweep
    from kb.telemetry import Recording

CAUSED = frozenset({SweepJob.PROMOTE, SweepJob.RECHECK})  # the others follow the calendar, or a person
LOOKED_AT = 64  # actions whose memories are looked into
LINKS = 16


@contextmanager
def swept(memories: Memories, sweep: Sweep) -> Iterator[Recording]:
    """Record a sweep, linked with the write-backs that caused it, and they with it."""
    causes = _causes(memories, sweep) if is_traced() and sweep.job in CAUSED else []
    said = {Attr.JOB: sweep.job.value, Attr.SWEEP: sweep.id, Attr.TENANT: sweep.tenant}
    with span(Span.SWEEP, said, links=causes) as recording:
        followed(causes, {Attr.JOB: sweep.job.value, Attr.SWEEP: sweep.id})
        yield recording


def _causes(memories: Memories, sweep: Sweep) -> list[str]:
    """Return the traceparents of the write-backs that the waiting actions' memories came from or were moved by."""
    found: dict[str, None] = {}
    with memories.ledger.read() as tx:
        ids = [j.action.memory_id for j in tx.sweeps.waiting(sweep.id, LOOKED_AT) if j.action.memory_id]
        for id_ in dict.fromkeys(ids):
            for answer in _answers(tx, MemoryId(id_)):
                record = tx.answers.get(AnswerId(answer), sweep.tenant)
                trace = record.report.get(KEPT_AS) if record is not None else None
                if isinstance(trace, str):
                    found[trace] = None
            if len(found) >= LINKS:
                break
    return list(found)[:LINKS]


def _answers(tx: LedgerTx, id_: MemoryId) -> list[str]:
    """Return the answers that a memory was found for, is the key of, or was moved by, the latest evidence first."""
    memory = tx.memories.get([id_]).get(id_)
    own = [] if memory is None else [memory.metadata.get("answer_id")]
    moved = [event.answer_id for event in reversed(tx.evidence.of_memory(id_))]
    keys = [edge.parent for edge in tx.lineage.parents(id_) if edge.kind is EdgeKind.KEY]
    return [str(answer) for answer in dict.fromkeys([*moved, *own, *keys]) if answer]
