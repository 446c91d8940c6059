"""How a source's memories fared: counted from evidence and standings, by root source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.addresses import host_of, registrable
from kb.history import EvidenceKind
from kb.ledger.checks import checked_key
from kb.ledger.schema import documents, evidence, memories
from kb.model import Kind, Standing
from kb.reputation import Record
from kb.rolled_back import ROLLED_BACK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kb.model import Memory

_M, _E, _D = memories.c, evidence.c, documents.c
_TENANT: sa.BindParameter[str] = sa.bindparam("tenant")
_PIECE = sa.func.coalesce(_M.doc_id, _M.id)  # a document of a hundred passages fared once, not a hundred times
_AGAINST = (EvidenceKind.REJECTION.value, EvidenceKind.CONTRADICTION.value, EvidenceKind.CHECK.value)
_FOR = (EvidenceKind.VERIFICATION.value, EvidenceKind.AGREEMENT.value, EvidenceKind.CHECK.value)
_SAYS = sa.case(
    (sa.and_(_E.kind.in_(_AGAINST), sa.or_(_E.weight < 0, _E.kind == EvidenceKind.REJECTION.value)), -1),
    (sa.and_(_E.kind.in_(_FOR), sa.or_(_E.weight > 0, _E.kind == EvidenceKind.VERIFICATION.value)), 1),
    else_=0,
)
_LATER = evidence.alias("later")
_VOUCHED = sa.exists().where(  # a person has looked since, and takes what was said against it back
    _LATER.c.memory_id == _E.memory_id,
    _LATER.c.tenant == _TENANT,
    _LATER.c.kind == EvidenceKind.VERIFICATION.value,
    _LATER.c.at >= _E.at,
)
_HEARD = (
    sa.select(_PIECE, _SAYS, _M.source)
    .select_from(memories.join(evidence, sa.and_(_E.memory_id == _M.id, _E.tenant == _TENANT)))
    .where(sa.not_(sa.and_(_M.verified, _SAYS < 0, _VOUCHED)))
)
_ROLLED = sa.select(_PIECE, sa.literal(-1), _M.source).where(
    _M.standing == Standing.QUARANTINED.value, _M.standing_reason.startswith(ROLLED_BACK, autoescape=True)
)


class Reputation:
    """The reputations of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def of_root(self, tenant: str, root: str) -> Record:
        """Return how the documents of a source root fared."""
        named = {"tenant": checked_key(tenant, "tenant"), "root": checked_key(root, "root")}
        joined = sa.and_(_D.root == sa.bindparam("root"), _D.tenant == _TENANT)
        queries = [q.join(documents, sa.and_(_D.id == _M.doc_id, joined)) for q in (_HEARD, _ROLLED)]
        return _counted((row[0], row[1]) for query in queries for row in self._connection.execute(query, named))

    def of_hosts(self, tenant: str, hosts: Iterable[str]) -> Mapping[str, Record]:
        """Return how the web findings of each host fared; hosts are given as `kb.addresses.registrable` names them."""
        wanted = frozenset(hosts)
        found: dict[str, list[tuple[str, int]]] = {host: [] for host in wanted}
        if not wanted:
            return {}
        own = (_M.tenant == _TENANT, _M.kind == Kind.WEB.value)
        for query in (_HEARD.where(*own), _ROLLED.where(*own)):
            for piece, says, source in self._connection.execute(query, {"tenant": checked_key(tenant, "tenant")}):
                if (host := registrable(host_of(source))) in wanted:
                    found[host].append((piece, says))
        return {host: _counted(rows) for host, rows in found.items()}

    def of_author(self, memory: Memory) -> Record:
        """Return how the notes of a note's author fared: those of its class, agent and user."""
        own = (
            _M.tenant == _TENANT,
            _M.kind == Kind.NOTE.value,
            _M.source_class == memory.source_class.value,
            _M.scope_agent == memory.scope.agent,
            _M.scope_user == memory.scope.user,
        )
        rows = [
            (row[0], row[1])
            for query in (_HEARD.where(*own), _ROLLED.where(*own))
            for row in self._connection.execute(query, {"tenant": checked_key(memory.tenant, "tenant")})
        ]
        return _counted(rows)


def _counted(rows: Iterable[tuple[str, int]]) -> Record:
    """Return the record: a piece that was spoken against counts against, whatever else was said of it.

    But a memory that a person verifies afterwards is cleared of what was said against it before.
    """
    good: set[str] = set()
    bad: set[str] = set()
    for piece, says in rows:
        if says:
            (good if says > 0 else bad).add(piece)
    return Record(good=len(good - bad), bad=len(bad))
