"""Answers as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.result import Answer, Waiting
    from kb.model import Json


def as_lines(answer: Answer, *, advice: Mapping[str, str], with_text: bool = True) -> list[str]:
    """Return an answer with its references and what one should know about it.

    Args:
        answer: what came back.
        advice: what to do about a suppressed memory, by reason.
        with_text: False when the text was streamed already.
    """
    lines = [answer.text] if with_text else []
    lines += ["", *_references(answer)] if answer.citations else []
    lines += [f"not covered: {part}" for part in answer.missing if part not in answer.text]
    lines += _suppressed(answer, advice)
    lines += [f"degraded: {note}" for note in answer.degraded]
    usage = answer.usage
    cost = f"{usage.llm_calls} chat calls, {usage.searches} searches, {usage.embeddings} embeddings"
    reasons = f" ({', '.join(answer.reasons)})" if answer.reasons else ""
    lines += ["", f"{answer.outcome.value}{reasons}; evidence {answer.verdict.value}; {cost}  [{answer.answer_id}]"]
    return lines


def _references(answer: Answer) -> list[str]:
    lines = []
    for c in answer.citations:
        trust = "verified" if c.verified else f"confidence {c.effective_confidence:.2f}"
        side = "" if c.supports else ", the other side"
        lines.append(f"[{c.number}] {c.url or c.source} ({trust}{side})  [{c.memory_id}]")
    return lines


def _suppressed(answer: Answer, advice: Mapping[str, str]) -> list[str]:
    if not answer.suppressed:
        return []
    lines = [f"suppressed: {len(answer.suppressed)} matched but were stopped"]
    for s in answer.suppressed:
        reason = str(s["reason"])
        lines.append(f"   {s['source']}: {reason.replace('_', ' ')}; {advice.get(reason, '')}  [{s['memory_id']}]")
    return lines


def waiting_lines(waiting: Waiting) -> list[str]:
    """Return what a person must know to decide."""
    return [
        f"the knowledge base does not cover it; {waiting.provider} would be asked, {waiting.max_searches} times at most:",
        *(f"   {query}" for query in waiting.queries),
        f"decide: kb ask --resume --thread {waiting.thread} --decide approve|decline|edit",
    ]


def waiting_json(waiting: Waiting) -> dict[str, Json]:
    """Return it under the stable keys of docs/reference/json.md."""
    return {
        "outcome": "waiting",
        "answer_id": waiting.answer_id,
        "thread": waiting.thread,
        "provider": waiting.provider,
        "queries": list(waiting.queries),
        "max_searches": waiting.max_searches,
    }
