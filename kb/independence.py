"""Whether two pieces of evidence are two witnesses or one heard twice: pure.

Independent means another root source and no common lineage. An echo is never a second witness: the runtime's own
answers and what was derived from them, two passages of one document, two pages of one host, two notes of one author.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

from kb.addresses import host_of, registrable
from kb.model import Kind, SourceClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Memory

SEARCH = "search://"  # ancestors that are searches: how a page was met, not what it was made from
ROOT = "root://"  # ancestors that are root sources: a note from one page of a host is no second witness of another page
_ROOT_BYTES = 200  # of a root source's name; a longer one is told by its beginning and its digest
_WEB = ("http://", "https://")


class Witness(Protocol):
    """What is said, by whom, and where it was read."""

    @property
    def id(self) -> str:
        """Of the memory."""
        ...

    @property
    def source_class(self) -> SourceClass:
        """Of the memory."""
        ...

    @property
    def root(self) -> str:
        """Root source, see `root_of`; "" for no witness."""
        ...

    @property
    def doc_id(self) -> str | None:
        """Document it was read in, if any."""
        ...


def root_of(memory: Memory, root_name: str | None = None) -> str:
    """Return the root source of a memory; "" for one that is no witness at all, as an answer.

    Args:
        memory: of any kind.
        root_name: name of the source root that a document was read from; None to take it from its URI.
    """
    match memory.kind:
        case Kind.ANSWER:
            return ""
        case Kind.WEB:
            return registrable(host_of(memory.source))
        case Kind.NOTE:
            return _note_root(memory)
        case Kind.DOCUMENT:
            return root_name or _document_root(memory.source)


def independent(a: Witness, b: Witness, ancestors: Mapping[str, frozenset[str]]) -> bool:
    """Return whether `a` and `b` are two witnesses. Symmetric; nothing is independent of itself.

    Args:
        a: one.
        b: the other.
        ancestors: by id, all that a memory was derived from, transitively; ids that are absent have none.
    """
    if SourceClass.ANSWER in (a.source_class, b.source_class) or not a.root or not b.root or a.root == b.root:
        return False
    if a.id == b.id or (a.doc_id and a.doc_id == b.doc_id):
        return False
    return not _line(a, ancestors) & _line(b, ancestors)


def root_mark(root: str) -> str:
    """Return a root source as an ancestor, `root://name`, short enough for a step of lineage."""
    data = root.encode("utf-8", "replace")
    if len(data) <= _ROOT_BYTES:
        return f"{ROOT}{root}"
    return f"{ROOT}{data[:_ROOT_BYTES].decode(errors='ignore')}~{hashlib.sha256(data).hexdigest()[:16]}"


def _line(witness: Witness, ancestors: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return a witness, the root source it was read in, and all it was made from."""
    made_from = ancestors.get(witness.id, frozenset())
    own = {witness.id, root_mark(witness.root)}
    return frozenset(id_ for id_ in made_from if not id_.startswith(SEARCH)) | own


def _note_root(memory: Memory) -> str:
    """Return what sort of author a note has, or the host it restates: who credits a page is no second witness of it.

    A scope says who may read a note, not who wrote it. Who hears two notes of people sees both, so that one of them is
    shared, or both are of one scope; whether one hand wrote them cannot be told, and so they are one witness.
    """
    if memory.source.startswith(_WEB) and (host := host_of(memory.source)):
        return registrable(host)
    return f"note:{memory.source_class.value}"


def _document_root(source: str) -> str:
    """Return `root` of `scheme://root/relative/path`; a document from the web has its host's."""
    if source.startswith(_WEB):
        return registrable(host_of(source))
    _, _, rest = source.partition("://")
    return rest.partition("/")[0]
