"""What of a document was rolled back or erased before, and so must not come back with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.erased import spoken_by
from kb.ledger.barring import barred_documents, barred_texts
from kb.model import Standing
from kb.rolled_back import is_rolled_back, why_barred
from kb.telling import sayings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ingest.version import VersionChange
    from kb.ledger.ledger import LedgerTx
    from kb.model import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A document that is passed over whole, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """What keeps passages of one document out.

    Args:
        barred: why texts wait in quarantine.
        erased: why texts are not stored at all.
        whole: those of the texts that say nothing else.
    """

    barred: Mapping[str, str] = field(default_factory=dict)
    erased: Mapping[str, str] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()


def skipped_by_hash(tx: LedgerTx, tenant: str, hashes: Collection[str]) -> dict[str, Skipped]:
    """Return, by hash of bytes or content, the documents that were rolled back as a whole."""
    return {h: Skipped(reason=why_barred(t)) for h, t in barred_documents(tx, tenant, hashes).items()}


def kept_out(tx: LedgerTx, tenant: str, texts: Sequence[str], known: Collection[Memory]) -> KeptOut:
    """Return what keeps texts of a document out.

    Args:
        tx: where tombstones are.
        tenant: whose.
        texts: passages of the new version.
        known: every memory the document ever had. What it says in an active one is no news; of what was rolled back
            even one sentence keeps a passage out, wherever passages are cut by now.
    """
    at_first, bad_before = barred_texts(tx, tenant, texts), [m for m in known if is_rolled_back(m)]
    if not at_first and not bad_before:
        return KeptOut()
    good = [m.text for m in known if m.standing is Standing.ACTIVE]
    said = frozenset(s for text in good for s in sayings(text))
    bars = barred_texts(tx, tenant, at_first, spoken=spoken_by(good))
    barred = {text: why_barred(b.tombstone) for text, b in bars.items() if not b.tombstone.is_erased}
    erased = {text: why_barred(b.tombstone) for text, b in bars.items() if b.tombstone.is_erased}
    bad = [(sayings(m.text) - said, m.standing_reason) for m in bad_before]
    for text in texts if bad else ():
        own = sayings(text)
        why = next((reason for saying, reason in bad if saying & own), None)
        if why is not None and text not in erased:
            barred.setdefault(text, why)
    return KeptOut(
        barred=barred,
        erased=erased,
        whole=frozenset(t for t, b in bars.items() if b.is_whole),
    )


def skipped_whole(texts: Sequence[str], out: KeptOut, change: VersionChange) -> Skipped | None:
    """Return why a version is passed over: it holds nothing else, or would replace good passages by nothing else."""
    why = next((out.erased.get(t) or out.barred.get(t) or "" for t in texts), "")
    if texts and all(t in out.whole or t in out.erased for t in texts):
        return Skipped(reason=why)
    if change.superseded and change.kept_out and not change.coming:
        why = next(iter(change.kept_out.values()))
        return Skipped(reason=f"all that is new in it was {why}")
    return None
