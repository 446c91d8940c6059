"""What an external check's word makes of a memory, and what it may never make of one. Pure.

A check that bears a memory out, by at least two independent sources, vouches for it: verified, held for a while of its
own, active if it only waited for corroboration. Its confidence moves by evidence alone. A check that refutes a memory
takes that back where checks alone had vouched; what a person vouched for stays a person's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from governance.comparing.sayings import passed
from governance.contradict import Agree, Contradict, compare
from governance.plan import FINDINGS
from governance.testimony import CHECKED, distinct, least_share, sees
from kb.evidence_rules import is_rejected
from kb.history import EvidenceKind
from kb.independence import root_of
from kb.model import FOREVER, Kind, Standing
from kb.rolled_back import is_rolled_back
from kb.sweeps import Action, ActionKind
from kb.telling import plain
from kb.trust import birth_of
from kb.vouching import vouchers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from governance.policy import Policy
    from governance.ports import Comparer
    from kb.history import EvidenceEvent
    from kb.model import Instant, Json, Memory

WITNESSES = 2  # independent sources that decide a check
REFUTED = "refuted by a check"
_HEARD = (EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION, EvidenceKind.CHECK)


def why_not(memory: Memory, policy: Policy, history: Sequence[EvidenceEvent]) -> str:
    """Return why no check may vouch for a memory as it stands, after the check's own evidence; "" when one may."""
    is_open = memory.standing in (Standing.ACTIVE, Standing.QUARANTINED)
    is_held_back = memory.standing is Standing.QUARANTINED and not policy.trust[memory.source_class].quarantined
    reasons = (
        (memory.kind is Kind.ANSWER, "an answer"),
        (not is_open or memory.valid_to != FOREVER, memory.standing.value if not is_open else "past"),
        (is_rolled_back(memory), "rolled back"),
        (is_rejected(memory, history), "rejected"),
        (memory.contested, "contested"),
        (is_held_back, "waits for a person"),
        (not memory.trust.verified and _net(history) <= 0, "as much speaks against it as for it"),
    )
    return next((why for is_so, why in reasons if is_so), "")


def vouched(memory: Memory, policy: Policy, now: Instant) -> Memory:
    """Return a memory that a check has vouched for at `now`; one that is held longer already is left as it is.

    It is held from its undecayed confidence on: who asked found what it says said still.
    """
    trust, half_life = memory.trust, policy.trust[memory.source_class].half_life
    anchor = max(trust.anchor, now + policy.checked_hold)
    if trust.verified and anchor == trust.anchor and memory.standing is Standing.ACTIVE:
        return memory
    held = replace(
        trust,
        anchor=anchor,
        birth=birth_of(trust.confidence, anchor, half_life),
        verified=True,
        verified_at=trust.verified_at if trust.verified and trust.verified_at is not None else now,
        shown=None,
    )
    return replace(memory, trust=held, standing=Standing.ACTIVE, standing_reason="")


def disavowed(memory: Memory, policy: Policy, history: Sequence[EvidenceEvent], said: str) -> Memory:
    """Return a memory that checks alone had vouched for, without that: quarantined again, if that had let it out."""
    bare = replace(memory, trust=replace(memory.trust, verified=False, verified_at=None))
    waits = policy.trust[memory.source_class].quarantined and _net(history) < policy.promote_witnesses
    if not waits or memory.standing is not Standing.ACTIVE:
        return bare
    return replace(bare, standing=Standing.QUARANTINED, standing_reason=said)


def vouching(memory: Memory, roots: Iterable[str], findings: Iterable[str] = ()) -> Action:
    """Return that a check vouches for a memory.

    Args:
        memory: that it bears out.
        roots: root sources that decided it; at least two.
        findings: ids of stored pages whose words decided it, when nobody outside was asked.
    """
    detail: dict[str, Json] = {"roots": [*sorted(roots)]}
    if stored := sorted(findings):
        detail[FINDINGS] = [*stored]
    return Action(memory_id=memory.id, kind=ActionKind.VOUCH, reason=CHECKED, rev=memory.rev, detail=detail)


def disavowal(memory: Memory, history: Sequence[EvidenceEvent], roots: Sequence[str]) -> Action | None:
    """Return that a check takes back what checks alone had vouched for; None where they had not."""
    if not vouchers(memory, history):
        return None
    said = f"{REFUTED}: {' and '.join(roots)} say otherwise"
    return Action(memory_id=memory.id, kind=ActionKind.DISAVOW, reason=CHECKED, rev=memory.rev, detail={"said": said})


def bearing_out(
    memory: Memory,
    pages: Iterable[Memory],
    lines: Mapping[str, frozenset[str]],
    comparer: Comparer = compare,
) -> tuple[Memory, ...]:
    """Return the stored pages of other owners that say what a page says; none where any of them says otherwise.

    No copies, neither of the memory nor of each other, and no two of one owner.
    """
    others = [p for p in pages if p.id != memory.id and _speaks(memory, p)]
    said = {p.id: comparer(passed(memory), passed(p)) for p in others}
    if any(isinstance(s, Contradict) for s in said.values()):
        return ()
    agreeing = [p for p in others if isinstance(s := said[p.id], Agree) and s.one_share >= least_share(memory)]
    own = plain(memory.text)
    kept = distinct([memory, *(p for p in agreeing if plain(p.text) != own)], lines, frozenset({root_of(memory)}))
    return tuple(p for p in kept if p.id != memory.id)


def _net(history: Iterable[EvidenceEvent]) -> int:
    """Return how many witnesses and checks spoke for a memory, less those against it; feedback is neither."""
    return sum((e.weight > 0) - (e.weight < 0) for e in history if e.kind in _HEARD)


def _speaks(memory: Memory, page: Memory) -> bool:
    """Return whether a page may be heard in a check: found by a search, live and not refused."""
    is_live = page.standing in (Standing.ACTIVE, Standing.QUARANTINED) and page.valid_to == FOREVER
    is_page = page.kind is Kind.WEB and page.tenant == memory.tenant and sees(memory.scope, page.scope)
    return is_page and is_live and not is_rolled_back(page)
