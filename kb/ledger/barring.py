"""Which texts and documents must not come back as they are: a look among the tombstones, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kb.erased import telling_sentences
from kb.ledger.tombstones import SALT
from kb.rolled_back import gravest, marks, sayings
from kb.sweeps import TombstoneKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kb.ledger.ledger import LedgerTx
    from kb.sweeps import Tombstone


class Bar(NamedTuple):
    """What keeps a text out: the tombstone that decides, and whether it covers all that the text says."""

    tombstone: Tombstone
    is_whole: bool


def barred_texts(
    tx: LedgerTx, tenant: str, texts: Iterable[str], *, said: frozenset[str] = frozenset()
) -> dict[str, Bar]:
    """Return the texts that a tombstone stands for, wholly, or by a telling paragraph or an erased sentence.

    Where nothing was ever rolled back or erased this costs one read, whatever the number of texts.

    Args:
        tx: where tombstones are.
        tenant: whose.
        texts: that come.
        said: sentences (see `kb.rolled_back.sayings`) that the same document says in good passages already: a piece
            of nothing but these is no news.
    """
    if tx.meta.get(SALT) is None:
        return {}
    pieces = {text: [m for m in marks(text) if not _is_said(m, said)] for text in dict.fromkeys(texts)}
    spoken = {text: [s for s in telling_sentences(text) if not _is_said(s, said)] for text in pieces}
    looked_up = (m for text, own in pieces.items() for m in (*own, *spoken[text]))
    known = tx.tombstones.among(tenant, TombstoneKind.TEXT, looked_up)
    found: dict[str, Bar] = {}
    for text, own in pieces.items():
        again = [s for s in spoken[text] if s in known and known[s].is_erased]
        tombstone = gravest([known[m] for m in (*own, *again) if m in known])
        if tombstone is not None:
            found[text] = Bar(tombstone, _is_whole(text, own, spoken[text], known))
    return found


def _is_whole(text: str, own: list[str], spoken: list[str], known: Mapping[str, Tombstone]) -> bool:
    """Return whether a text says nothing but what tombstones stand for."""
    parts = [m for m in own if m != text]
    if text in known or (parts and all(m in known for m in parts)):
        return True
    return bool(spoken) and all(s in known and known[s].is_erased for s in spoken)


def barred_documents(tx: LedgerTx, tenant: str, hashes: Iterable[str]) -> dict[str, Tombstone]:
    """Return the documents, by the hashes of their bytes or of what they say, that a tombstone stands for."""
    return tx.tombstones.among(tenant, TombstoneKind.DOCUMENT, [h for h in hashes if h])


def _is_said(piece: str, said: frozenset[str]) -> bool:
    own = sayings(piece) if said else frozenset()
    return bool(own) and own <= said
