"""Logins: a signed cookie that names a key and when it was given; the key itself is looked up with every request.

The cookie is worth nothing once its key is revoked or expired, its holder has logged out, or its time is over. Every
form carries a token that is made from the same cookie, so that no other site's form is taken for one of ours.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.model import Instant

HOUR_MS = 3_600_000
AHEAD_MS = 60_000  # that the clock of another server of the same name may be before ours
PARTS = 5
DIGITS = 16  # of a number in a cookie; more are nobody's


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One login.

    Args:
        key_id: of the key that it was made with; "" where no key is asked for.
        since: when.
        logouts: how often the key's holder had logged out before; a session is over when there are more.
        nonce: 128 random bits, hexadecimal.
    """

    key_id: str
    since: Instant
    logouts: int
    nonce: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Signs sessions; what another secret signed is nothing.

    Args:
        secret: shared by the servers of one name, else each server's own, and then gone with it.
        hours: how long a login lasts.
    """

    secret: bytes
    hours: float

    def begun(self, key_id: str, now: Instant, *, logouts: int = 0) -> tuple[Session, str]:
        """Return a new session and its cookie."""
        session = Session(key_id=key_id, since=now, logouts=logouts, nonce=secrets.token_hex(16))
        return session, ".".join((*_fields(session), self._mac("session", session)))

    def session(self, cookie: str, now: Instant) -> Session | None:
        """Return the session of a cookie; None when it is forged, malformed or over."""
        parts = cookie.split(".")
        if len(parts) != PARTS or not all(map(_is_number, parts[1:3])):
            return None
        session = Session(key_id=parts[0], since=int(parts[1]), logouts=int(parts[2]), nonce=parts[3])
        is_ours = hmac.compare_digest(self._mac("session", session).encode(), parts[4].encode())
        is_over = not -AHEAD_MS <= now - session.since < self.hours * HOUR_MS
        return session if is_ours and not is_over else None

    def token(self, session: Session) -> str:
        """Return what a form of this session must carry."""
        return self._mac("form", session)

    def is_token(self, session: Session, given: str) -> bool:
        """Return whether a form is this session's."""
        return hmac.compare_digest(self.token(session).encode(), given.encode())

    def _mac(self, use: str, session: Session) -> str:
        said = "|".join((use, *_fields(session))).encode()
        return hmac.new(self.secret, said, hashlib.sha256).hexdigest()


def signer_of(secret: str | None, hours: float) -> Signer:
    """Return a signer with the configured secret, or with one of its own."""
    own = secrets.token_bytes(32) if secret is None else hashlib.sha256(secret.encode()).digest()
    return Signer(secret=own, hours=hours)


def _fields(session: Session) -> tuple[str, str, str, str]:
    return (session.key_id, str(session.since), str(session.logouts), session.nonce)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS
