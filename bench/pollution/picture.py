"""A picture of the benchmark: what each policy is good at, and what it pays for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = (
    ("accuracy", "right", "#3a7d44"),
    ("stale", "stale", "#c78b2b"),
    ("polluted_known", "polluted, known facts", "#b5473c"),
    ("polluted_cold", "polluted, cold facts", "#7d4e8a"),
)


def drawn(result: dict[str, Any], to: Path) -> None:
    """Draw the policies of a result with their 95 % intervals into a PNG file."""
    names = [name for name in result["policies"] if "/" not in name]
    figure, axes = plt.subplots(1, len(SHOWN), figsize=(15, 0.38 * len(names) + 1.4), sharey=True)
    for axis, (metric, title, colour) in zip(axes, SHOWN, strict=True):
        for place, name in enumerate(names):
            own = result["policies"][name][metric]
            if own["value"] is None:
                continue
            axis.barh(place, own["value"], color=colour, alpha=0.85)
            axis.plot([own["low"], own["high"]], [place, place], color="black", linewidth=1)
        axis.set_title(title)
        axis.set_xlim(0, 1)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    figure.suptitle(f"{result['world']} {result['split']}: {result['facts']} facts, {result['seeds']} seeds")
    figure.tight_layout()
    figure.savefig(to, dpi=110)
    plt.close(figure)
