"""Who decides: a person may vouch for a memory, an agent never."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kb.errors import InputError, Refused

NAME_BYTES = 128


class Role(StrEnum):
    """What kind of actor it is."""

    PERSON = "person"
    AGENT = "agent"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who sets a sweep off.

    Args:
        name: at most 128 bytes; stands in the journal and as the witness of a verification.
        role: person, agent or daemon.
    """

    name: str
    role: Role = Role.PERSON

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError("a decision needs the name of who makes it", hint="say it with --by NAME")
        if len(self.name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
            raise InputError(f"the name of who decides is longer than {NAME_BYTES} bytes")


def vouching(actor: Actor, what: str) -> Actor:
    """Return the actor, who must be a person.

    Raises:
        Refused: an agent or a daemon would decide what only a person may.
    """
    if actor.role is not Role.PERSON:
        raise Refused(
            f"{actor.role.value} {actor.name!r} may not {what} a memory: only a person vouches",
            hint="an agent can add notes and feedback; its notes wait for corroboration or verification",
        )
    return actor
