"""LangChain faces without an agent: a retriever of graded evidence, and a tool that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool
from pydantic import ConfigDict

from crag_runtime.hosted import HostedRuntime  # noqa: TC001 - pydantic reads this annotation at run time
from crag_runtime.result import Answer, AskRequest, as_json
from kb.model import Scope

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

    from crag_runtime.result import Context
    from crag_runtime.runtime import CragRuntime

TOOL = "kb_query"
TOOL_HELP = (
    "Answer a question from the governed knowledge base. Returns the answer with citations, or says that it is not "
    "covered. Ask one self-contained question."
)


class KbRetriever(BaseRetriever):
    """Returns passages that passed the gate and were graded relevant, refined to the strips that matter.

    No document is returned when nothing trusted is relevant: never a fallback below the gate. Metadata: memory_id,
    source, url, title, relevance, confidence, verified, verdict, answer_id.

    Args:
        host: the runtime.
        tenant: whose memories; "" for the setting.
        scope: whose inside the tenant.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    host: HostedRuntime
    tenant: str = ""
    scope: Scope = Scope()

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:  # noqa: ARG002 - the framework's signature
        return documents_of(self.host.run(self._gathering(query)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - the framework's signature
    ) -> list[Document]:
        return documents_of(await self.host.arun(self._gathering(query)))

    def _gathering(self, query: str) -> Any:  # noqa: ANN401 - work for the host
        request = AskRequest(question=query, tenant=self.tenant or self.host.tenant, scope=self.scope)

        async def gather(runtime: CragRuntime) -> Context:
            return await runtime.gather(request)

        return gather


def documents_of(context: Context) -> list[Document]:
    """Return each excerpt as a document, best first."""
    ordered = sorted(context.excerpts, key=lambda excerpt: -excerpt.relevance)
    return [
        Document(
            id=e.evidence.id,
            page_content="\n".join(e.strips),
            metadata={
                "memory_id": e.evidence.id,
                "source": e.evidence.source,
                "url": e.evidence.url,
                "title": e.evidence.title,
                "relevance": e.relevance,
                "confidence": e.evidence.confidence,
                "verified": e.evidence.verified,
                "verdict": context.answer.verdict.value,
                "answer_id": context.answer.answer_id,
            },
        )
        for e in ordered
    ]


def kb_tool(host: HostedRuntime, *, tenant: str = "", scope: Scope | None = None) -> StructuredTool:
    """Return a tool `kb_query(question)` that answers with citations.

    A paid web search is never started by a tool call unless the policy is `always`.

    Args:
        host: the runtime.
        tenant: whose memories; "" for the setting.
        scope: whose inside the tenant.
    """

    def asking(question: str) -> Any:  # noqa: ANN401 - work for the host
        policy = host.approve
        request = AskRequest(
            question=question,
            tenant=tenant or host.tenant,
            scope=scope or Scope(),
            approve="always" if policy == "always" else "never",
        )

        async def ask(runtime: CragRuntime) -> dict[str, Any]:
            answer = await runtime.ask(request)
            assert isinstance(answer, Answer)  # nothing waits: the request decides on searches itself
            shown = as_json(answer)
            return {key: shown[key] for key in ("outcome", "answer", "citations", "missing", "answer_id", "degraded")}

        return ask

    def query(question: str) -> dict[str, Any]:
        return host.run(asking(question))

    async def aquery(question: str) -> dict[str, Any]:
        return await host.arun(asking(question))

    return StructuredTool.from_function(query, coroutine=aquery, name=TOOL, description=TOOL_HELP)
