"""What was said, in the form that the GenAI conventions have for it. Made only where content may leave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROLES = {"human": "user", "ai": "assistant"}


def messages(said: Iterable[tuple[str, str]]) -> str:
    """Return messages, (role, text) each, as JSON."""
    told = [{"role": _ROLES.get(r, r), "parts": [{"type": "text", "content": text}]} for r, text in said]
    return json.dumps(told, ensure_ascii=False)


def documents(found: Iterable[tuple[str, float, str]]) -> str:
    """Return retrieved passages, (id, score, text) each, as JSON."""
    return json.dumps([{"id": id_, "score": score, "content": text} for id_, score, text in found], ensure_ascii=False)
