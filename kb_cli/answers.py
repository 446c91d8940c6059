"""Answers as people read them: the text, what it rests on, what one should know about it, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_runtime.result import Answer, Waiting
    from kb.model import Json

SHOWN = 5  # suppressed memories that are listed; the rest is counted

# What to do about each reason for a refusal; docs/reference/failures.md shows the same.
WAYS_OUT = {
    "nothing_found": "`kb search` shows what comes near; `kb ingest` or `kb memory add` brings in what is missing",
    "only_suppressed": "run `kb ingest` again where sources have faded; each suppressed memory says why it was stopped",
    "period_not_covered": "ingest a document about that period, or ask about another",
    "not_supported": "ask for one fact at a time; `kb trace` shows what the check did not let pass",
    "search_not_configured": "to have the web searched, set provider under [search] in kb.toml",
    "search_declined": "ask again and approve the search, or give --approve always",
    "search_failed": "ask again later; `kb doctor` checks the web search",
    "search_not_timely": "name the time that is meant, or set only_when to needed under [search] in kb.toml",
    "evaluator_unavailable": "`kb doctor` checks the evaluator; `--evaluator fast` needs no model",
    "index_unavailable": "ask again later; `kb doctor` checks the index",
    "embedder_unavailable": "ask again later; `kb doctor` checks the embedder",
    "ledger_unavailable": "ask again later; `kb doctor` checks the ledger",
    "model_unavailable": "ask again later; `kb doctor` checks the chat model",
    "budget_spent": "raise max_llm_calls or max_searches under [ask] in kb.toml, or ask for less at once",
    "person_needed": "set checkpointer under [ask] in kb.toml and ask again: it waits for a decision then",
    "person_declined": "ask in other words, or bring in what answers it with `kb ingest` or `kb memory add`",
}


def as_lines(answer: Answer, *, advice: Mapping[str, str], with_text: bool = True) -> list[str]:
    """Return an answer with its references and what one should know about it.

    Args:
        answer: what came back.
        advice: what to do about a suppressed memory, by reason.
        with_text: False when the text was streamed already.
    """
    parts = [
        [answer.text] if with_text else [],
        _references(answer),
        [*_understood(answer), *_missing(answer), *_suppressed(answer.suppressed, advice), *_degraded(answer)],
        [f"next: {WAYS_OUT[reason]}" for reason in answer.reasons if reason in WAYS_OUT],
        [_status(answer)],
    ]
    filled = [part for part in parts if part]
    lines = [line for part in filled for line in ("", *part)]
    return lines[1:] if with_text else lines


def _references(answer: Answer) -> list[str]:
    lines = []
    for c in answer.citations:
        place = c.url or c.source
        known = [
            "verified" if c.verified else "from the web, not verified" if c.url else "",
            f"confidence {c.effective_confidence:.2f}",
            "" if c.supports else "the other side",
        ]
        lines.append(f"[{c.number}] {f'{c.title}, ' if c.title else ''}{place}")
        lines.append(f"    {', '.join(filter(None, known))}  [{c.memory_id}]")
    return lines


def _understood(answer: Answer) -> list[str]:
    """Return what a follow-up took over from the turn before; nobody else would notice."""
    return [f"understood as: {answer.plan.get('question', '')}"] if answer.plan.get("carried") else []


def _missing(answer: Answer) -> list[str]:
    """Return the parts that nothing answers, where that is not the whole question and not in the text already."""
    asked = answer.plan.get("sub_questions")
    if isinstance(asked, list) and len(asked) == 1:
        return []
    return [f"not covered: {part}" for part in answer.missing if part not in answer.text]


def _suppressed(suppressed: Sequence[Mapping[str, Json]], advice: Mapping[str, str]) -> list[str]:
    if not suppressed:
        return []
    lines = [f"suppressed: {len(suppressed)} matched but {'was' if len(suppressed) == 1 else 'were'} stopped"]
    for s in suppressed[:SHOWN]:
        reason = str(s["reason"])
        held = f"{reason.replace('_', ' ')} ({s['effective_confidence']:.2f})"
        lines.append(f"   {s['source']}: {held}; {advice.get(reason, '')}  [{s['memory_id']}]")
    if len(suppressed) > SHOWN:
        lines.append(f"   and {len(suppressed) - SHOWN} more; --json lists them")
    return lines


def _degraded(answer: Answer) -> list[str]:
    return [f"degraded: {note}" for note in answer.degraded]


def _status(answer: Answer) -> str:
    usage = answer.usage
    counted = (("chat call", usage.llm_calls), ("search", usage.searches), ("embedding", usage.embeddings))
    cost = ", ".join(f"{n} {_plural(word, n)}" for word, n in counted)
    tokens = usage.tokens_in + usage.tokens_out
    reasons = f" ({', '.join(answer.reasons)})" if answer.reasons else ""
    spent = f"{cost}, {tokens} tokens" if tokens else cost
    return f"{answer.outcome.value}{reasons}; evidence {answer.verdict.value}; {spent}; kb trace {answer.answer_id}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}es" if word.endswith("ch") else f"{word}s"


def waiting_lines(waiting: Waiting, go_on: str = "") -> list[str]:
    """Return what a person must know to decide.

    Args:
        waiting: the search, or the evidence, that waits.
        go_on: the command that decides later; "" where nothing is kept for later.
    """
    decide = [f"decide: {go_on}"] if go_on else []
    if waiting.kind == "evidence":
        return [
            "what was found does not suffice; a person decides whether it is used:",
            *(f"   {query}" for query in waiting.queries),
            *(_found(each) for each in waiting.found),
            *([] if waiting.found else ["nothing that may answer was found; `edit` looks for other words"]),
            *decide,
        ]
    most = f"{waiting.max_searches} {_plural('search', waiting.max_searches)} at most"
    return [
        f"the knowledge base does not cover it; {waiting.provider} would be asked, {most}:",
        *(f"   {query}" for query in waiting.queries),
        *decide,
    ]


def _found(passage: Mapping[str, Json]) -> str:
    relevance = passage["relevance"]
    worth = "not graded" if relevance is None else f"{passage['label']}, relevance {float(str(relevance)):.2f}"
    title = f"{passage['title']}, " if passage["title"] else ""
    return f"found: {title}{passage['url'] or passage['source']}: {worth}  [{passage['memory_id']}]"
