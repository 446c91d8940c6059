"""The commented kb.toml that `kb init` writes, made from the settings themselves so that it never falls behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, SecretStr

from kb.settings import (
    AskSettings,
    ChatSettings,
    IngestSettings,
    Settings,
    TelemetrySettings,
    WebSearchSettings,
)
from kb.settings_governance import GovernSettings, JobsSettings
from kb.settings_serving import ServeSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_TABLES = ("ingest", "chat", "search", "ask", "govern", "jobs", "serve", "telemetry", "trust", "sources")
_PLAIN: dict[str, type[BaseModel]] = {
    "ingest": IngestSettings,
    "chat": ChatSettings,
    "search": WebSearchSettings,
    "ask": AskSettings,
    "govern": GovernSettings,
    "jobs": JobsSettings,
    "serve": ServeSettings,
    "telemetry": TelemetrySettings,
}
_NESTED = ("thresholds", "classes", "tenants")  # tables of their own
_HEAD = """\
# kb settings. Order of precedence: command-line flag > KB_* environment variable > this file > user config > default.
# Every line shows the default; remove the leading `#` from what you change.
# Secrets are better kept in the environment: KB_LEDGER_URL, KB_INDEX_TOKEN, KB_OPENAI_API_KEY.
"""
_THRESHOLDS = """
# Bands per type of question (factual, analytical, creative); unset: the evaluator's own. `kb eval calibrate` fits them.
# [ask.thresholds.factual]
# lower = unset
# upper = unset
# gate = unset
# min_sources = unset"""
_RULES = """
# Rules per source class, per tenant, and per tenant and class; unset: as [govern] says.
# [govern.classes.web]
# prune_below = unset
# prune_after_days = unset
# restore_days = unset
# [govern.tenants.acme]
# prune_below = unset
# promote_witnesses = unset"""
_SOURCES = """
# Folders to keep in step: `kb ingest` without a path syncs them all.
# [[sources]]
# path = "./docs"
# name = "docs"
# trust = "document"        # or "curated": verified, held for 180 days
"""


def commented_toml() -> str:
    """Return the text of a kb.toml in which every setting stands, commented out, with its default."""
    lines = [_HEAD]
    for name, field in Settings.model_fields.items():
        if name not in _TABLES:
            lines += _setting(name, field)
    for table, model in _PLAIN.items():
        lines += ["", f"# [{table}]"]
        for name, field in model.model_fields.items():
            if name not in _NESTED:
                lines += _setting(name, field)
    lines += [_THRESHOLDS, _RULES]
    lines += list(_trust())
    return "\n".join(lines) + "\n" + _SOURCES


def _setting(name: str, field: FieldInfo) -> list[str]:
    default = field.get_default(call_default_factory=True)
    shown = "unset" if default is None or isinstance(default, SecretStr) else _toml(default)
    return [f"# {field.description}", f"# {name} = {shown}"]


def _trust() -> Iterator[str]:
    yield ""
    yield "# Prior trust of each source class."
    for source_class, policy in Settings.model_construct(trust={}).policies.items():
        yield f"# [trust.{source_class.value}]"
        for name in ("confidence", "verified", "hold_days", "half_life_days", "quarantined"):
            yield f"# {name} = {_toml(getattr(policy, name))}"


def _toml(value: object) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value)
