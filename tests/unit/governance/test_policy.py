"""A tenant's policy: the narrower a table, the more it weighs; its hash stands for every value that decides."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from governance.policy import ClassRules, Policy, policy_of
from kb.model import SourceClass
from kb.settings import Settings
from kb.settings_governance import GovernSettings
from kb.trust import TrustPolicy
from tests.governing import a_policy

GOVERN = {
    "prune_below": 0.25,
    "mass_share": 0.2,
    "classes": {"web": {"prune_below": 0.3, "restore_days": 7}},
    "tenants": {
        "acme": {
            "prune_below": 0.1,
            "mass_share": 0.05,
            "classes": {"web": {"prune_below": 0.4}, "agent": {"prune_after_days": 2}},
        }
    },
}


def policy(tenant: str) -> Policy:
    settings = Settings.model_construct(govern=GovernSettings.model_validate(GOVERN))
    return policy_of(settings, tenant)


def test_a_class_overrides_the_general_rule_and_a_tenant_both() -> None:
    assert policy("other").rules[SourceClass.DOCUMENT].prune_below == 0.25
    assert policy("other").rules[SourceClass.WEB] == ClassRules(prune_below=0.3, restore_days=7)
    assert policy("acme").rules[SourceClass.DOCUMENT].prune_below == 0.1
    assert policy("acme").rules[SourceClass.WEB] == ClassRules(prune_below=0.4, restore_days=7)
    assert policy("acme").rules[SourceClass.AGENT] == ClassRules(prune_below=0.1, prune_after_days=2)
    assert (policy("other").mass_share, policy("acme").mass_share) == (0.2, 0.05)


def test_the_hash_is_the_same_for_the_same_values_in_whatever_order() -> None:
    one = a_policy()
    other = replace(one, trust=dict(reversed(one.trust.items())), rules=dict(reversed(one.rules.items())))
    assert one.hash == other.hash == a_policy().hash
    assert one.hash == "e0cf2a71947dc9ff"  # and on every machine


@pytest.mark.parametrize("field", [f.name for f in fields(Policy) if f.name not in ("trust", "rules")])
def test_the_hash_knows_every_value(field: str) -> None:
    one = a_policy()
    value = getattr(one, field)
    other = replace(one, **{field: "another" if isinstance(value, str) else value * 2 + 1})
    assert one.hash != other.hash


@pytest.mark.parametrize("source_class", SourceClass)
@pytest.mark.parametrize("name", [*(f.name for f in fields(TrustPolicy)), *(f.name for f in fields(ClassRules))])
def test_the_hash_knows_every_value_of_every_class(source_class: SourceClass, name: str) -> None:
    one = a_policy()
    is_rule = name in {f.name for f in fields(ClassRules)}
    own = one.rules[source_class] if is_rule else one.trust[source_class]
    value = getattr(own, name)
    changed = replace(own, **{name: not value if isinstance(value, bool) else value / 2 + 0.125})  # type: ignore[type-var]
    table = "rules" if is_rule else "trust"
    assert one.hash != replace(one, **{table: {**getattr(one, table), source_class: changed}}).hash
