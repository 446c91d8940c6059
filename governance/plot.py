"""Draws a forecast: what stands above the gate, and what happens each night. Import it only to draw: it is heavy."""

from __future__ import annotations

import contextlib
import hashlib
import re
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from governance.forecast import Forecast, SourceForecast

NAMED = 8  # sources with a colour of their own
LABEL = 32  # characters of a source's name
MARK = 6  # hex digits of what stands for characters that no font can show
CHINESE = (  # families that know Chinese, as systems name them
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Microsoft YaHei",
    "SimHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Arial Unicode MS",
    "Droid Sans Fallback",
)
OF_CHINESE = re.compile(r"CJK|Source Han|WenQuanYi|WQY|Hei\b|Ming\b|Song\b|Fang|Kai\b|Noto .*\b[ST]C\b")
OF_FILES = re.compile(r"cjk|han|wqy|hei|noto|song|ming|kai|fang", re.IGNORECASE)
NIGHTLY = (  # count, label, colour
    ("leave", "leave the gate", "#d98c3f"),
    ("fall_due", "fall due for review", "#4a7fb5"),
    ("pruned", "are retired", "#a34a4a"),
    ("erased", "are erased", "#444444"),
)


def plotted(forecast: Forecast, to: Path, *, title: str = "") -> dict[str, str]:
    """Write a forecast as a picture (PNG, 1600 × 1000) and return the marks in it that stand for words, with these.

    Where no font of this machine can show a part of a name, a mark of plain letters stands in its place.

    Args:
        forecast: at least one day.
        to: file, written over when it is there.
        title: "" for tenant and policy.

    Raises:
        OSError: the file cannot be written.
    """
    families = _families()
    writer = Writer(families)
    with warnings.catch_warnings(), mpl.rc_context({"font.family": families, "font.size": 11}):
        warnings.simplefilter("ignore", UserWarning)  # one for each character that no font knows
        figure = Figure(figsize=(16, 10), dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        above, nightly = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        days = range(forecast.days + 1)
        shown = _shown(forecast.sources)
        above.stackplot(
            days,
            [[s.passing, *s.above] for s in shown] or [[0] * len(days)],
            labels=[_label(writer.drawable(s.source)) for s in shown],
            colors=[mpl.colormaps["tab10"](i % 10) for i in range(max(1, len(shown)))],
            alpha=0.85,
        )
        above.set_ylabel("memories above the gate")
        said = title or f"Forecast for {forecast.tenant} from {_date(forecast.at)}, policy {forecast.policy}"
        above.set_title(writer.drawable(said).replace("$", r"\$"))
        if shown:
            above.legend(loc="upper right", framealpha=0.9)
        width = 0.8 / len(NIGHTLY)
        for place, (count, label, colour) in enumerate(NIGHTLY):
            totals = forecast.total(count)
            at = [day + (place - 1.5) * width for day in days[1:]]
            nightly.bar(at, totals, width=width, color=colour, label=f"{label} ({sum(totals):,})")
        nightly.set_ylabel("memories a day")
        nightly.set_xlabel("days from now")
        nightly.legend(loc="upper right", framealpha=0.9)
        for axes in (above, nightly):
            axes.set_ylim(bottom=0)
            axes.grid(visible=True, axis="y", alpha=0.3)
            axes.margins(x=0.01)
        figure.savefig(to, format="png")
    return writer.marks


class Writer:
    """Writes names with what the fonts can show.

    Args:
        families: names of fonts, in order of preference.
    """

    def __init__(self, families: Sequence[str]) -> None:
        self._known: set[int] = set()
        self.marks: dict[str, str] = {}
        for family in families:
            path = font_manager.findfont(family, fallback_to_default=False)
            self._known.update(font_manager.get_font(path).get_charmap())

    def drawable(self, name: str) -> str:
        """Return a name in which a mark stands for each run of characters that no font can show."""
        parts = []
        for is_known, run in groupby(name, key=lambda c: ord(c) in self._known):
            part = "".join(run)
            parts.append(part if is_known else self._marked(part))
        return "".join(parts)

    def _marked(self, part: str) -> str:
        mark = f"<{hashlib.sha256(part.encode('utf-8', 'replace')).hexdigest()[:MARK]}>"
        self.marks[mark] = part
        return mark


def _shown(sources: tuple[SourceForecast, ...]) -> list[SourceForecast]:
    """Return the largest sources, the rest summed up as one."""
    ranked = sorted(sources, key=lambda s: (-max(s.passing, *s.above), s.source))
    ranked = [s for s in ranked if max(s.passing, *s.above)]
    if len(ranked) <= NAMED + 1:
        return ranked
    rest = ranked[NAMED:]
    others = _summed(f"{len(rest)} others", rest)
    return [*ranked[:NAMED], others]


def _summed(name: str, sources: list[SourceForecast]) -> SourceForecast:
    above = tuple(map(sum, zip(*(s.above for s in sources), strict=True)))
    return replace(sources[0], source=name, passing=sum(s.passing for s in sources), above=above)


def _label(source: str) -> str:
    """Return a name that a legend can hold, and shows: one that begins with _ is left out, $ begins a formula."""
    short = source if len(source) <= LABEL else source[: LABEL - 1] + "…"
    return ("\u200b" + short if short.startswith("_") else short).replace("$", r"\$")


def _families() -> list[str]:
    _refreshed()
    known = {font.name for font in font_manager.fontManager.ttflist}
    named = [name for name in CHINESE if name in known]
    return ["DejaVu Sans", *(named or sorted(name for name in known if OF_CHINESE.search(name))[:1])]


def _refreshed() -> None:
    """Add fonts that were installed since the list of fonts was cached."""
    manager = font_manager.fontManager
    listed = {font.fname for font in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in listed and OF_FILES.search(path):
            with contextlib.suppress(RuntimeError, OSError):  # a kind of font that cannot be drawn with
                manager.addfont(path)


def _date(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).date().isoformat()
