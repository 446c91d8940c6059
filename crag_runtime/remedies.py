"""What may be done when the evidence does not suffice, in which order, and what comes next: pure.

Remedies are tried in the configured order and never back: once a later one has been tried, an earlier one is over. Each
stands in one table with what would speak against it. A failure is no shortage of evidence: then none is tried, and
nothing is ever paid because something failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from crag_runtime.evidence import Verdict
from kb.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Remedy(StrEnum):
    """What may be tried, by the name it has in `ask.remedies`."""

    REWRITE = "rewrite"  # other words for what found too little, in the store
    BACKUP = "backup"  # a second source of evidence: another tenant of the same store
    WEB = "web"  # a web search, approved where it is paid
    HUMAN = "human"  # a person decides with what was found


DEFAULT_ORDER = (Remedy.REWRITE, Remedy.WEB)
NOT_TIMELY = "the question has nothing to do with time"  # what speaks against the web where it is for that only
SEARCH_FAULT = "search"  # the one failure that leaves the store and its grades what they were


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A question that lacks evidence, as far as remedies are concerned.

    Args:
        verdict: of the whole question.
        tried: remedies that it has had.
        faults: what failed on the way.
        rewrites: how many are left of the budget.
        searches: how many are left of the budget.
        has_backup: whether there is a second source, and the question is not asked of that very source.
        has_search: whether there is a web search.
        is_wordless: nobody knows other words.
        is_narrowed: to sources or documents, so that nobody else is asked.
        is_past: it asks for a past instant, which today's web does not know.
        is_by_stand_in: somebody else than the configured evaluator graded some passage.
        is_too_timeless: the web is for questions of time only, and this is none.
    """

    verdict: Verdict
    tried: frozenset[Remedy] = frozenset()
    faults: frozenset[str] = frozenset()
    rewrites: int = 0
    searches: int = 0
    has_backup: bool = False
    has_search: bool = False
    is_wordless: bool = False
    is_narrowed: bool = False
    is_past: bool = False
    is_by_stand_in: bool = False
    is_too_timeless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The next remedy, None for none, and why."""

    remedy: Remedy | None
    reason: str


def next_remedy(order: Sequence[Remedy], shortage: Shortage) -> Choice:
    """Return the first remedy in order that nothing speaks against, from the last one tried onwards."""
    over = stopped(shortage)
    if over:
        return Choice(remedy=None, reason=over)
    last = max((i for i, remedy in enumerate(order) if remedy in shortage.tried), default=0)
    against = [(remedy, obstacle(remedy, shortage)) for remedy in order[last:]]
    for remedy, problem in against:
        if not problem:
            return Choice(remedy=remedy, reason=f"{remedy.value}: {_WHY[remedy](shortage)}")
    problems = "; ".join(f"no {remedy.value}: {problem}" for remedy, problem in against)
    return Choice(remedy=None, reason=problems or "no remedy is configured")


def stopped(shortage: Shortage) -> str:
    """Return why no remedy at all is due; "" when one may be."""
    if shortage.verdict is Verdict.CORRECT:
        return "the evidence suffices"
    if shortage.verdict is Verdict.UNKNOWN:
        return "no remedy: it could not be graded"
    failed = sorted(shortage.faults - {SEARCH_FAULT})
    return f"no remedy: {', '.join(failed)} failed" if failed else ""


def obstacle(remedy: Remedy, shortage: Shortage) -> str:
    """Return what speaks against a remedy; "" when nothing does."""
    return next((problem for holds, problem in _AGAINST[remedy] if holds(shortage)), "")


def ordered(names: Sequence[str], *, has_backup: bool) -> tuple[Remedy, ...]:
    """Return the remedies of these names.

    Args:
        names: as in `ask.remedies`.
        has_backup: whether `ask.backup_tenant` is set.

    Raises:
        ConfigError: a name is unknown or stands twice, or the second source and its tenant do not go together.
    """
    known = ", ".join(remedy.value for remedy in Remedy)
    unknown = [name for name in names if name not in set(Remedy)]
    if unknown:
        raise ConfigError(f"ask.remedies names {unknown[0]!r}, which is no remedy", hint=f"the remedies are {known}")
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ConfigError(
            f"ask.remedies names {twice[0]!r} twice",
            hint="each is tried in its place, and never back; max_rewrites and max_searches say how often",
        )
    if (Remedy.BACKUP in names) != has_backup:
        missing = "ask.backup_tenant is not set" if not has_backup else "ask.remedies does not name backup"
        raise ConfigError(
            f"{missing}, and a second source needs both",
            hint='for example remedies = ["rewrite", "backup", "web"] and backup_tenant = "reference"',
        )
    return tuple(Remedy(name) for name in names)


_Claim = tuple["Callable[[Shortage], bool]", str]

_AGAINST: Mapping[Remedy, tuple[_Claim, ...]] = MappingProxyType(
    {
        Remedy.REWRITE: (
            (lambda s: s.is_wordless, "no other words are known"),
            (lambda s: s.rewrites <= 0, "none is left"),
        ),
        Remedy.BACKUP: (
            (lambda s: Remedy.BACKUP in s.tried, "it was asked already"),
            (lambda s: not s.has_backup, "there is no other source"),
            (lambda s: s.is_narrowed, "the question is narrowed to sources or documents"),
        ),
        Remedy.WEB: (
            (lambda s: Remedy.WEB in s.tried, "it was asked or declined already"),
            (lambda s: not s.has_search, "none is configured"),
            (lambda s: s.verdict is Verdict.UNKNOWN or bool(s.faults), "something failed"),
            (lambda s: s.is_by_stand_in, "a stand-in graded"),
            (lambda s: s.is_narrowed, "the question is narrowed to sources or documents"),
            (lambda s: s.is_past, "the question is about the past"),
            (lambda s: s.searches <= 0, "no search is left"),
            (lambda s: s.is_too_timeless, NOT_TIMELY),
        ),
        Remedy.HUMAN: ((lambda s: Remedy.HUMAN in s.tried, "a person was asked already"),),
    }
)
_WHY: Mapping[Remedy, Callable[[Shortage], str]] = MappingProxyType(
    {
        Remedy.REWRITE: lambda s: f"other words, {s.rewrites} left",
        Remedy.BACKUP: lambda _: "the second source",
        Remedy.WEB: lambda s: f"the web, {s.searches} left",
        Remedy.HUMAN: lambda _: "a person decides",
    }
)
