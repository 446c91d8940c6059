"""Everything that was made from something, and the shortest way there: pure.

What descends from a memory: the answers that cited it, the answer-keys of those answers, the notes that were written
from it or from such an answer, and what was made from those in turn. What a search found is no descendant of the
memories that were asked before it: a page stands for itself, unless a step says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.history import Edge


class LineageCycle(IntegrityError):  # noqa: N818 - reads as the condition it states
    """The lineage runs in a circle: something would be made from itself."""

    hint = "`kb memory trace ID` shows the steps; nothing was rolled back"

    def __init__(self, cycle: tuple[str, ...]) -> None:
        super().__init__(f"the lineage runs in a circle: {' → '.join(cycle)}")
        self.cycle = cycle  # ids, the first one again at the end

    def __reduce__(self) -> tuple[object, ...]:
        """Cross a process boundary intact."""
        return (LineageCycle, (self.cycle,))


@dataclass(frozen=True, slots=True)
class Blast:
    """What was reached.

    Args:
        steps: by id, the step by which it was reached first; None for a root.
        distances: by id, the fewest steps from a root.
    """

    steps: Mapping[str, Edge | None]
    distances: Mapping[str, int]

    @property
    def ids(self) -> frozenset[str]:
        """Roots and all that descends from them."""
        return frozenset(self.steps)

    @property
    def descendants(self) -> frozenset[str]:
        """What descends from the roots, and is none."""
        return frozenset(id_ for id_, step in self.steps.items() if step is not None)

    def path(self, id_: str) -> tuple[str, ...]:
        """Return the shortest way from a root to `id_`, both included: the reason why it is here."""
        way = [id_]
        while (step := self.steps[way[-1]]) is not None:
            way.append(step.parent)
        return tuple(reversed(way))


def blast(roots: Iterable[str], edges: Iterable[Edge]) -> Blast:
    """Return the transitive closure of what was made from the roots.

    Of several steps that reach one thing at once, the one from the least id counts: the same lineage gives the same
    reasons.

    Args:
        roots: ids of what was bad from the beginning.
        edges: steps of lineage; those that no root leads to are left out.

    Raises:
        LineageCycle: what the roots lead to runs in a circle.
    """
    children = _children(edges)
    steps: dict[str, Edge | None] = dict.fromkeys(sorted(set(roots)))
    distances = dict.fromkeys(steps, 0)
    level = list(steps)
    while level:
        found: dict[str, Edge] = {}
        for id_ in level:
            for edge in children.get(id_, ()):
                if edge.child not in distances:
                    found.setdefault(edge.child, edge)
        distance = distances[level[0]] + 1
        level = sorted(found)
        steps.update((id_, found[id_]) for id_ in level)
        distances.update(dict.fromkeys(level, distance))
    refuse_cycles({id_: [e.child for e in children.get(id_, ())] for id_ in steps})
    return Blast(steps=steps, distances=distances)


def refuse_cycles(children: Mapping[str, Sequence[str]]) -> None:
    """Refuse a graph that runs in a circle.

    Args:
        children: by id, in any order; every id that can be reached is a key.

    Raises:
        LineageCycle: it does; names a circle.
    """
    left = dict.fromkeys(children, 0)
    for own in children.values():
        for child in own:
            left[child] += 1
    free = [id_ for id_, parents in left.items() if not parents]
    while free:
        for child in children[free.pop()]:
            left[child] -= 1
            if not left[child]:
                free.append(child)
    rest = {id_ for id_, parents in left.items() if parents}
    if rest:
        raise LineageCycle(_circle(rest, children))


def _circle(rest: set[str], children: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return one circle among ids which are on circles or below them: a way up from any of them comes round."""
    parent: dict[str, str] = {}
    for id_ in sorted(rest):
        for child in children[id_]:
            if child in rest:
                parent.setdefault(child, id_)
    way, seen = [min(rest)], {min(rest)}
    while (above := parent[way[-1]]) not in seen:
        way.append(above)
        seen.add(above)
    around = way[way.index(above) :]
    around.reverse()
    first = around.index(min(around))
    turned = around[first:] + around[:first]
    return (*turned, turned[0])


def _children(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    children: dict[str, list[Edge]] = {}
    for edge in edges:
        children.setdefault(edge.parent, []).append(edge)
    for own in children.values():
        own.sort(key=lambda e: (e.child, e.kind))
    return children
