"""Effects: what each kind of action does to rows. One function a kind, changing them through a `Writer` alone.

Every module here exports its own `EFFECTS`; a kind that two of them know is done by the one assembled later.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from governance.effects import checked, contested, decided, erased, plain, rolled, withdrawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from governance.policy import Policy
    from governance.writer import Writer
    from kb.model import Instant, Memory
    from kb.sweeps import Action, ActionKind, Sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What an effect knows beside its action.

    Args:
        sweep: that it is part of.
        policy: of the tenant.
        now: when the sweep began, the same for all its actions, also of one that was interrupted and went on later:
            so it ends as it would have ended. A row's own instant of change is the writer's, and real.
    """

    sweep: Sweep
    policy: Policy
    now: Instant


class Effect(Protocol):
    """What one kind of action does."""

    def __call__(self, writer: Writer, memory: Memory | None, action: Action, occasion: Occasion, /) -> str:
        """Do it.

        Args:
            writer: changes rows, and keeps their images.
            memory: as it is stored, at the revision that was planned for; None for an action on a document.
            action: what was planned.
            occasion: of the sweep.

        Returns:
            "" when it was applied, else why it was not; then nothing must have been written.
        """
        ...


EFFECTS: Mapping[ActionKind, Effect] = MappingProxyType(
    {
        **plain.EFFECTS,
        **decided.EFFECTS,
        **rolled.EFFECTS,
        **contested.EFFECTS,
        **checked.EFFECTS,
        **withdrawn.EFFECTS,
        **erased.EFFECTS,
    }
)
