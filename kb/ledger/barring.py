"""Which texts and documents must not come back as they are: a look among the tombstones, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kb.erased import is_spoken
from kb.ledger.tombstones import SALT
from kb.rolled_back import gravest
from kb.sweeps import TombstoneKind
from kb.telling import bodies, marks, telling_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kb.ledger.ledger import LedgerTx
    from kb.sweeps import Tombstone


class Bar(NamedTuple):
    """What keeps a text out: the tombstone that decides, and whether it covers all that the text says."""

    tombstone: Tombstone
    is_whole: bool


def barred_texts(tx: LedgerTx, tenant: str, texts: Iterable[str], *, spoken: str = "") -> dict[str, Bar]:
    """Return the texts that a tombstone stands for, wholly, or by a telling paragraph or an erased sentence.

    Where nothing was ever rolled back or erased this costs one read, whatever the number of texts.

    Args:
        tx: where tombstones are.
        tenant: whose.
        texts: that come.
        spoken: what the same document says in good passages already (see `kb.erased.spoken_by`): a piece that stands
            in one of them word for word is no news. That all its long sentences do is not enough: what sets it apart
            may be a name in a heading, or a number in a short sentence.
    """
    if tx.meta.get(SALT) is None:
        return {}
    pieces = {text: [m for m in marks(text) if not is_spoken(m, spoken)] for text in dict.fromkeys(texts)}
    said = {text: [s for s in telling_sentences(text) if not is_spoken(s, spoken)] for text in pieces}
    looked_up = (m for text, own in pieces.items() for m in (*own, *said[text]))
    known = tx.tombstones.among(tenant, TombstoneKind.TEXT, looked_up)
    found: dict[str, Bar] = {}
    for text, own in pieces.items():
        again = [s for s in said[text] if s in known]
        if 2 * len(again) < len(said[text]):  # a sentence or two of what was rolled back may stand anywhere
            again = [s for s in again if known[s].is_erased]
        tombstone = gravest([known[m] for m in (*own, *again) if m in known])
        if tombstone is not None:
            found[text] = Bar(tombstone, _is_whole(text, own, said[text], known))
    return found


def _is_whole(text: str, own: list[str], said: list[str], known: Mapping[str, Tombstone]) -> bool:
    """Return whether a text says nothing but what tombstones stand for."""
    parts = [{body.text, *body.set_apart()}.intersection(own) for body in bodies(text)]
    if text in known or (any(parts) and all(p & known.keys() for p in parts if p)):
        return True
    return bool(said) and all(s in known and known[s].is_erased for s in said)


def barred_documents(tx: LedgerTx, tenant: str, hashes: Iterable[str]) -> dict[str, Tombstone]:
    """Return the documents, by the hashes of their bytes or of what they say, that a tombstone stands for."""
    return tx.tombstones.among(tenant, TombstoneKind.DOCUMENT, [h for h in hashes if h])
