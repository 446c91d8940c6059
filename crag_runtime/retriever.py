"""LangChain faces without an agent: a retriever of graded evidence, and a tool that answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool, ToolException
from pydantic import ConfigDict

from crag_runtime.context_block import FLAG, distinct, failed
from crag_runtime.hosted import HostedRuntime  # noqa: TC001 - pydantic reads this annotation at run time
from crag_runtime.quoting import instruction_like
from crag_runtime.refusal import RefusalReason
from crag_runtime.result import Answer, AskRequest, as_json
from kb.errors import (
    DependencyError,
    EmbedderUnavailable,
    EvaluatorUnavailable,
    IndexUnavailable,
    InputError,
    LedgerUnavailable,
)
from kb.model import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

    from crag_runtime.deps import Deps
    from crag_runtime.result import Context
    from crag_runtime.runtime import CragRuntime

    Work = Callable[[CragRuntime], Coroutine[Any, Any, Any]]

TOOL = "kb_query"
TOOL_HELP = (
    "Answer a question from the governed knowledge base. Returns the answer with citations, or says that it is not "
    "covered. Ask one self-contained question."
)
UNREACHABLE = "The knowledge base is unavailable at the moment ({problem}); say so rather than guess."
SHOWN = ("outcome", "answer", "citations", "missing", "conflicts", "answer_id", "degraded")
_ERRORS: dict[RefusalReason, type[DependencyError]] = {
    RefusalReason.INDEX_UNAVAILABLE: IndexUnavailable,
    RefusalReason.LEDGER_UNAVAILABLE: LedgerUnavailable,
    RefusalReason.EMBEDDER_UNAVAILABLE: EmbedderUnavailable,
    RefusalReason.EVALUATOR_UNAVAILABLE: EvaluatorUnavailable,
}


class KbRetriever(BaseRetriever):
    """Returns passages that passed the gate and were graded relevant, refined to the strips that matter.

    No document is returned when nothing trusted is relevant: never a fallback below the gate. A store or an evaluator
    that fails is an error, never an empty list. Metadata: memory_id, origin, source, url, title, relevance, confidence,
    verified, dated, verdict, outcome, answer_id.

    Args:
        host: the runtime.
        tenant: whose memories; "" for the setting.
        scope: whose inside the tenant.

    Raises:
        InputError: the question is empty or too long.
        DependencyError: an outside service failed.
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

    def _gathering(self, query: str) -> Work:
        request = AskRequest(question=query, tenant=self.tenant or self.host.tenant, scope=self.scope)

        async def gather(runtime: CragRuntime) -> Context:
            return await runtime.gather(request)

        return gather


def documents_of(context: Context) -> list[Document]:
    """Return each passage as a document, best first.

    Raises:
        DependencyError: there is no evidence because something failed.
    """
    reason = failed(context)
    if reason is not None:
        raise _ERRORS[reason]("; ".join(context.answer.degraded))
    answer = context.answer
    return [
        Document(
            id=e.evidence.id,
            page_content="\n".join(e.strips),
            metadata={
                "memory_id": e.evidence.id,
                "origin": e.evidence.origin.value,
                "source": e.evidence.source,
                "url": e.evidence.url,
                "title": e.evidence.title,
                "relevance": e.relevance,
                "confidence": e.evidence.confidence,
                "verified": e.evidence.verified,
                "dated": e.evidence.dated,
                "verdict": answer.verdict.value,
                "outcome": answer.outcome.value,
                "answer_id": answer.answer_id,
            },
        )
        for e in sorted(distinct(context.excerpts), key=lambda excerpt: -excerpt.relevance)
    ]


def kb_tool(host: HostedRuntime, *, tenant: str = "", scope: Scope | None = None) -> StructuredTool:
    """Return a tool `kb_query(question)` that answers with citations.

    It returns outcome, answer, citations, missing, conflicts, answer_id and degraded, and `flagged` where what it
    quotes reads like orders to a model. A paid web search is never started by it unless the policy is `always`. A
    question that is not valid, and a service that is away, are the tool's error message: the agent goes on.

    Args:
        host: the runtime.
        tenant: whose memories; "" for the setting.
        scope: whose inside the tenant.
    """

    def asking(question: str) -> Work:
        try:
            request = AskRequest(question=question, tenant=tenant or host.tenant, scope=scope or Scope())
        except InputError as error:
            raise ToolException(str(error)) from error

        async def ask(runtime: CragRuntime) -> dict[str, Any]:
            answer = await runtime.ask(_unattended(request, runtime.deps))
            assert isinstance(answer, Answer)  # nothing waits: the request decides on searches itself
            return _shown(answer)

        return ask

    def query(question: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = host.run(asking(question))
        except DependencyError as error:
            raise _unreachable(error) from error
        return found

    async def aquery(question: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = await host.arun(asking(question))
        except DependencyError as error:
            raise _unreachable(error) from error
        return found

    return StructuredTool.from_function(
        query, coroutine=aquery, name=TOOL, description=TOOL_HELP, handle_tool_error=True
    )


def _unattended(request: AskRequest, deps: Deps) -> AskRequest:
    """Return the request with the decision on searches made: nobody is there to be asked."""
    policy, search = deps.policy.approve, deps.search
    is_free = search is not None and not search.is_paid and policy == "ask"
    return replace(request, approve="always" if policy == "always" or is_free else "never")


def _shown(answer: Answer) -> dict[str, Any]:
    whole = as_json(answer)
    shown: dict[str, Any] = {key: whole[key] for key in SHOWN}
    if any(instruction_like(text) for text in (answer.text, *(c.quote for c in answer.citations))):
        shown["flagged"] = FLAG
    return shown


def _unreachable(error: DependencyError) -> ToolException:
    return ToolException(UNREACHABLE.format(problem=type(error).__name__))
