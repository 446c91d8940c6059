"""Answers that were given: the latest, and one with its path, citations and grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from governance.console.showing import page
from governance.console.visitor import Looks, parts_of
from kb.errors import UnknownAnswer
from kb.history import AnswerId
from kb.model import FOREVER, MemoryId

if TYPE_CHECKING:
    from governance.console.parts import Parts
    from kb.history import AnswerRecord
    from kb.model import Instant

router = APIRouter()
SHOWN = 50


@router.get("/answers")
async def listed(
    request: Request,
    who: Looks,
    before: Annotated[int, Query(ge=0, le=FOREVER)] = FOREVER,
    before_id: Annotated[str, Query(max_length=128)] = "",
) -> Response:
    """List answers, the latest first."""
    parts = parts_of(request)
    found = await parts.threads.call(_page, parts, who.tenant, before, before_id)
    return page(request, "answers.html", who, answers=found, more=found[-1] if len(found) == SHOWN else None)


@router.get("/answers/{answer_id}")
async def one(request: Request, who: Looks, answer_id: str) -> Response:
    """Show how an answer came about."""
    parts = parts_of(request)
    return page(request, "answer.html", who, **await parts.threads.call(_one, parts, who.tenant, answer_id))


def _page(parts: Parts, tenant: str, before: Instant, before_id: str) -> list[AnswerRecord]:
    with parts.memories.ledger.read() as tx:
        return tx.answers.page(tenant, before, SHOWN, before_id=before_id)


def _one(parts: Parts, tenant: str, answer_id: str) -> dict[str, Any]:
    with parts.memories.ledger.read() as tx:
        found = tx.answers.get(AnswerId(answer_id), tenant)
        if found is None:
            raise UnknownAnswer(f"there is no answer {answer_id} in tenant {tenant}")
        grades = tx.evaluations.of_answer(found.id)
        report = found.report
        suppressed = _objects(report.get("suppressed"))
        named = {c.memory_id for c in found.citations} | {g.memory_id for g in grades}
        named |= {MemoryId(str(s["memory_id"])) for s in suppressed if s.get("memory_id")}
        there = tx.memories.get(named)
    meant, usage = report.get("question"), report.get("usage")
    return {
        "a": found,
        "meant": meant if isinstance(meant, str) and meant != found.question else "",
        **{name: _texts(report.get(name)) for name in ("reasons", "degraded", "missing")},
        "handed_over": bool(report.get("handed_over")),
        "path": _objects(report.get("path")),
        "costs": [(k, n) for k, n in usage.items() if isinstance(n, int) and n] if isinstance(usage, dict) else [],
        "suppressed": suppressed,
        "grades": grades,
        "sources": {id_: m.source for id_, m in there.items() if m.tenant == tenant},
    }


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - JSON of a report
    return [str(part) for part in value] if isinstance(value, list) else []


def _objects(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON of a report
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
