"""The policies that run against each other, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.pollution.governed import Governed, Parts
from bench.pollution.policies import POOL, Habits, K, Shown, Ungoverned
from bench.pollution.shelf import TENANT
from kb.search import SearchRequest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from bench.pollution.outside import Outside
    from bench.pollution.policies import Policy
    from kb.memories import Memories
    from kb.settings import Settings

    Make = Callable[[Memories, Settings, Outside, random.Random], Policy]

CHECK_BUDGET = 0.055  # share of questions: what the governed policy uses, so that the random one may use as much
HALF_LIFE = 30.0
ARTICLE = "article"

HABITS: Mapping[str, Habits] = {
    "plain": Habits(),
    "append": Habits(keeps_echoes=True),
    "half_life": Habits(half_life=HALF_LIFE),
    "ttl": Habits(keeps_echoes=True, ttl=30),
    ARTICLE: Habits(keeps_echoes=True, is_article=True),
    "random_checks": Habits(random_checks=CHECK_BUDGET),
    "recency": Habits(keeps_echoes=True, half_life=HALF_LIFE),
    "recency_delete": Habits(keeps_echoes=True, half_life=HALF_LIFE, deletes_on_negative=True),
}
PARTS: Mapping[str, Parts] = {
    "governed": Parts(),
    "governed_reviewed": Parts(reviewed=True),
    "governed_own_extractor": Parts(own_extractor=True),
    "without_feedback": Parts(feedback=False),
    "without_decay": Parts(decay=False),
    "without_keys": Parts(keys=False),
    "without_checks": Parts(checks=False),
    "without_quarantine": Parts(web_is_trusted=True),
    "echo_as_evidence": Parts(echoes_are_evidence=True),
    "no_information": Parts(checks=False, feedback=False),
}
ORACLE = "oracle"
FIRST = ("plain", "governed", "governed_reviewed", "append", "half_life", "ttl", ARTICLE, "echo_as_evidence")
NAMES = (*FIRST, *(n for n in (*HABITS, *PARTS, ORACLE) if n not in FIRST))


@dataclass(slots=True)
class Oracle(Ungoverned):
    """Knows what is true: the ceiling of retrieval. The only one that sees a label."""

    outside: Outside | None = None

    def shown(self, question: str, day: int) -> Shown:
        """Return the best passages that say what is true, or nothing of it."""
        assert self.outside is not None
        request = SearchRequest(question=question, tenant=TENANT, k=POOL, gate=None, explain=False)
        index = next(i for i, f in enumerate(self.outside.timeline.facts) if f.question == question)
        truth = self.outside.timeline.truth(index, day)
        hits = [h.memory for h in self.memories.search(request).hits]
        kept = [m for m in hits if self.outside.says(question, m.text) in (None, truth)][:K]
        return Shown(ids=tuple(m.id for m in kept), texts=tuple(m.text for m in kept))


def maker(name: str) -> Make:
    """Return what makes the policy of a name on an empty store."""
    if name in HABITS:
        habits = HABITS[name]
        return lambda memories, _, outside, draw: Ungoverned(memories, habits, outside.pages, draw)
    if name in PARTS:
        parts = replace(PARTS[name])
        return lambda memories, settings, outside, _: Governed(
            memories, settings, parts, outside.pages, outside.says, outside.checker
        )
    if name == ORACLE:
        return lambda memories, _, outside, draw: Oracle(memories, Habits(), outside.pages, draw, outside=outside)
    raise KeyError(name)
