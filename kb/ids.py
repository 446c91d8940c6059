"""Identities, made only here, from content: the same text in the same document has the same id on every machine."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import TYPE_CHECKING

from kb.model import DocumentId, MemoryId

if TYPE_CHECKING:
    from kb.model import Scope, SourceClass

ID_LENGTH = 32  # hex characters: 128 bits


def digest(*parts: str) -> str:
    """Return the sha256 (hex) of `parts`, length-prefixed so that ("ab", "c") and ("a", "bc") differ."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(8, "big"))
        h.update(data)
    return h.hexdigest()


def raw_digest(data: bytes) -> str:
    """Return the sha256 (hex) of a file's bytes."""
    return hashlib.sha256(data).hexdigest()


def document_id(tenant: str, source: str, *, birth: int = 0) -> DocumentId:
    """Return the id of the document first seen at `source`.

    Args:
        tenant: the tenant.
        source: canonical URI at first sight; a later rename keeps the id.
        birth: how many documents were born at this URI before (each moved away since).
    """
    return DocumentId(digest("document", tenant, source, str(birth))[:ID_LENGTH])


def passage_id(doc_id: DocumentId, heading_path: tuple[str, ...], text: str, *, occurrence: int = 0) -> MemoryId:
    """Return the id of a document's passage: from content only, so edits elsewhere in the file keep it.

    Args:
        doc_id: the document.
        heading_path: headings above the passage; the same words under another heading are another claim.
        text: verbatim body.
        occurrence: how many equal passages (same path and text) stand before it.
    """
    path = "\x1f".join(heading_path)
    return MemoryId(digest("passage", doc_id, path, text, str(occurrence))[:ID_LENGTH])


def note_id(tenant: str, source: str, text: str, *, by: SourceClass, scope: Scope) -> MemoryId:
    """Return the id of a note: the same note twice is one memory; another author's or another scope's is another.

    Args:
        tenant: the tenant.
        source: URI it is credited to.
        text: verbatim.
        by: kind of its author, so that what an agent says first never stands for what a person says.
        scope: whose it is, so that nobody's note is hidden by one that they may not see.
    """
    parts = (tenant, by.value, source, scope.agent, scope.user, scope.conversation, text)
    return MemoryId(digest("note", *parts)[:ID_LENGTH])


def answer_key_id(tenant: str, question: str, *, scope: Scope) -> MemoryId:
    """Return the id of the key memory of an answered question: the same question in one scope has one key.

    Args:
        tenant: the tenant.
        question: self-contained and normalised.
        scope: whose it is.
    """
    parts = (tenant, scope.agent, scope.user, scope.conversation, question)
    return MemoryId(digest("answer-key", *parts)[:ID_LENGTH])


def web_id(tenant: str, url: str, text: str, scope: Scope) -> MemoryId:
    """Return the id of a web finding: the same words at the same address are one memory, other words another claim.

    Args:
        tenant: the tenant.
        url: canonical address.
        text: as it is kept.
        scope: whose it is, so that what one user searched for is not hidden by, nor shown to, another.
    """
    parts = (tenant, url, scope.agent, scope.user, scope.conversation, text)
    return MemoryId(digest("web", *parts)[:ID_LENGTH])


def embed_hash(embed_text: str) -> str:
    """Return the embedding cache's key for a text."""
    return digest("embed", embed_text)


def canonical_source(scheme: str, root: str, relative: str) -> str:
    """Return `scheme://root/relative` in NFC with forward slashes: one spelling on every machine."""
    return unicodedata.normalize("NFC", f"{scheme}://{root}/{relative}".replace("\\", "/"))
