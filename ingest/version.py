"""A document's next version as changes to memories: pure. What the text keeps, keeps its id and its evidence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.ids import embed_hash, passage_id
from kb.model import FOREVER, Kind, Memory, Passage, Standing
from kb.passages import embed_text
from kb.reputation import REASON, UNKNOWN, Record, reputed
from kb.trust import is_renewal_due, prior, renewed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.blocks import Chunk
    from ingest.prior import DocumentPrior
    from kb.model import Document, Instant, Json, MemoryId, SourceClass, Trust
    from kb.trust import TrustPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """What a new version does.

    Args:
        document: the document after it.
        added: memories with new ids, active.
        changed: known memories after it, each with its next rev: kept with other metadata, or brought back.
        superseded: known memories that the version no longer holds, with their next rev.
        revived: ids in `changed` that were superseded before.
        unchanged: how many memories stay exactly as they are.
        texts: what to embed, by hash.
        reverify: how many verified passages were replaced by unverified words.
        coming: texts that become retrievable with it, though they were not before.
        before: the document that it was made from; None: there was none.
        kept_out: why passages wait in quarantine, or are not stored at all, by their texts.
    """

    document: Document
    added: tuple[Memory, ...]
    changed: tuple[Memory, ...]
    superseded: tuple[Memory, ...]
    revived: frozenset[MemoryId]
    unchanged: int
    texts: Mapping[str, str]
    reverify: int
    coming: frozenset[str] = frozenset()
    before: Document | None = None
    kept_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_switch(self) -> bool:
        """Whether words leave and words come, so that the order of writes matters to who searches meanwhile."""
        return bool(self.superseded) and bool(self.added or self.revived)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What decides a passage's trust in a new version.

    Args:
        prior: of the document now.
        reset: whether the prior is another than before, so that trust starts anew.
        gate: confidence to exceed; tells when a kept passage is due for renewal.
        barred: why texts that come with this version wait in quarantine.
        erased: why texts are not stored at all.
        record: how the source's memories fared: what is new of it is believed accordingly.
    """

    prior: DocumentPrior
    reset: bool
    gate: float
    barred: Mapping[str, str] = field(default_factory=dict)
    erased: Mapping[str, str] = field(default_factory=dict)
    record: Record = UNKNOWN


def next_version(
    document: Document, chunks: Sequence[Chunk], known: Mapping[MemoryId, Memory], rules: Rules, now: Instant
) -> VersionChange:
    """Return the change from a document's known memories to those that its chunks ask for.

    Args:
        document: as it will be, except for `memory_ids`.
        chunks: of the new text, in order.
        known: every memory the document ever had, superseded ones included.
        rules: what decides trust.
        now: the instant of the switch.
    """
    stored = [c for c in chunks if c.text not in rules.erased]
    wanted = _wanted(document, stored, rules.prior, now)
    added, changed, revived, coming = [], [], [], set()
    for memory in wanted.values():
        old = known.get(memory.id)
        if (old is None or old.standing is Standing.SUPERSEDED) and memory.text not in rules.barred:
            coming.add(memory.text)
        if old is None:
            added.append(_barred(reputed(memory, rules.prior.policy, rules.record, now), rules))
            continue
        after = _kept(old, memory, rules, now)
        if after is not None:
            changed.append(after)
        if old.standing is Standing.SUPERSEDED:
            revived.append(old.id)
    lost = [m for m in known.values() if m.id not in wanted and m.valid_to == FOREVER]
    superseded = tuple(ended(m, now, "a newer version replaced it") for m in lost)
    fresh = {m.id for m in (*added, *changed)}
    return VersionChange(
        document=replace(document, memory_ids=tuple(wanted)),
        added=tuple(added),
        changed=tuple(changed),
        superseded=superseded,
        revived=frozenset(revived),
        unchanged=len(wanted) - len(added) - len(changed),
        texts={
            m.embed_hash: embed_text(m.passage.title, m.passage.heading_path, m.text)
            for m in wanted.values()
            if m.id in fresh
        },
        reverify=sum(m.trust.verified for m in lost) if added and not rules.prior.policy.verified else 0,
        coming=frozenset(coming),
        kept_out={c.text: why for c in chunks if (why := _why_out(c.text, rules))},
    )


def _why_out(text: str, rules: Rules) -> str:
    return rules.erased.get(text) or rules.barred.get(text) or ""


