"""Whether a policy may be turned on: what contradicts itself in it, and what it would leave of a tenant.

A policy empties a tenant when, within the days that are looked ahead, it leaves a tenth or less of what another policy
would leave of the same memories under the same syncs: of what stands above the gate, summed over the days or on the
last of them, or of what is not retired on the last. The other policy is the product's defaults, and the one in force
when another is proposed. So a policy is blamed for what it does, not for sources that nobody renews: those fade
under any policy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from governance.candidates import foreseen
from governance.policy import policy_of
from kb.errors import UnsafePolicy
from kb.model import SourceClass
from kb.settings import Settings
from kb.trust import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.forecast import Forecast
    from governance.policy import ClassRules, Policy
    from kb.memories import Memories
    from kb.model import Instant, Json
    from kb.trust import TrustPolicy

LEFT = 0.1  # share of what another policy would leave; at or below it, a policy empties a tenant
HOUR_MS = DAY_MS // 24

_MEASURES = (  # name, what is left of it
    ("empties_gate", "memories above the gate"),
    ("retires_nearly_all", "memories that are not retired"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a policy that its operator should know.

    Args:
        code: stable name, as `prune_above_gate`.
        said: in a sentence.
        is_refusal: the policy must not be turned on.
    """

    code: str
    said: str
    is_refusal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found.

    Args:
        policy: that was checked.
        findings: refusals first.
        forecast: of the tenant under the policy.
        yardsticks: of the same memories under the defaults, and under the policy in force when that is another.
    """

    policy: Policy
    findings: tuple[Finding, ...]
    forecast: Forecast
    yardsticks: tuple[Forecast, ...]

    @property
    def is_safe(self) -> bool:
        """Whether the policy may be turned on."""
        return not any(f.is_refusal for f in self.findings)

    def as_json(self) -> dict[str, Json]:
        """Return the check under the stable keys of docs/reference/json.md."""
        return {
            "tenant": self.policy.tenant,
            "policy": self.policy.hash,
            "is_safe": self.is_safe,
            "findings": [{"code": f.code, "said": f.said, "is_refusal": f.is_refusal} for f in self.findings],
            "forecast": self.forecast.as_json(),
        }


def checked(memories: Memories, policy: Policy, now: Instant, *, in_force: Policy | None = None) -> Checked:
    """Return what speaks against a policy; changes nothing.

    Args:
        memories: the store.
        policy: of the tenant, in force or proposed.
        now: the instant to look ahead from.
        in_force: the tenant's policy, when another is proposed.
    """
    others = {p.hash: p for p in (default_policy(policy.tenant), in_force) if p is not None}
    others.pop(policy.hash, None)
    days = max(policy.forecast_days, in_force.forecast_days if in_force is not None else 0)  # none hides its end
    forecast, *yardsticks = foreseen(memories, [policy, *others.values()], now, days)
    found = [*faults(policy), *emptied(forecast, yardsticks), *_unrenewed(forecast)]
    return Checked(
        policy=policy,
        findings=tuple(sorted(found, key=lambda f: not f.is_refusal)),
        forecast=forecast,
        yardsticks=tuple(yardsticks),
    )


def ensure_safe(memories: Memories, policy: Policy, now: Instant, *, in_force: Policy | None = None) -> Checked:
    """Return what the check found, if the policy may be turned on; arguments as of `checked`.

    Raises:
        UnsafePolicy: it contradicts itself, or would empty the tenant; the message says when, and what would be left.
    """
    result = checked(memories, policy, now, in_force=in_force)
    if not result.is_safe:
        raise UnsafePolicy("; ".join(f.said for f in result.findings if f.is_refusal))
    return result


def default_policy(tenant: str) -> Policy:
    """Return what the product does when no setting says otherwise."""
    return policy_of(Settings.model_construct(), tenant)  # reads neither environment nor files


def emptied(forecast: Forecast, yardsticks: Sequence[Forecast]) -> list[Finding]:
    """Return how a policy would empty a tenant that other policies would not. Pure.

    Args:
        forecast: under the policy.
        yardsticks: of the same memories under the others.
    """
    found: dict[str, Finding] = {}
    ours = (forecast.total("above"), forecast.kept)
    for other in yardsticks:
        theirs = (other.total("above"), other.kept)
        for (code, what), own, their in zip(_MEASURES, ours, theirs, strict=True):
            by_sum = code == "empties_gate" and _is_emptied(sum(own), sum(their))
            if by_sum or _is_emptied(own[-1], their[-1]):
                found.setdefault(code, _emptying(code, what, own, their, forecast))
    return list(found.values())


def faults(policy: Policy) -> list[Finding]:
    """Return what cannot work in a policy, whatever the tenant holds. Pure."""
    found = list(_of_gate(policy))
    for source_class in SourceClass:
        if source_class is not SourceClass.ANSWER:
            found += _of_class(source_class, policy.trust[source_class], policy.rules[source_class], policy)
    return found


def _of_gate(policy: Policy) -> Iterator[Finding]:
    verified = policy.trust[SourceClass.CURATED].confidence  # whatever a person verifies is worth that
    if policy.gate >= verified:
        yield _refusal(
            "gate_above_verified",
            f"the gate {policy.gate:g} lets nothing pass that a person has verified ({verified:g} is not above it)",
        )
    open_ = [t for c, t in policy.trust.items() if c is not SourceClass.ANSWER and not t.quarantined]
    if not any(t.confidence > policy.gate for t in open_):
        yield _refusal(
            "nothing_passes", f"no source class begins above the gate {policy.gate:g}: nothing new passes it"
        )


def _of_class(name: SourceClass, trust: TrustPolicy, rules: ClassRules, policy: Policy) -> Iterator[Finding]:
    if rules.prune_below > policy.gate:
        said = f"{name.value}: prune_below {rules.prune_below:g} is above the gate {policy.gate:g}"
        yield _refusal("prune_above_gate", f"{said}: what may still be retrieved would be retired")
    if rules.restore_days < 1 and rules.prune_below > 0:
        said = f"{name.value}: restore_days is {rules.restore_days:g}: what prune retires is erased at the next gc"
        if policy.mass_share >= 1:
            yield _refusal("no_way_back", f"{said}, and with mass_share 1 nothing asks before")
        else:
            yield _warning("erased_at_once", said)
    if trust.quarantined:
        if not trust.verified and trust.confidence < rules.prune_below:
            yield _warning(
                "pruned_in_waiting",
                f"{name.value}: begins at {trust.confidence:g}, below prune_below {rules.prune_below:g}: "
                f"what waits for corroboration is retired after {rules.prune_after_days:g} days",
            )
        return
    yield from _of_passing(name, trust, policy.gate)


def _of_passing(name: SourceClass, trust: TrustPolicy, gate: float) -> Iterator[Finding]:
    if trust.confidence <= gate:
        yield _warning(
            "class_never_passes",
            f"{name.value}: begins at {trust.confidence:g}, not above the gate {gate:g}: only evidence can lift it",
        )
        return
    within = math.inf if gate <= 0 else trust.hold + trust.half_life * math.log2(trust.confidence / gate)
    if within < HOUR_MS:
        yield _refusal(
            "gone_within_the_hour", f"{name.value}: leaves the gate {within / 60_000:.0f} minutes after it came"
        )
    elif within < DAY_MS:
        yield _warning(
            "gone_before_sync",
            f"{name.value}: leaves the gate {within / HOUR_MS:.1f} hours after it came, before the nightly sync",
        )


def _unrenewed(forecast: Forecast) -> Iterator[Finding]:
    """Say what leaves the gate for want of a sync or a verification, under any policy of its kind."""
    passing, last = forecast.now("passing"), forecast.total("above")[-1]
    if passing and _is_emptied(last, passing):
        yield _warning(
            "fades_unrenewed",
            f"of {passing:,} memories above the gate now, {last:,} are left in {forecast.days} days: "
            "no registered source renews the others, and nobody has verified them",
        )


def _is_emptied(own: int, their: int) -> bool:
    return their > 0 and own <= LEFT * their


def _emptying(code: str, what: str, own: Sequence[int], their: Sequence[int], forecast: Forecast) -> Finding:
    day = next((d for d, (a, b) in enumerate(zip(own, their, strict=True)) if _is_emptied(a, b)), len(own) - 1)
    date = datetime.fromtimestamp((forecast.at + (day + 1) * DAY_MS) / 1000, UTC).date().isoformat()
    return _refusal(
        code,
        f"by {date} (day {day + 1}) it leaves tenant {forecast.tenant} {own[day]:,} {what}, "
        f"where {their[day]:,} would be left otherwise",
    )


def _refusal(code: str, said: str) -> Finding:
    return Finding(code=code, said=said, is_refusal=True)


def _warning(code: str, said: str) -> Finding:
    return Finding(code=code, said=said, is_refusal=False)
