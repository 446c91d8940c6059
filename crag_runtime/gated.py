"""The gate for foreign text that reaches an agent by its own tools: graded like any other passage, or kept out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crag_runtime.evidence import Asked, Finding, Label, QuestionType
from crag_runtime.findings import as_evidence, finding_id
from crag_runtime.periods import time_intent
from crag_runtime.quoting import quoted
from crag_runtime.searchers.normal import normalised
from kb.errors import DependencyError
from kb.model import Scope

if TYPE_CHECKING:
    from crag_runtime.deps import Deps

MAX_CHARACTERS = 8_000
NOTHING = "Nothing in this tool's output is relevant to the question; none of it is shown."
UNGRADED = "This tool's output could not be graded ({problem}); none of it is shown."


async def gated_text(deps: Deps, question: str, output: str, *, tool: str, tenant: str) -> str:
    """Return the parts of a tool's output that are relevant, as quoted data; never its text ungraded.

    Args:
        deps: of the runtime.
        question: the human's.
        output: the tool's text: search results as JSON, or plain text.
        tool: its name.
        tenant: whose cache and evaluator are used.
    """
    now = deps.clock.now()
    evidence = [
        as_evidence(f, id_=finding_id(f, tenant=tenant, scope=Scope()), score=0.0, now=now)
        for f in _findings(output, tool, deps.policy.max_results)
    ]
    if not evidence:
        return NOTHING
    try:
        (vector,), _ = await deps.threads.call(deps.store.vectors.of, [question])
        asked = Asked(
            question=question,
            type=QuestionType.FACTUAL,
            time=time_intent(question, now),
            today=now,
            tenant=tenant,
            vector=vector,
        )
        grading = await deps.evaluator.grade(asked, evidence)
    except DependencyError as error:
        return UNGRADED.format(problem=type(error).__name__)
    usable = {g.id for g in grading.grades if g.label in (Label.RELEVANT, Label.AMBIGUOUS)}
    kept = [e for e in evidence if e.id in usable]
    if not kept:
        return NOTHING
    return "\n".join(
        quoted("tool_result", {"tool": tool, "url": e.url, "title": e.title, "verified": "no"}, e.text) for e in kept
    )


def _findings(output: str, tool: str, limit: int) -> list[Finding]:
    """Return search results where the output is some; the output as one finding where it is anything else."""
    try:
        found = list(normalised(json.loads(output), limit=limit).findings)
    except ValueError:
        found = []
    text = output.strip()[:MAX_CHARACTERS]
    return found or ([Finding(url=f"tool://{tool}", title=tool, text=text)] if text else [])
