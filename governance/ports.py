"""The seams of governance: what an external check is asked and answers, and who else may compare passages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.comparing.sayings import Passed
    from governance.contradict import Comparison
    from kb.model import MemoryId


class Outcome(StrEnum):
    """What an external check found."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOTHING = "nothing"  # it was asked, and nothing decided
    UNASKED = "unasked"  # it could not be asked: as if it had not been tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is to be checked.

    Args:
        memory_id: whose claim it is.
        said: its words, as a passage: a disputed sentence, or the whole memory.
        rival: what another memory says instead; then "contradicted" means that this is borne out. None: anything else.
        not_from: root sources that are no witnesses: the memory's own, and those that it was made from.
        least: share of its words' claims that a page must bear out, in (0, 1].
    """

    memory_id: MemoryId
    said: Passed
    rival: Passed | None = None
    not_from: frozenset[str] = frozenset()
    least: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found of one claim.

    Args:
        outcome: of the check.
        roots: root sources that decided it, sorted, each of another owner; at least two, unless nothing decided.
        urls: pages that decided it.
        problem: why it could not be asked; "" when it was.
    """

    outcome: Outcome
    roots: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    problem: str = ""


class Checker(Protocol):
    """Checks claims against sources outside the store. A decision needs two independent ones that say the same.

    It never raises for a source that is away: the outcome is UNASKED, with the problem.
    """

    def check(self, claims: Sequence[Claim]) -> list[Checked]:
        """Return one result for each claim, in their order."""
        ...


class Comparer(Protocol):
    """Compares two passages as `governance.contradict.compare` does; symmetric."""

    def __call__(self, one: Passed, other: Passed, /) -> Comparison:
        """Return what two passages say of each other."""
        ...
