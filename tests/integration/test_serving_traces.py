"""A request over HTTP is one trace: from the caller's own span over graph and store to what is written back."""

from __future__ import annotations

import asyncio

from kb.keys import KeyScope
from kb.telemetry import Span
from tests.served import OPENS, open_server, with_bridge
from tests.tracing import recorded

CALLER = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{CALLER}-b7ad6b7169203331-01"


def test_a_question_over_http_is_one_trace_from_the_callers_span_to_the_write_back(store, tmp_path):
    with_bridge(store)

    async def story() -> None:
        async with open_server(store, tmp_path) as served:
            client = served.client(served.key(KeyScope.QUERY))
            reply = await client.post("/v1/ask", json={"question": OPENS}, headers={"traceparent": PARENT})
            assert (reply.status_code, reply.json()["outcome"]) == (200, "answered")

    with recorded() as spans:
        asyncio.run(story())
    ours = [s for s in spans.get_finished_spans() if f"{s.context.trace_id:032x}" == CALLER]
    names = {s.name for s in ours}
    wanted = {Span.HTTP, Span.ASK, Span.NODE, Span.LEDGER_READ, Span.WRITE_BACK, Span.LEDGER_WRITE}
    assert {w.value for w in wanted} <= names
    ids = {s.context.span_id for s in ours}
    strangers = [s.name for s in ours if s.parent is None or s.parent.span_id not in ids]
    assert len(strangers) == 1, "only the request itself hangs on the caller's span"
    assert OPENS not in str([dict(s.attributes) for s in ours])
