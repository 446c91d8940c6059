"""Answers, what waits and events as objects with the stable keys of docs/reference/json.md, the same on every face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.result import Answer, as_json

if TYPE_CHECKING:
    from crag_runtime.events import Event
    from crag_runtime.result import Waiting
    from kb.model import Json


def waiting_json(waiting: Waiting, *, is_kept: bool) -> dict[str, Json]:
    """Return what waits for a person; `is_kept`: beyond this process."""
    return {
        "outcome": "waiting",
        "kind": waiting.kind,
        "answer_id": waiting.answer_id,
        "thread": waiting.thread,
        "provider": waiting.provider,
        "queries": list(waiting.queries),
        "max_searches": waiting.max_searches,
        "found": [dict(each) for each in waiting.found],
        "resumable": is_kept,
    }


def result_json(result: Answer | Waiting, *, is_kept: bool) -> dict[str, Json]:
    """Return how a question ended, or what it waits for."""
    return as_json(result) if isinstance(result, Answer) else waiting_json(result, is_kept=is_kept)


def event_json(event: Event, *, is_kept: bool) -> dict[str, Json]:
    """Return an event of a stream; `event` names its kind."""
    if event.result is not None:
        return {"event": event.kind, **result_json(event.result, is_kept=is_kept)}
    if event.step is not None:
        return {"event": "step", "node": event.step["node"], "why": event.step["why"]}
    return {"event": "token", "token": event.token} if event.kind == "token" else {"event": event.kind}
