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
    """Return whether this shell is an agent's: KB_ROLE=agent is set in it, and no flag takes that back."""
    return os.environ.get(ROLE_VARIABLE, "").strip().lower() == RoleOption.AGENT.value


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


def user_name() -> str:
    """Return who runs this command, as far as the machine knows."""
    return os.environ.get("KB_USER") or os.environ.get("USER") or os.environ.get("LOGNAME") or "cli"
