"""/v1/search: what may be retrieved, why, and what the gate stopped."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from kb.clock import instant
from serving.bodies import SearchBody, checked
from serving.description import HITS, PROBLEMS
from serving.principal import Asker, service_of

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search", responses={**HITS, **PROBLEMS}, response_class=JSONResponse)
async def search(body: SearchBody, request: Request, caller: Asker) -> Response:
    """Search memories whose effective confidence passes the gate; as `kb search --json`."""
    from kb.objects import search_object  # noqa: PLC0415 - of parts that the server loads while it starts
    from kb.ranking import Fusion, Mode  # noqa: PLC0415
    from kb.search import SearchRequest  # noqa: PLC0415

    service = service_of(request)
    checked(body.question, *body.sources, *body.metadata, *(v for v in body.metadata.values() if isinstance(v, str)))
    asked = SearchRequest(
        question=body.question,
        tenant=caller.tenant,
        k=body.k,
        gate=service.settings.gate if body.gate is None else body.gate,
        at=None if body.at is None else instant(body.at, service.clock.now()),
        mode=Mode(body.mode),
        fusion=Fusion(body.fusion),
        scope=body.scope(caller),
        sources=tuple(body.sources),
        metadata=body.metadata,
    )
    return JSONResponse(search_object(await service.threads.call(service.memories.search, asked)))
