"""The sidecar `.kb.yaml` of a source: what its owner says about documents by their path, without touching them.

    rules:
      - match: policies/          # gitignore patterns, one or a list
        confidence: 0.95
        verified: true
        tags: [policy]
        owner: legal              # any other key is metadata

Later rules win, key by key. The front matter of a document is weaker than its sidecar, a command's flag stronger.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.front_matter import Governed, governed
from ingest.ignore import PathGlobs
from kb.errors import ConfigError, DocumentError

if TYPE_CHECKING:
    from pathlib import Path

    from kb.model import Json

SIDECAR_FILE = ".kb.yaml"
_MOST_VALUES = 100_000  # an alias bomb unfolds to billions
_HINT = "`rules:` is a list; each entry has `match:` and what holds for the documents it matches"


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarRule:
    """What holds for the documents that some patterns choose."""

    globs: PathGlobs
    says: Governed


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarRules:
    """The rules of a sidecar, in order of the file."""

    rules: tuple[SidecarRule, ...] = ()

    def of(self, relative: str) -> Governed:
        """Return what the sidecar says about the document at `relative` (NFC, forward slashes); later rules win."""
        merged = Governed()
        for rule in self.rules:
            if rule.globs.chooses(relative):
                merged = _over(merged, rule.says)
        return merged


def read_rules(root: Path) -> SidecarRules:
    """Return the rules of the sidecar in folder `root`; none when it has no sidecar.

    Raises:
        ConfigError: it cannot be read, does not parse, or says what is not allowed. Nobody's trust is guessed.
    """
    try:
        text = (root / SIDECAR_FILE).read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return SidecarRules()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{SIDECAR_FILE} cannot be read: {error}") from error
    return sidecar_rules(text)


def sidecar_rules(text: str) -> SidecarRules:
    """Return the rules written in the text of a sidecar.

    Raises:
        ConfigError: the text does not parse, or a rule says what is not allowed; the message names the rule.
    """
    import yaml  # noqa: PLC0415 - most sources have no sidecar

    try:
        values = _json(yaml.safe_load(text) or {}, budget=[_MOST_VALUES])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{SIDECAR_FILE} does not parse: {error}", hint=_HINT) from error
    if not isinstance(values, dict) or set(values) - {"rules"}:
        raise ConfigError(f"{SIDECAR_FILE} may hold `rules:` and nothing beside it", hint=_HINT)
    rules = values.get("rules") or []
    if not isinstance(rules, list):
        raise ConfigError(f"{SIDECAR_FILE}: `rules` must be a list", hint=_HINT)
    return SidecarRules(rules=tuple(_rule(number, rule) for number, rule in enumerate(rules, 1)))


def _rule(number: int, rule: Json) -> SidecarRule:
    where = f"{SIDECAR_FILE}, rule {number}"
    if not isinstance(rule, dict):
        raise ConfigError(f"{where} must be a mapping with `match`", hint=_HINT)
    patterns = [rule["match"]] if isinstance(rule.get("match"), str) else rule.get("match")
    if not isinstance(patterns, list) or not patterns:
        raise ConfigError(f"{where} needs `match`: a pattern, or a list of patterns", hint=_HINT)
    texts = [p for p in patterns if isinstance(p, str) and p.strip()]
    if len(texts) != len(patterns):
        raise ConfigError(f"{where}: every pattern of `match` must be a text", hint=_HINT)
    try:
        says = governed({key: value for key, value in rule.items() if key != "match"})
        return SidecarRule(globs=PathGlobs(texts), says=says)
    except (DocumentError, ValueError) as error:  # ValueError: a pattern that means nothing
        raise ConfigError(f"{where}: {error}", hint=_HINT) from error


def _json(value: object, *, budget: list[int]) -> Json:
    """Return YAML's values as JSON's; dates become ISO 8601 texts."""
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError(f"it holds more than {_MOST_VALUES:,} values")
    if isinstance(value, dict):
        return {str(key): _json(item, budget=budget) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item, budget=budget) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _over(weak: Governed, strong: Governed) -> Governed:
    return Governed(
        confidence=weak.confidence if strong.confidence is None else strong.confidence,
        verified=weak.verified if strong.verified is None else strong.verified,
        title=strong.title or weak.title,
        tags=tuple(dict.fromkeys((*weak.tags, *strong.tags))),
        rest={**weak.rest, **strong.rest},
    )
