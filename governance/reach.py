"""What an erasure is asked to take, what it would take, and what all its rounds took together. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from governance.plan import Plan
    from governance.selection import Selection
    from kb.erased import Words
    from kb.ledger.descent import Given, Member
    from kb.model import DocumentId, Json, MemoryId


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
        words: what is not to be found any more; never shown, never kept.
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


def _staying(gone: Collection[MemoryId], *found: Sequence[Member]) -> list[Member]:
    return list({m.id: m for own in found for m in own if m.id not in gone}.values())


def _member_json(member: Member) -> dict[str, Json]:
    return {"id": member.id, "kind": member.kind.value, "standing": member.standing.value, "doc_id": member.doc_id}
