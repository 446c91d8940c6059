"""The reader: the same for every policy, without a model and without labels. Passages vote, the nearer the louder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.pollution.world import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.pollution.world import Fact


def read(fact: Fact, passages: Sequence[str]) -> str | None:
    """Return the value that the passages give by votes of 1/rank: "true", "false", or None when none gives any.

    Equal votes go to the value of the first passage that gives one.
    """
    votes: dict[str, float] = {}
    for rank, text in enumerate(passages, 1):
        if (value := value_of(text, fact)) is not None:
            votes[value] = votes.get(value, 0.0) + 1 / rank
    return max(votes, key=votes.__getitem__) if votes else None


def read_first(fact: Fact, passages: Sequence[str]) -> str | None:
    """Return the value of the first passage that gives one: the sensitivity check."""
    return next((v for text in passages if (v := value_of(text, fact)) is not None), None)
