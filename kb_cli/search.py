"""`kb search`: what may be retrieved, why, and what the gate stopped."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, clock, opened, settings_of

if TYPE_CHECKING:
    from kb.search import SearchRequest, SearchResult
    from kb.settings import Settings


class ModeOption(StrEnum):
    """Arms of a search."""

    HYBRID = "hybrid"
    DENSE = "dense"
    TEXT = "text"


class FusionOption(StrEnum):
    """How two arms become one score."""

    MINMAX = "minmax"
    RRF = "rrf"


ADVICE = {
    "faded": "its confidence has decayed: ingest its source again, or verify it",
    "quarantined": "it waits for corroboration or verification",
    "rolled_back": "only a person lets it back; `kb govern explain ID` tells why",
    "rejected": "a person refused it, and only a person lets it back; `kb govern explain ID` tells why",
    "kept_out": "it says what was rejected or erased, and only a person lets it in; `kb govern explain ID` tells why",
    "low_confidence": "it was never above this gate",
}


Question = Annotated[str, typer.Argument(help="What to look for.")]
K = Annotated[int, typer.Option("-k", "--k", help="Hits wanted, 1 to 1000.")]
Gate = Annotated[float | None, typer.Option("--gate", help="Effective confidence to exceed, 0 to 1.")]
At = Annotated[
    str | None, typer.Option("--at", help="Instant to answer for: 2026-03-01, 2026-03-01T12:00Z, -7d, +30d.")
]
ModeName = Annotated[ModeOption, typer.Option("--mode", help="Arms used.")]
FusionName = Annotated[FusionOption, typer.Option("--fusion", help="How the arms are fused.")]
User = Annotated[str, typer.Option("--user", help="Also memories of this user.")]
Agent = Annotated[str, typer.Option("--agent", help="Also memories of this agent.")]
Conversation = Annotated[str, typer.Option("--conversation", help="Also memories of this conversation.")]
Sources = Annotated[list[str] | None, typer.Option("--source", help="Only this source URI; repeatable.")]
Where = Annotated[list[str] | None, typer.Option("--metadata", help="Only where key=value holds; repeatable.")]


def search(
    question: Question,
    k: K = 5,
    tenant: Tenant = None,
    gate: Gate = None,
    at: At = None,
    mode: ModeName = ModeOption.HYBRID,
    fusion: FusionName = FusionOption.MINMAX,
    user: User = "",
    agent: Agent = "",
    conversation: Conversation = "",
    source: Sources = None,
    metadata: Where = None,
    as_json: AsJson = False,
) -> None:
    """Search memories whose effective confidence passes the gate."""
    from kb.model import Scope
    from kb.ranking import Fusion, Mode
    from kb.search import SearchRequest
    from kb_cli.values import instant, readable, scalar_pairs

    readable(question, user, agent, conversation, *(source or ()))
    settings = settings_of(tenant=tenant, gate=gate)
    request = SearchRequest(
        question=question,
        tenant=settings.tenant,
        k=k,
        gate=settings.gate,
        at=None if at is None else instant(at, clock().now()),
        mode=Mode(mode.value),
        fusion=Fusion(fusion.value),
        scope=Scope(agent=agent, user=user, conversation=conversation),
        sources=tuple(source or ()),
        metadata=scalar_pairs(metadata or []),
    )
    _search(request, settings, as_json=as_json)


def _search(request: SearchRequest, settings: Settings, *, as_json: bool) -> None:
    with opened(settings) as memories:
        result = memories.search(request)
        notice = memories.embedder_notice
    if notice:
        render.tell(notice)
    if as_json:
        from kb.objects import search_object

        render.emit_json(search_object(result))
    else:
        render.say(*as_lines(result))


def as_lines(result: SearchResult) -> list[str]:
    """Return a result for people."""
    lines: list[str] = []
    for rank, hit in enumerate(result.hits, 1):
        m = hit.memory
        where = " › ".join(m.passage.heading_path) or m.passage.title
        page = f" p. {m.passage.page}" if m.passage.page else ""
        lines += [
            f"{rank}. {hit.score:.3f}  {m.source}{page}",
            f"   {where}" if where else "   -",
            f"   {render.excerpt(m.text)}",
            f"   {'; '.join(hit.reasons)}  [{m.id}]",
        ]
    if not result.hits:
        lines.append("nothing passes the gate for this question")
    if result.suppressed:
        lines.append(f"suppressed: {len(result.suppressed)} matched but were stopped")
        lines += [
            f"   {s.memory.source}: {s.reason.value.replace('_', ' ')} ({s.effective_confidence:.2f}); "
            f"{ADVICE[s.reason.value]}  [{s.memory.id}]"
            for s in result.suppressed
        ]
    return lines
