"""What sweeps may do, as one frozen, versioned value per tenant. Its hash stands in every plan and every sweep."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from kb.ids import digest
from kb.model import SourceClass
from kb.trust import DAY_MS, TrustPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json
    from kb.settings import Settings
    from kb.settings_governance import ClassRuleSettings, RuleSettings

HASH_LENGTH = 16  # hex digits

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRules:
    """Rules of one source class.

    Args:
        prune_below: effective confidence under which an unverified memory may be retired, in [0, 1].
        prune_after_days: younger memories are never pruned.
        restore_days: days a retired memory can be restored.
    """

    prune_below: float = 0.2
    prune_after_days: float = 14.0
    restore_days: float = 30.0

    @property
    def prune_after(self) -> int:
        """Age in milliseconds."""
        return round(self.prune_after_days * DAY_MS)

    @property
    def restore(self) -> int:
        """Restore window in milliseconds."""
        return round(self.restore_days * DAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that decides what a sweep of one tenant does.

    Args:
        tenant: whose.
        gate: effective confidence to exceed for retrieval.
        trust: what each source class is worth; half-lives and holds.
        rules: of each source class.
        mass_count: a sweep that retires at most so many memories never asks.
        mass_share: share of the tenant's live memories whose loss asks for consent.
        batch: actions of one transaction.
        cap: actions of one sweep.
        promote_witnesses: independent sources that promote a quarantined memory.
        checks: external checks of one recheck.
        check_every_days: days between external checks of one memory.
        checked_hold_days: days that what a check vouched for is held.
        forecast_days: how far `policy check` looks ahead.
    """

    tenant: str
    gate: float
    trust: Mapping[SourceClass, TrustPolicy]
    rules: Mapping[SourceClass, ClassRules]
    mass_count: int = 10
    mass_share: float = 0.10
    batch: int = 500
    cap: int = 10_000
    promote_witnesses: int = 2
    checks: int = 20
    check_every_days: float = 7.0
    checked_hold_days: float = 60.0
    forecast_days: int = 30

    @property
    def checked_hold(self) -> int:
        """Hold of what a check vouched for, in milliseconds."""
        return round(self.checked_hold_days * DAY_MS)

    @property
    def hash(self) -> str:
        """Digest of every value that decides; equal policies have equal hashes on every machine."""
        return digest("policy", json.dumps(self.as_json(), sort_keys=True))[:HASH_LENGTH]

    def as_json(self) -> dict[str, Json]:
        """Return the policy as plain values, for `kb govern policy show --json`."""
        plain: dict[str, Json] = {
            "tenant": self.tenant,
            "gate": self.gate,
            "trust": {c.value: asdict(p) for c, p in sorted(self.trust.items())},
            "rules": {c.value: asdict(r) for c, r in sorted(self.rules.items())},
        }
        for name in ("mass_count", "mass_share", "batch", "cap", "promote_witnesses", "checks"):
            plain[name] = getattr(self, name)
        for name in ("check_every_days", "checked_hold_days", "forecast_days"):
            plain[name] = getattr(self, name)
        return plain


def policy_of(settings: Settings, tenant: str) -> Policy:
    """Return a tenant's policy: the defaults, then `[govern]`, its classes, the tenant's own, the tenant's classes."""
    general = settings.govern
    own = general.tenants.get(tenant)
    rules = {c: _rules(general.classes.get(c), own, c, settings) for c in SourceClass}
    return Policy(
        tenant=tenant,
        gate=settings.gate,
        trust=settings.policies,
        rules=rules,
        mass_count=_own(own, "mass_count", general.mass_count),
        mass_share=_own(own, "mass_share", general.mass_share),
        batch=general.batch,
        cap=general.cap,
        promote_witnesses=_own(own, "promote_witnesses", general.promote_witnesses),
        checks=_own(own, "checks", general.checks),
        check_every_days=general.check_every_days,
        checked_hold_days=general.checked_hold_days,
        forecast_days=general.forecast_days,
    )


def _rules(
    of_class: ClassRuleSettings | None, own: RuleSettings | None, source_class: SourceClass, settings: Settings
) -> ClassRules:
    """Return a class's rules; the narrower the table, the later it is asked and the more it weighs."""
    own_class = own.classes.get(source_class) if own else None
    merged: dict[str, float] = {}
    for layer in (settings.govern, of_class, own, own_class):
        for name in ("prune_below", "prune_after_days", "restore_days"):
            value = getattr(layer, name, None)
            if value is not None:
                merged[name] = value
    return ClassRules(**merged)


def _own(own: RuleSettings | None, name: str, general: T) -> T:
    value: T | None = getattr(own, name, None)
    return general if value is None else value
