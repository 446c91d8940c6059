"""Charts as numbers for the page's SVG: bars of a histogram, a line of days, a graph of lineage in layers. Pure."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BINS = 20
LABEL = 30  # narrow letters that fit a box; a Chinese one takes the room of two
NODE_W, NODE_H, GAP_X, GAP_Y = 210, 46, 70, 14
MAX_A_LAYER = 30


class Bar(NamedTuple):
    """One bar: where it stands, from 0 to 1, what it counts, and its height as a share of the highest."""

    low: float
    high: float
    number: int
    height: float


def histogram(values: Iterable[float]) -> list[Bar]:
    """Return confidences in 20 bins from 0 to 1; a value on an edge belongs above it, 1 to the last bin."""
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, max(0, int(value * BINS)))] += 1
    most = max(counts) or 1
    return [Bar(n / BINS, (n + 1) / BINS, c, c / most) for n, c in enumerate(counts)]


def polyline(values: Sequence[float], width: float, height: float) -> str:
    """Return the points of a line chart in a box, the greatest value at its top; "" for nothing."""
    if not values:
        return ""
    most = max(values) or 1
    step = width / max(1, len(values) - 1)
    return " ".join(f"{n * step:.1f},{height - value / most * height:.1f}" for n, value in enumerate(values))


class Node(NamedTuple):
    """A box of the lineage graph."""

    id: str
    x: int
    y: int
    layer: int


class Link(NamedTuple):
    """An arrow between two boxes, by its ends."""

    x1: int
    y1: int
    x2: int
    y2: int
    kind: str


class Graph(NamedTuple):
    """A lineage graph: oldest to the left."""

    nodes: list[Node]
    links: list[Link]
    width: int
    height: int
    left_out: int


def layered(start: str, up: Sequence[tuple[str, str, str, int]], down: Sequence[tuple[str, str, str, int]]) -> Graph:
    """Return where boxes and arrows stand.

    Args:
        start: the id in the middle.
        up: ancestors as (id, child that it was found through, kind of edge, distance).
        down: descendants as (id, parent that it was found through, kind of edge, distance).
    """
    layers: dict[int, list[str]] = defaultdict(list)
    layers[0].append(start)
    for sign, steps in ((-1, up), (1, down)):
        for id_, _, _, distance in steps:
            layers[sign * distance].append(id_)
    left_out = sum(max(0, len(ids) - MAX_A_LAYER) for ids in layers.values())
    first = min(layers)
    tallest = max(min(len(ids), MAX_A_LAYER) for ids in layers.values())
    nodes: dict[str, Node] = {}
    for layer, ids in sorted(layers.items()):
        shown = ids[:MAX_A_LAYER]
        top = (tallest - len(shown)) * (NODE_H + GAP_Y) // 2
        for n, id_ in enumerate(shown):
            nodes.setdefault(id_, Node(id_, (layer - first) * (NODE_W + GAP_X), top + n * (NODE_H + GAP_Y), layer))
    links = [_link(nodes, id_, to, kind) for id_, to, kind, _ in up]
    links += [_link(nodes, from_, id_, kind) for id_, from_, kind, _ in down]
    width = (max(layers) - first + 1) * (NODE_W + GAP_X) - GAP_X
    height = tallest * (NODE_H + GAP_Y) - GAP_Y
    return Graph(list(nodes.values()), [link for link in links if link is not None], width, height, left_out)


def fitted(text: str, most: int = LABEL) -> str:
    """Return a text on one line, cut to the room of so many narrow letters."""
    line, taken = " ".join(text.split()), 0
    for n, letter in enumerate(line):
        taken += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if taken > most:
            return f"{line[: max(0, n - 1)]}…"
    return line


def _link(nodes: dict[str, Node], parent: str, child: str, kind: str) -> Link | None:
    if parent not in nodes or child not in nodes:
        return None
    a, b = nodes[parent], nodes[child]
    return Link(a.x + NODE_W, a.y + NODE_H // 2, b.x, b.y + NODE_H // 2, kind)
