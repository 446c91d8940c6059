"""External checks by web search: two pages of different owners that say the same decide, anything less does not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from governance.comparing.sayings import Passed, value_key
from governance.contradict import Agree, Contradict, compare
from governance.ports import Checked, Outcome
from kb.addresses import host_of, registrable
from kb.errors import SearchUnavailable
from kb.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evidence import Finding
    from crag_runtime.ports import WebSearch
    from governance.ports import Claim

LIMIT = 10  # pages of one search
AT_ONCE = 4  # searches at a time
WITNESSES = 2  # independent pages that decide
QUERY_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What one page says of a claim: `way` is an outcome and, for a contradiction, the value that it gives."""

    way: tuple[Outcome, str]
    root: str
    url: str


class WebChecker:
    """Implements `governance.ports.Checker` over a web search.

    Args:
        search: asked once for each claim; a paid one costs as often.
        limit: pages of one search.
    """

    def __init__(self, search: WebSearch, *, limit: int = LIMIT) -> None:
        self._search = search
        self._limit = limit

    def check(self, claims: Sequence[Claim]) -> list[Checked]:
        """Return one result for each claim, in their order; a search that fails leaves its claim unasked."""
        return asyncio.run(self._all(claims))

    async def _all(self, claims: Sequence[Claim]) -> list[Checked]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(claim: Claim) -> Checked:
            async with turns:
                try:
                    found = await self._search.search(query_of(claim), limit=self._limit)
                except SearchUnavailable as error:
                    return Checked(outcome=Outcome.UNASKED, problem=str(error))
            return await asyncio.to_thread(checked_of, claim, found)

        return list(await asyncio.gather(*(one(claim) for claim in claims)))


def query_of(claim: Claim) -> str:
    """Return what is searched for: the subject, and the claim's own words. The rival's words are not in it."""
    said = claim.said
    words = " ".join(f"{said.title} {' '.join(said.heading_path[-1:])} {said.text}".split())
    return words if len(words) <= QUERY_CHARS else words[: QUERY_CHARS + 1].rsplit(maxsplit=1)[0][:QUERY_CHARS]


def checked_of(claim: Claim, found: Sequence[Finding]) -> Checked:
    """Return what pages decide of a claim. Pure.

    Each owner is heard once, with its first page that says anything; an owner whose pages say two things is heard for
    none. Copies of one text are one page. Pages on both sides decide nothing, however many there are.
    """
    words = _words(claim, found)
    ways: dict[tuple[Outcome, str], list[_Word]] = {}
    for word in words:
        ways.setdefault(word.way, []).append(word)
    enough = [way for way, own in ways.items() if len(own) >= WITNESSES]
    if len(enough) != 1 or len(ways) > 1:
        return Checked(outcome=Outcome.NOTHING)
    deciding = sorted(ways[enough[0]], key=lambda w: w.root)
    return Checked(outcome=enough[0][0], roots=tuple(w.root for w in deciding), urls=tuple(w.url for w in deciding))


def _words(claim: Claim, found: Sequence[Finding]) -> list[_Word]:
    by_root: dict[str, list[_Word]] = {}
    texts: set[str] = set()
    for finding in found:
        root, text = registrable(host_of(finding.url)), terms(finding.text)
        if not root or root in claim.not_from or text in texts:
            continue
        texts.add(text)
        if (way := _way(claim, finding)) is not None:
            by_root.setdefault(root, []).append(_Word(way=way, root=root, url=finding.url))
    return [own[0] for own in by_root.values() if len({w.way for w in own}) == 1]


def _way(claim: Claim, finding: Finding) -> tuple[Outcome, str] | None:
    page = Passed(text=finding.text, valid_from=finding.published or 0)
    said = compare(claim.said, page)
    if claim.rival is not None:
        otherwise = compare(claim.rival, page)
        is_so = _bears_out(said, claim)
        if is_so == _bears_out(otherwise, claim):
            return None
        return (Outcome.SUPPORTED, "") if is_so else (Outcome.CONTRADICTED, "")
    if _bears_out(said, claim):
        return Outcome.SUPPORTED, ""
    return (Outcome.CONTRADICTED, value_key(said.other_value)) if isinstance(said, Contradict) else None


def _bears_out(said: object, claim: Claim) -> bool:
    return isinstance(said, Agree) and said.one_share >= claim.least