def _barred(memory: Memory, rules: Rules) -> Memory:
    """Return a memory that comes with this version; one whose words were rolled back waits for a person."""
    why = rules.barred.get(memory.text)
    return memory if why is None else replace(memory, standing=Standing.QUARANTINED, standing_reason=why)


def ended(memory: Memory, now: Instant, reason: str) -> Memory:
    """Return a memory that its document no longer holds. One in quarantine stays there, should it come back."""
    live = memory.standing is Standing.ACTIVE
    return replace(
        memory,
        standing=Standing.SUPERSEDED if live else memory.standing,
        standing_reason=reason if live else memory.standing_reason,
        valid_to=max(now, memory.valid_from),
        updated_at=now,
        rev=memory.rev + 1,
    )


def _wanted(
    document: Document, chunks: Sequence[Chunk], document_prior: DocumentPrior, now: Instant
) -> dict[MemoryId, Memory]:
    seen: Counter[tuple[tuple[str, ...], str]] = Counter()
    trust = prior(document_prior.policy, now)
    wanted = {}
    for ordinal, chunk in enumerate(chunks):
        key = (chunk.heading_path, chunk.text)
        id_ = passage_id(document.id, chunk.heading_path, chunk.text, occurrence=seen[key])
        seen[key] += 1
        wanted[id_] = Memory(
            id=id_,
            tenant=document.tenant,
            kind=Kind.DOCUMENT,
            source_class=document_prior.source_class,
            source=document.source,
            text=chunk.text,
            trust=trust,
            doc_id=document.id,
            passage=Passage(
                ordinal=ordinal,
                title=document.title,
                heading_path=chunk.heading_path,
                page=chunk.page,
                start=chunk.start,
                end=chunk.end,
            ),
            embed_hash=embed_hash(embed_text(document.title, chunk.heading_path, chunk.text)),
            valid_from=now,
            created_at=now,
            updated_at=now,
            metadata=document_prior.metadata,
        )
    return wanted


def _kept(old: Memory, wanted: Memory, rules: Rules, now: Instant) -> Memory | None:
    """Return the known memory as the new version has it, or None when nothing about it changes."""
    returns = old.valid_to != FOREVER
    standing, reason = old.standing, old.standing_reason
    if standing is Standing.SUPERSEDED:
        why = rules.barred.get(old.text)
        standing, reason = (Standing.ACTIVE, "") if why is None else (Standing.QUARANTINED, why)
    after = replace(
        old,
        source=wanted.source,
        source_class=wanted.source_class,
        passage=wanted.passage,
        embed_hash=wanted.embed_hash,
        metadata=_metadata(old, wanted, rules),
        trust=_trust(old, wanted.trust, rules, now, returns=returns),
        standing=standing,
        standing_reason=reason,
        valid_to=FOREVER,  # its beginning stays, so that the past still has it; the versions know of the gap
    )
    return None if after == old else replace(after, updated_at=now, rev=old.rev + 1)


def _metadata(old: Memory, wanted: Memory, rules: Rules) -> Mapping[str, Json]:
    """Return the new version's metadata; why the memory began with less than its class stays with it."""
    why = None if rules.reset or REASON in wanted.metadata else old.metadata.get(REASON)
    return wanted.metadata if why is None else {**wanted.metadata, REASON: why}


def _trust(old: Memory, fresh: Trust, rules: Rules, now: Instant, *, returns: bool) -> Trust:
    if rules.reset:
        return fresh
    half_life = rules.prior.policy.half_life
    if returns or is_renewal_due(old.trust, rules.gate, now, half_life):
        return renewed(old.trust, now, half_life)
    return old.trust


def due_for_renewal(
    memories: Sequence[Memory], policies: Mapping[SourceClass, TrustPolicy], gate: float, now: Instant
) -> list[Memory]:
    """Return, with their next rev, the active memories of unchanged documents whose time to the gate is half gone.

    What faded away while nobody synced, and is still part of its document, comes back: its source still holds it.
    """
    due = []
    for memory in memories:
        half_life = policies[memory.source_class].half_life
        is_faded = memory.standing is Standing.RETIRED and memory.valid_to == FOREVER
        is_due = memory.standing is Standing.ACTIVE and is_renewal_due(memory.trust, gate, now, half_life)
        if is_faded or is_due:
            trust = renewed(memory.trust, now, half_life)
            back = replace(memory, standing=Standing.ACTIVE, standing_reason="") if is_faded else memory
            due.append(replace(back, trust=trust, updated_at=now, rev=memory.rev + 1))
    return due
