"""What an erasure is asked to take, what it would take, and what all its rounds took together. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.model import FOREVER, Standing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from governance.plan import Plan
    from governance.selection import Selection
    from kb.erased import Words
    from kb.history import Edge
    from kb.ledger.descent import Given, Member
    from kb.model import DocumentId, Json, Memory, MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be forgotten.

    Args:
        selection: memories or answers by id, or a source.
        with_derived: also what was written from it.
        with_copies: also other memories that say one of its sentences.
    """

    selection: Selection
    with_derived: bool = False
    with_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What an erasure takes, and what it leaves.

    Args:
        plan: what is done.
        members: memories that go, by id.
        documents: addresses of the documents that go as a whole, by id.
        answers: answers of the tenant that go, newest first.
        other_answers: ids of other tenants' answers that go.
        keys: answer-keys that go with them.
        derived: memories that were written from it, and stay.
        copies: memories that say the same, and stay.
        collected: memories of which gc has left traces alone; these go.
        roots: names of the sources that its documents belong to.
        hashes: of embedded texts whose vectors go.
        counts: rows that are there now, by table.
        own: those of the members that were asked for, by name or as written from these; the others are copies.
        named: what these say. Never shown, never kept; nor are `words`.
        words: what all that goes says.
    """

    plan: Plan
    members: Mapping[MemoryId, Member]
    documents: Mapping[DocumentId, str]
    answers: Sequence[Given]
    other_answers: Sequence[str]
    keys: Sequence[MemoryId]
    derived: Sequence[Member]
    copies: Sequence[Member]
    collected: Sequence[MemoryId]
    roots: Sequence[str]
    hashes: Sequence[str]
    counts: Mapping[str, int]
    own: frozenset[str]
    named: Words = field(repr=False)
    words: Words = field(repr=False)

    def as_json(self) -> dict[str, Json]:
        """Return the report under the stable keys of docs/reference/json.md; no text of a memory is in it."""
        return {
            "memories": [_member_json(m) for m in self.members.values()],
            "collected": list(self.collected),
            "documents": [{"doc_id": id_, "source": source} for id_, source in self.documents.items()],
            "answers": [{"id": a.id, "created_at": a.created_at, "outcome": a.outcome} for a in self.answers],
            "answers_of_other_tenants": list(self.other_answers),
            "answer_keys": list(self.keys),
            "derived_not_erased": [_member_json(m) for m in self.derived],
            "copies_not_erased": [_member_json(m) for m in self.copies],
            "rows": dict(self.counts),
        }


def exceeds(reach: Reach, shown: Reach) -> bool:
    """Return whether an erasure takes memories or documents that were not in what somebody has consented to.

    Answers may be more: those that rest on it are given while a person thinks, and must go with it.
    """
    is_more = reach.members.keys() - {*shown.members, *shown.collected}
    return bool(is_more or reach.documents.keys() - shown.documents.keys())


def may_never_come(memory: Member | Memory) -> bool:
    """Return whether a memory is staged for a version that may not be switched in: it would go then, and be no copy.

    What is staged to come back, and was replaced before, is there in any case.
    """
    return memory.standing is Standing.STAGED and memory.valid_to == FOREVER


def joined(reach: Reach, later: Reach) -> Reach:
    """Return the reach with what a later round took: all of it is gone, and what stays is told of. Plans stay apart."""
    members = {**reach.members, **later.members}
    answers = {a.id: a for a in (*reach.answers, *later.answers)}
    return replace(
        reach,
        members=members,
        documents={**reach.documents, **later.documents},
        answers=sorted(answers.values(), key=lambda a: (-a.created_at, a.id)),
        other_answers=sorted({*reach.other_answers, *later.other_answers}),
        keys=sorted({*reach.keys, *later.keys}),
        derived=_staying(members, reach.derived, later.derived),
        copies=_staying(members, reach.copies, later.copies),
        collected=sorted({*reach.collected, *later.collected}),
        roots=sorted({*reach.roots, *later.roots}),
        hashes=sorted({*reach.hashes, *later.hashes}),
        words=reach.words | later.words,
    )


def reachable(steps: Iterable[Edge]) -> dict[str, set[str]]:
    """Return all that was written from each parent, however far."""
    children: dict[str, set[str]] = {}
    for step in steps:
        children.setdefault(step.parent, set()).add(step.child)
    found: dict[str, set[str]] = {}
    for parent in children:
        own, level = set[str](), {parent}
        while level := {c for p in level for c in children.get(p, ())} - own:
            own |= level
        found[parent] = own - {parent}
    return found


def _staying(gone: Collection[MemoryId], *found: Sequence[Member]) -> list[Member]:
    return list({m.id: m for own in found for m in own if m.id not in gone}.values())


def _member_json(member: Member) -> dict[str, Json]:
    return {"id": member.id, "kind": member.kind.value, "standing": member.standing.value, "doc_id": member.doc_id}
