"""API keys: who calls, for which tenant, and what they may do. Pure; a secret is shown once and only its hash kept.

A key reads `kb_<id>_<secret>`: the id finds the row, the secret (256 random bits) is compared by its SHA-256 in
constant time. So much randomness needs no slow hash: it cannot be guessed, and a stolen table gives no key away.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.model import Instant

PREFIX = "kb_"
SHAPE = re.compile(r"kb_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
NAME_BYTES = 128


class KeyScope(StrEnum):
    """What a key may do; each alone, none contains another."""

    QUERY = "query"  # ask, search, read memories
    WRITE = "write"  # notes, feedback, documents
    GOVERN = "govern"  # verify, reject, sweeps, rollback


class Holder(StrEnum):
    """Who holds a key. What an agent says is never a person's word, whatever its key may do."""

    PERSON = "person"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key, without its secret.

    Args:
        id: 16 hexadecimal digits.
        tenant: the only one it may touch.
        name: who it is for; stands in the journal as the actor.
        scopes: what it may do.
        holder: a person or an agent.
        secret_hash: SHA-256 of the secret, hexadecimal.
        created_at: when it was made.
        expires_at: from when it is void; None: never.
        revoked_at: since when it is void; None: it is not.
        used_at: when it was last used, to the minute; None: never.
        logouts: how often its holder logged out: what was logged in before the last time is void. Not a time, since
            clocks of servers differ and a millisecond holds more than one login.
    """

    id: str
    tenant: str
    name: str
    scopes: frozenset[KeyScope]
    holder: Holder
    secret_hash: str = field(repr=False)
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    used_at: Instant | None = None
    logouts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Whoever a request was found to come from."""

    key_id: str  # "" where no key is asked for: on loopback, by the operator's choice
    name: str
    tenant: str
    scopes: frozenset[KeyScope]
    holder: Holder

    def may(self, scope: KeyScope) -> bool:
        """Return whether the scope is among those given."""
        return scope in self.scopes


def minted(
    name: str,
    tenant: str,
    scopes: Iterable[KeyScope],
    holder: Holder,
    now: Instant,
    *,
    expires_at: Instant | None = None,
) -> tuple[ApiKey, str]:
    """Return a new key and its whole text, which nothing keeps.

    Raises:
        InputError: no name, no scope, an agent that would govern, or an end that has passed.
    """
    given = frozenset(scopes)
    if not name.strip() or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        raise InputError(f"a key needs a name of at most {NAME_BYTES} bytes: it stands in the journal")
    if not tenant.strip():
        raise InputError("a key belongs to a tenant")
    if not given:
        raise InputError("a key needs a scope", hint="query, write, govern")
    if holder is Holder.AGENT and KeyScope.GOVERN in given:
        raise InputError("an agent's key may not govern: only a person vouches", hint="give it query and write")
    if expires_at is not None and expires_at <= now:
        raise InputError("the key would have expired already")
    id_, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    key = ApiKey(
        id=id_,
        tenant=tenant,
        name=name.strip(),
        scopes=given,
        holder=holder,
        secret_hash=hashed(secret),
        created_at=now,
        expires_at=expires_at,
    )
    return key, f"{PREFIX}{id_}_{secret}"


def parts_of(text: str) -> tuple[str, str] | None:
    """Return a key's id and secret; None when the text is no key."""
    found = SHAPE.fullmatch(text)
    return None if found is None else (found[1], found[2])


def hashed(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def opens(key: ApiKey, secret: str, now: Instant) -> bool:
    """Return whether a secret is the key's, and the key is neither revoked nor expired."""
    return hmac.compare_digest(key.secret_hash, hashed(secret)) and is_live(key, now)


def is_live(key: ApiKey, now: Instant) -> bool:
    """Return whether a key is neither revoked nor expired."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


def principal_of(key: ApiKey) -> Principal:
    """Return whom a key stands for."""
    return Principal(key_id=key.id, name=key.name, tenant=key.tenant, scopes=key.scopes, holder=key.holder)
