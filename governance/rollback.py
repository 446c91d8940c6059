"""Rollback: what was bad, all that was made from it, and what comes back, as a report before and a plan to act on.

The plan is carried out by `governance.sweep.apply` and taken back by `governance.undo`, like any other. Answers stay as
they were given: a record is not rewritten; they are listed, so that whoever got them can be told.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from governance.blast import Blast, blast
from governance.plan import Plan
from governance.restoration import Back, going_back
from governance.retraction import ROLLED_BACK as WITNESS_ROLLED_BACK
from governance.retraction import retracted, whole_roots, withdrawals
from governance.selection import selected
from governance.sweep import apply
from kb.clock import iso
from kb.index.generations import META_KEY
from kb.ledger.barring import barred_documents
from kb.model import DocumentId, Kind, MemoryId, Standing
from kb.rolled_back import DESCENDS, DESCENT_CODE, ROLLED_BACK, ROOT_CODE
from kb.sweeps import Action, ActionKind, SweepJob
from kb.telling import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.policy import Policy
    from governance.selection import Selected, Selection
    from kb.ledger.descent import Given, Member
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Json
    from kb.sweeps import Sweep

EXCERPT = 160  # characters of a question
ROUNDS = 5  # writers that come in between, each once
REVIVED_CODE = "superseded_was_rolled_back"
SAID_REVIVED = "current again: what had replaced it was rolled back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Radius:
    """What a rollback would do.

    Args:
        plan: what will be done; without actions when all of it was rolled back before.
        blast: roots and all that descends from them, with the way there.
        members: memories in the blast, by id.
        answers: answers in the blast, newest first.
        backs: documents that change, or whose content must not come back.
        revived: memories that will be current again.
        hearers: memories of which bad witnesses had said something, which is withdrawn.
    """

    plan: Plan
    blast: Blast
    members: Mapping[MemoryId, Member]
    answers: Sequence[Given]
    backs: Sequence[Back]
    revived: Sequence[Member]
    hearers: Sequence[Member]

    @property
    def counts(self) -> dict[str, int]:
        """What the blast holds, by kind, and what will come back."""
        kinds = Counter(m.kind for m in self.members.values())
        changed = [b for b in self.backs if b.is_changed]
        return {
            "memories": sum(n for kind, n in kinds.items() if kind is not Kind.ANSWER),
            **{kind.value: kinds[kind] for kind in (Kind.DOCUMENT, Kind.WEB, Kind.NOTE)},
            "answers": len(self.answers),
            "answer_keys": kinds[Kind.ANSWER],
            "documents_deleted": sum(b.version is None for b in changed),
            "documents_put_back": sum(b.version is not None for b in changed),
            "revived": len(self.revived),
            "hearers": len(self.hearers),
            "quarantined": self.plan.counts.get(ActionKind.QUARANTINE.value, 0),
        }

    def as_json(self) -> dict[str, Json]:
        """Return the report under the stable keys of docs/reference/json.md."""
        quarantined = {a.memory_id for a in self.plan.actions if a.kind is ActionKind.QUARANTINE}
        return {
            "radius": dict(self.counts),
            "answers": [_answer_json(a, self.blast.path(a.id)) for a in self.answers],
            "members": [
                {
                    "id": m.id,
                    "kind": m.kind.value,
                    "source": m.source,
                    "standing": m.standing.value,
                    "path": list(self.blast.path(m.id)),
                    "is_new": m.id in quarantined,
                }
                for m in self.members.values()
            ],
            "revived": [{"id": m.id, "source": m.source, "doc_id": m.doc_id} for m in self.revived],
            "hearers": [{"id": m.id, "source": m.source, "standing": m.standing.value} for m in self.hearers],
            "documents": [
                {"doc_id": b.document.id, "source": b.document.source, "from": b.document.version, "to": b.version}
                for b in self.backs
                if b.is_changed
            ],
            "notes": list(self.plan.notes),
        }


def surveyed(memories: Memories, wanted: Selection, policy: Policy, now: Instant) -> Radius:
    """Return what rolling back a selection would do now; reads alone.

    Raises:
        InputError: the tenant has nothing of that name.
        LineageCycle: the lineage runs in a circle.
    """
    with memories.ledger.read() as tx:
        return _surveyed(tx, policy.tenant, wanted, policy, now)


def _surveyed(tx: LedgerTx, tenant: str, wanted: Selection, policy: Policy, now: Instant) -> Radius:
    chosen = selected(tx, tenant, wanted)
    reached = blast(chosen.roots, tx.descent.descended(tenant, chosen.roots))
    members = tx.descent.members(tenant, reached.ids)
    backs = _backs(tx, tenant, chosen, members)
    held = [id_ for b in backs if b.is_changed for id_ in b.held]
    back = tx.descent.members(tenant, held)
    past = (Standing.SUPERSEDED, Standing.STAGED)  # a sync may be bringing it back
    revived = [m for m in back.values() if m.standing in past and m.id not in members]
    spared = _spared(tx, backs, members)
    said = retracted(tx, tenant, reached.ids, whole_roots(tx, tenant, wanted))
    taken_back = withdrawals(tx, tenant, said, WITNESS_ROLLED_BACK)
    hearers = tx.descent.members(tenant, [a.memory_id for a in taken_back])
    plan = Plan(
        tenant=tenant,
        job=SweepJob.ROLLBACK,
        policy=policy.hash,
        at=now,
        ledger=_ledger_id(tx),
        actions=(*_actions(reached, members, backs, revived, spared), *taken_back),
        live=sum(c.count for c in tx.memories.counts(tenant) if c.standing is Standing.ACTIVE),
        notes=tuple(_notes(tx, tenant, reached, members)),
    )
    answers = tx.descent.answers(tenant, [id_ for id_ in reached.ids if id_ not in members])
    return Radius(
        plan=plan,
        blast=reached,
        members=members,
        answers=answers,
        backs=backs,
        revived=revived,
        hearers=list(hearers.values()),
    )


def _ledger_id(tx: LedgerTx) -> str:
    own = tx.meta.get(META_KEY)
    return own if isinstance(own, str) else ""


def _backs(tx: LedgerTx, tenant: str, chosen: Selected, members: Mapping[MemoryId, Member]) -> list[Back]:
    """Return the documents that change, or whose content is to be kept out, in order of their ids."""
    ids = {m.doc_id for m in members.values() if m.doc_id is not None} | {*chosen.versions, *chosen.deletions}
    documents, versions = tx.descent.documents(tenant, ids), tx.descent.versions(ids)
    hashes = {h for own in versions.values() for v in own for h in (v.fingerprint.content, v.fingerprint.raw)}
    barred = barred_documents(tx, tenant, hashes)
    found = []
    for id_, document in sorted(documents.items()):
        back = going_back(
            document,
            versions.get(id_, ()),
            members.keys(),
            named=chosen.versions.get(id_, frozenset()),
            barred=barred.keys(),
            is_deletion_back=id_ in chosen.deletions and tx.documents.by_source(tenant, document.source) is None,
        )
        if back.is_changed or any(h not in barred for h in back.hashes):
            found.append(back)
    return found


def _spared(tx: LedgerTx, backs: Iterable[Back], members: Mapping[MemoryId, Member]) -> frozenset[MemoryId]:
    """Return members whose words their document says in a good passage, too: they must not be kept out for that."""
    held = {id_ for b in backs for id_ in b.held if id_ not in members}
    good: dict[DocumentId | None, set[str]] = {}
    for memory in tx.memories.get(held).values():
        good.setdefault(memory.doc_id, set()).add(plain(memory.text))
    suspects = [m.id for m in members.values() if m.doc_id in good]
    return frozenset(m.id for m in tx.memories.get(suspects).values() if plain(m.text) in good[m.doc_id])


def _actions(
    reached: Blast,
    members: Mapping[MemoryId, Member],
    backs: Sequence[Back],
    revived: Sequence[Member],
    spared: frozenset[MemoryId],
) -> list[Action]:
    """Return what is done: document by document, so that old and new change in one transaction; then the rest."""
    quarantined: dict[str, list[Action]] = {}
    for member in members.values():
        if not _is_out(member):
            quarantined.setdefault(member.doc_id or "", []).append(_quarantine(member, reached, spared))
    put_back = {b.document.id: b for b in backs}
    returning: dict[str, list[Member]] = {}
    for member in revived:
        returning.setdefault(member.doc_id or "", []).append(member)
    actions: list[Action] = []
    for doc_id in sorted({*quarantined, *put_back} - {""}):
        back = put_back.get(DocumentId(doc_id))
        actions += quarantined.get(doc_id, [])
        if back is not None:
            actions += [_revive(m, back) for m in returning.get(doc_id, [])]
            actions.append(_document(back))
    return actions + quarantined.get("", [])


def _is_out(member: Member) -> bool:
    """Return whether an earlier rollback has put it into quarantine."""
    said = member.standing_reason.startswith((ROLLED_BACK, DESCENDS))
    return (member.standing is Standing.QUARANTINED and said) or member.standing is Standing.STAGED


def _quarantine(member: Member, reached: Blast, spared: frozenset[MemoryId]) -> Action:
    path = reached.path(member.id)
    is_root = len(path) == 1
    return Action(
        memory_id=member.id,
        kind=ActionKind.QUARANTINE,
        reason=ROOT_CODE if is_root else DESCENT_CODE,
        rev=member.rev,
        detail={
            "said": ROLLED_BACK if is_root else DESCENDS,
            "tombstone": member.kind is not Kind.ANSWER and member.id not in spared,
            "was": member.standing.value,
            "path": list(path),
        },
    )


def _revive(member: Member, back: Back) -> Action:
    return Action(
        memory_id=member.id,
        kind=ActionKind.REVIVE,
        reason=REVIVED_CODE,
        rev=member.rev,
        detail={"doc_id": back.document.id, "version": back.version, "said": SAID_REVIVED, **_stands(back)},
    )


def _stands(back: Back) -> dict[str, Json]:
    """Return which version its document is, as long as nobody changes it."""
    return {"from": back.document.version, "deleted": back.document.deleted_at is not None}


def _document(back: Back) -> Action:
    return Action(
        memory_id="",
        kind=ActionKind.PUT_BACK,
        reason=REVIVED_CODE if back.is_changed and back.version is not None else ROOT_CODE,
        rev=0,
        detail={
            "doc_id": back.document.id,
            "version": back.version,
            **_stands(back),
            "hashes": list(back.hashes),
        },
    )


def _notes(tx: LedgerTx, tenant: str, reached: Blast, members: Mapping[MemoryId, Member]) -> list[str]:
    notes = []
    if vouched := sum(m.verified for m in members.values()):
        notes.append(f"{vouched} of these memories are verified; they are rolled back all the same")
    if foreign := tx.descent.foreign_children(tenant, reached.ids):
        notes.append(f"{foreign} answers or notes of other tenants rest on these memories; they are not touched")
    return notes


def _answer_json(answer: Given, path: Sequence[str]) -> dict[str, Json]:
    scope = answer.scope
    return {
        "answer_id": answer.id,
        "question": excerpt(answer.question),
        "outcome": answer.outcome,
        "created_at": iso(answer.created_at),
        "thread": answer.thread or None,
        "user": scope.user or None,
        "agent": scope.agent or None,
        "conversation": scope.conversation or None,
        "path": list(path),
    }


def excerpt(question: str) -> str:
    """Return the beginning of a question on one line."""
    line = " ".join(question.split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 1] + "…"


def carried_out(
    memories: Memories, wanted: Selection, radius: Radius, *, policy: Policy, actor: str, reason: str = ""
) -> list[Sweep]:
    """Roll back what was surveyed and return the sweeps that did: one, unless somebody wrote meanwhile.

    What moved between the survey and the sweep, or was made from what is bad in between, is looked for again: nothing
    of the blast is left behind. Undoing them takes the last one first.

    Raises:
        Locked: another sweep of the tenant is running.
        LineageCycle: the lineage runs in a circle by now.
    """
    sweeps: list[Sweep] = []
    while radius.plan.actions and len(sweeps) < ROUNDS:
        sweeps.append(apply(memories, radius.plan, policy=policy, actor=actor, reason=reason, allow_mass=True))
        radius = surveyed(memories, wanted, policy, memories.clock.now())
    return sweeps
