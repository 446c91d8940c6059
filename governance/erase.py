"""Erasure: what goes for good, found before anything is done, as a report to consent to and a plan to carry out.

Gone are a memory, its vector, all that is kept about it, and every answer that rests on it: that cited it, was written
with it in sight, says one of its sentences, or took words over from such an answer. Not gone, and listed, are notes
that somebody wrote from it, and other memories that say the same: each is a person's to decide on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from governance.effects.erased import ANSWER, BELOW, DOCUMENT, GRADED, NAME, PIECES, REMARK
from governance.plan import Plan
from governance.reach import Reach, may_never_come, reachable
from governance.retraction import ERASED as WITNESS_ERASED
from governance.retraction import retracted, whole_roots, withdrawals
from governance.selection import Selected, Selection, selected
from governance.sweep import apply, ignore, never
from kb.erased import ERASED, Words, spoken_by, without_others
from kb.errors import InputError
from kb.history import EdgeKind
from kb.index.generations import META_KEY
from kb.model import DocumentId, Kind, MemoryId
from kb.sweeps import Action, ActionKind, SweepJob, TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from governance.policy import Policy
    from governance.reach import Wanted
    from kb.ledger.descent import Member
    from kb.ledger.erasing import Other
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Json
    from kb.sweeps import Sweep, Tombstone

PAGE = 500  # memories whose texts are held at a time


@dataclass(slots=True, kw_only=True)
class _Chosen:
    """What goes, while it is being found; what was written from it or says the same; and its words.

    Args:
        said: by which answers and remarks are found that quote it; None: by the words of all that goes.
        own: those of the memories that were asked for, and not for being copies.
        below: what was written from each, by ids.
    """

    ids: set[str]
    answers: set[str]
    documents: set[str]
    collected: set[MemoryId]
    said: Words | None = None
    own: frozenset[str] = frozenset()
    below: Mapping[str, set[str]] = field(default_factory=dict)
    derived: list[Member] = field(default_factory=list)
    copies: list[Other] = field(default_factory=list)
    named: Words = field(default_factory=lambda: Words(()))
    words: Words = field(default_factory=lambda: Words(()))

    @property
    def quoted(self) -> Words:
        """The words for which answers and remarks go."""
        return self.words if self.said is None else self.said


def surveyed(memories: Memories, wanted: Wanted, policy: Policy, now: Instant, said: Words | None = None) -> Reach:
    """Return what an erasure would take now; reads alone, every answer and every memory of the tenant once.

    Args:
        memories: the store.
        wanted: what is to go.
        policy: of the tenant.
        now: the instant.
        said: words for which answers and remarks go that quote them; None: the words of all that goes.

    Raises:
        InputError: the tenant has nothing of that name.
        UnknownMemory: likewise, no such memory or answer.
    """
    with memories.ledger.read() as tx:
        return _surveyed(tx, wanted, policy, now, said)


def carried_out(
    memories: Memories,
    reach: Reach,
    *,
    policy: Policy,
    actor: str,
    reason: str = "",
    is_stopped: Callable[[], bool] = never,
    advance: Callable[[int], None] = ignore,
) -> Sweep:
    """Erase from ledger and index, as one sweep that cannot be undone; what lies elsewhere is the caller's to purge.

    Raises:
        Locked: another sweep of the tenant is running.
    """
    return apply(
        memories,
        reach.plan,
        policy=policy,
        actor=actor,
        reason=reason,
        allow_mass=True,
        is_stopped=is_stopped,
        advance=advance,
    )


def left_over(memories: Memories, reach: Reach, said: Words, policy: Policy, now: Instant) -> Plan:
    """Return what says it still: answers and remarks that were written while the erasure was at work."""
    with memories.ledger.read() as tx:
        quoting = _quoting(tx, policy.tenant, said)
        remarks = _remarks(tx, policy.tenant, said, set(reach.documents.values()), reach.members.keys())
        unsaid = _unsaid(tx, policy.tenant, reach.members.keys())
        return _plan(tx, policy, now, [*unsaid, *map(_answer, sorted(quoting)), *remarks])


def read_back(memories: Memories, reach: Reach) -> dict[str, int]:
    """Return how many rows about it the ledger has; every one of them is one too many."""
    with memories.ledger.read() as tx:
        ids = [*reach.members, *reach.collected, *_idle(tx, reach)]
        counts = tx.erasing.counts(ids, reach.documents, reach.hashes)
        answers = [*(a.id for a in reach.answers), *reach.other_answers]
        counts["answers"] = len(tx.descent.answers(reach.plan.tenant, answers))
    return counts


def without_living(memories: Memories, reach: Reach) -> Reach:
    """Return the reach without the documents that something else has come into: they live on."""
    with memories.ledger.read() as tx:
        living = {m.doc_id for m in tx.descent.of_documents(reach.plan.tenant, reach.documents)}
    return replace(reach, documents={id_: source for id_, source in reach.documents.items() if id_ not in living})


def still_there(memories: Memories, reach: Reach) -> list[MemoryId]:
    """Return the memories that were to go and are there."""
    with memories.ledger.read() as tx:
        return [*tx.memories.get([*reach.members, *_idle(tx, reach)])]


def _idle(tx: LedgerTx, reach: Reach) -> list[MemoryId]:
    """Return the keys that were to go, but those that lead to an answer again: it was asked and answered anew."""
    gone = {*(a.id for a in reach.answers), *reach.other_answers}
    led = {k: {e.parent for e in tx.lineage.parents(k) if e.kind is EdgeKind.KEY} - gone for k in reach.keys}
    return [k for k, answers in led.items() if not tx.descent.answers(reach.plan.tenant, answers)]


def erased_before(memories: Memories, selection: Selection, tenant: str) -> list[Tombstone]:
    """Return the tombstones of what is named, when all of it was erased before; else none."""
    names = list(selection.memories) or [named(selection)]
    with memories.ledger.read() as tx:
        found = tx.tombstones.among(tenant, TombstoneKind.ID, names)
    return [found[name] for name in names] if all(name in found for name in names) else []


def still_wanted(memories: Memories, wanted: Wanted, tenant: str) -> Wanted:
    """Return what is left to be forgotten of what is named: an earlier erasure may have taken some of it."""
    names = wanted.selection.memories
    with memories.ledger.read() as tx:
        gone = (
            tx.tombstones.among(tenant, TombstoneKind.ID, names).keys() - tx.memories.get(map(MemoryId, names)).keys()
        )
    left = tuple(name for name in names if name not in gone)
    return replace(wanted, selection=replace(wanted.selection, memories=left)) if left else wanted


def named(selection: Selection) -> str:
    """Return the name under which a source was erased, as its tombstone knows it."""
    return f"source:{selection.source}"


def _surveyed(tx: LedgerTx, wanted: Wanted, policy: Policy, now: Instant, said: Words | None) -> Reach:
    tenant = policy.tenant
    chosen = _chosen(tx, tenant, wanted, said)
    members = tx.descent.members(tenant, chosen.ids)
    copies = tx.descent.members(tenant, [o.id for o in chosen.copies])
    documents = _whole(tx, tenant, chosen, members)
    answers = _answers(tx, tenant, chosen)
    keys = tx.erasure.keys_only_to(answers)
    own = tx.descent.answers(tenant, answers)
    hashes = tx.erasing.own_hashes([*chosen.ids, *keys])
    graded: list[Json] = [*tx.erasing.graded_for(answers)]
    actions = [
        *([_bare({GRADED: graded})] if graded else []),
        *_unsaid(tx, tenant, chosen.ids, wanted.selection),
        *_memory_actions(tx, tx.descent.members(tenant, set(keys) - chosen.ids), "", {}),
        *_memory_actions(tx, members, _spoken(chosen, copies), chosen.below),
        *map(_traces, sorted(chosen.collected)),
        *map(_answer, sorted(set(answers) - set(tx.erasure.resting_on(chosen.ids)))),
        *(_bare({DOCUMENT: id_}) for id_ in documents),
        *_remarks(tx, tenant, chosen.quoted, set(documents.values()), chosen.ids),
        *([_bare({NAME: named(wanted.selection)})] if wanted.selection.source else []),
    ]
    return Reach(
        plan=_plan(tx, policy, now, actions if members or answers or documents or chosen.collected else []),
        members=members,
        documents=documents,
        answers=own,
        other_answers=sorted(set(answers) - {a.id for a in own}),
        keys=keys,
        derived=[m for m in chosen.derived if m.id not in chosen.ids],
        copies=list(copies.values()),
        collected=sorted(chosen.collected),
        roots=sorted({d.root for d in tx.descent.documents(tenant, _doc_ids(members)).values()}),
        hashes=hashes,
        counts={**tx.erasing.counts([*chosen.ids, *keys], documents, hashes), "answers": len(answers)},
        own=chosen.own,
        named=chosen.named,
        words=chosen.words,
    )


def _chosen(tx: LedgerTx, tenant: str, wanted: Wanted, said: Words | None) -> _Chosen:
    collected = {MemoryId(id_) for id_ in tx.erasure.collected(tenant, wanted.selection.memories)}
    picked = _picked(tx, tenant, wanted.selection, collected)
    whole = set(picked.versions) if wanted.selection.source else set[DocumentId]()
    staged = {m.id for m in tx.descent.of_documents(tenant, whole)}
    ids: set[str] = {*picked.memories, *staged, *collected}
    chosen = _Chosen(ids=ids, answers=set(picked.answers), documents={*whole}, collected=collected, said=said)
    _look_for_derived(tx, tenant, chosen)
    if wanted.with_derived:
        chosen.ids.update(m.id for m in chosen.derived)
    chosen.own = frozenset(chosen.ids)
    chosen.below = {id_: chosen.below.get(id_, set()) for id_ in chosen.own}
    _look_for_copies(tx, tenant, chosen)
    chosen.named = chosen.words
    if wanted.with_copies and chosen.copies:
        chosen.ids.update(o.id for o in chosen.copies)
        _look_for_copies(tx, tenant, chosen)
    return chosen


def _spoken(chosen: _Chosen, copies: Mapping[MemoryId, Member]) -> str:
    """Return what copies say that stay: one that is staged may never be there."""
    stay = {id_ for id_, copy in copies.items() if not may_never_come(copy)}
    return spoken_by(o.text for o in chosen.copies if o.id in stay)


def _picked(tx: LedgerTx, tenant: str, selection: Selection, but: Collection[str]) -> Selected:
    """Return what a selection means, without memories of which only traces are left."""
    if not but:
        return selected(tx, tenant, selection)
    left = tuple(id_ for id_ in selection.memories if id_ not in but)
    return selected(tx, tenant, replace(selection, memories=left)) if left else Selected()


def _traces(id_: MemoryId) -> Action:
    return Action(memory_id=id_, kind=ActionKind.ERASE, reason=ERASED, rev=0)


def _look_for_derived(tx: LedgerTx, tenant: str, chosen: _Chosen) -> None:
    """Find what was written from what goes, however far; a page that a search found stands for itself."""
    roots = {*chosen.ids, *chosen.answers}
    steps = tx.descent.descended(tenant, roots)
    below = {e.child for e in steps} - roots
    chosen.derived = [m for m in tx.descent.members(tenant, below).values() if m.kind is not Kind.ANSWER]
    chosen.below = reachable(steps)


def _look_for_copies(tx: LedgerTx, tenant: str, chosen: _Chosen) -> None:
    found = tx.memories.get(map(MemoryId, sorted(chosen.ids)))
    chosen.words = words = Words(m.text for m in found.values() if m.kind is not Kind.ANSWER)
    others = (o for o in tx.erasing.others(tenant) if o.id not in chosen.ids and o.kind is not Kind.ANSWER)
    chosen.copies = [o for o in others if words.quoted_in(o.text)] if words else []


def _whole(tx: LedgerTx, tenant: str, chosen: _Chosen, members: Mapping[MemoryId, Member]) -> dict[DocumentId, str]:
    """Return the documents of which nothing is left, with their addresses."""
    touched = _doc_ids(members)
    left = {m.doc_id for m in tx.descent.of_documents(tenant, touched) if m.id not in members}
    gone = {DocumentId(id_) for id_ in chosen.documents} | {id_ for id_ in touched if id_ not in left}
    return {id_: d.source for id_, d in tx.descent.documents(tenant, gone).items()}


def _doc_ids(members: Mapping[MemoryId, Member]) -> set[DocumentId]:
    return {m.doc_id for m in members.values() if m.doc_id is not None}


def _answers(tx: LedgerTx, tenant: str, chosen: _Chosen) -> list[str]:
    """Return the answers that go: those that rest on it or say it, and turns that took words over from these."""
    found = {*tx.erasure.resting_on(chosen.ids), *chosen.answers, *_quoting(tx, tenant, chosen.quoted)}
    return sorted({*found, *tx.erasing.follow_ups(found)})


def _quoting(tx: LedgerTx, tenant: str, words: Words) -> set[str]:
    if not words:
        return set()
    return {id_ for id_, texts in tx.erasing.answers(tenant) if any(map(words.quoted_in, texts))}


def _remarks(tx: LedgerTx, tenant: str, words: Words, sources: Collection[str], ids: Collection[str]) -> list[Action]:
    """Return the actions that silence reports, reasons and notes which quote it, or name a document that goes."""
    actions = []
    for remark in tx.erasing.remarks(tenant):
        goes_anyway = remark.table in ("memories", "evidence", "contradictions") and any(k in ids for k in remark.key)
        if not goes_anyway and any(t in sources or words.quoted_in(t) for t in remark.texts if t):
            actions.append(_bare({REMARK: [remark.table, *remark.key]}))
    return actions


def _unsaid(tx: LedgerTx, tenant: str, ids: Collection[str], selection: Selection | None = None) -> Iterable[Action]:
    """Return what takes back all that was said of other memories by what goes: nothing of it may outlive it."""
    roots = frozenset() if selection is None else whole_roots(tx, tenant, selection)
    said = retracted(tx, tenant, frozenset(ids), roots)
    return withdrawals(tx, tenant, {id_: own for id_, own in said.items() if id_ not in ids}, WITNESS_ERASED)


def _memory_actions(
    tx: LedgerTx, members: Mapping[MemoryId, Member], spoken: str, below: Mapping[str, Collection[str]]
) -> Iterable[Action]:
    ids = sorted(members, key=lambda id_: (members[id_].doc_id or "", id_))
    for start in range(0, len(ids), PAGE):
        for memory in tx.memories.get(ids[start : start + PAGE]).values():
            detail: dict[str, Json] = {PIECES: [*without_others(memory.text, spoken)]}
            if memory.id in below:
                detail[BELOW] = [*sorted(below[memory.id])]
            yield Action(memory_id=memory.id, kind=ActionKind.ERASE, reason=ERASED, rev=memory.rev, detail=detail)


def _answer(id_: str) -> Action:
    return _bare({ANSWER: id_})


def _bare(detail: Mapping[str, Json]) -> Action:
    return Action(memory_id="", kind=ActionKind.ERASE, reason=ERASED, rev=0, detail=detail)


def _plan(tx: LedgerTx, policy: Policy, now: Instant, actions: Sequence[Action]) -> Plan:
    return Plan(
        tenant=policy.tenant,
        job=SweepJob.ERASE,
        policy=policy.hash,
        at=now,
        ledger=str(tx.meta.get(META_KEY) or ""),
        actions=tuple(actions),
    )


def refuse_nameless(ids: Sequence[str], source: str) -> None:
    """Refuse what erasure does not know: it takes ids, or one source.

    Raises:
        InputError: neither is given, or both.
    """
    if bool(ids) is bool(source):
        raise InputError("say what to forget: ids of memories, or --source")
