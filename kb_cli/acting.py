"""Who runs a command: a person, or an agent whose shell says so. What only a person may decide, an agent is refused."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from governance.actor import Actor

ROLE_VARIABLE = "KB_ROLE"


class RoleOption(StrEnum):
    """What kind of actor decides."""

    PERSON = "person"
    AGENT = "agent"


def is_agent() -> bool:
    """Return whether this shell is an agent's: KB_ROLE=agent is set in it, and no flag takes that back.

    Raises:
        InputError: KB_ROLE says neither; to take that for a person would let an agent decide after a slip of the pen.
    """
    from kb.errors import InputError

    said = os.environ.get(ROLE_VARIABLE, "").strip().lower() or RoleOption.PERSON.value
    roles = [role.value for role in RoleOption]
    if said not in roles:
        known = " or ".join(roles)
        raise InputError(f"{ROLE_VARIABLE} is {said!r}; it must be {known}", hint=f"unset it, or set it to {known}")
    return said == RoleOption.AGENT.value


def actor_of(by: str | None, role: RoleOption = RoleOption.PERSON) -> Actor:
    """Return who runs this command. Where KB_ROLE=agent is set, as it should be for an agent's shell, it is an agent.

    Raises:
        InputError: the name is empty or too long.
    """
    from governance.actor import Actor, Role

    return Actor(name=user_name() if by is None else by, role=Role.AGENT if is_agent() else Role(role.value))


def acting(by: str | None, what: str, role: RoleOption = RoleOption.PERSON) -> Actor:
    """Return who runs this command, who must be a person.

    Args:
        by: name that was given, if any.
        what: is done to memories, as `erase`.
        role: that was given.

    Raises:
        Refused: it is an agent.
        InputError: the name is empty or too long.
    """
    from governance.actor import vouching

    return vouching(actor_of(by, role), what)


def refuse_agents(what: str, why: str, hint: str = "") -> None:
    """Let nobody do what only people and their jobs do whose shell is an agent's.

    Args:
        what: would be done, as `ingest documents`.
        why: no agent may.
        hint: what the agent can do instead.

    Raises:
        Refused: it is an agent's.
    """
    from kb.errors import Refused

    if is_agent():
        raise Refused(f"an agent may not {what}: {why}", hint=hint)


def refuse_agents_care(what: str) -> None:
    """Leave the care of the whole store to who runs it.

    Args:
        what: would be done, as `rebuild the index`.

    Raises:
        Refused: it is an agent's shell.
    """
    refuse_agents(what, "a person takes care of the store", "`kb status` and `kb doctor` tell how it is")


def user_name() -> str:
    """Return who runs this command, as far as the machine knows."""
    return os.environ.get("KB_USER") or os.environ.get("USER") or os.environ.get("LOGNAME") or "cli"
