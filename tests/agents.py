"""LangChain agents for tests: a real agent over a hosted runtime and a real store; model and grades are scripted."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from crag_runtime.hosted import HostedRuntime
from crag_runtime.middleware import CRAGMiddleware
from kb.memories import Note
from kb.settings import Settings
from tests.asking import open_runtime
from tests.fakes.evaluator import FakeEvaluator
from tests.fakes.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langchain_core.messages import BaseMessage

    from kb.memories import Memories

BRIDGE = "The Anping bridge carries forty tons on a dry day."
PAINT = "The Anping bridge is painted green every spring."
QUESTION = "How many tons does the Anping bridge carry?"


@tool
def echo(words: str) -> str:
    """Return the words."""
    return words


def remember(memories: Memories, text: str, *, tenant: str = "default", **note: Any) -> str:
    """Store a note by a person and return its id."""
    memory, _ = memories.add_note(Note(text=text, tenant=tenant, **note))
    return str(memory.id)


@contextmanager
def hosting(memories: Memories, data_dir: Path, **parts: Any) -> Iterator[HostedRuntime]:
    """Open a host of a runtime whose parts a test may replace; grades are scripted unless it says otherwise."""
    given = {"evaluator": FakeEvaluator(default=0.9), **parts}
    settings = Settings(data_dir=data_dir)
    with HostedRuntime(settings, open_runtime=lambda: open_runtime(memories, data_dir, **given)) as host:
        yield host


def agent_of(host: HostedRuntime, *script: Any, tools: Any = (echo,), **options: Any) -> tuple[Any, ScriptedModel]:
    """Return an agent with the middleware, and its model."""
    checkpointer, context = options.pop("checkpointer", None), options.pop("context_schema", None)
    more = options.pop("middleware", ())
    model = ScriptedModel(script=list(script))
    agent = create_agent(
        model,
        tools=list(tools),
        system_prompt="Be brief.",
        middleware=[CRAGMiddleware(host, **options), *more],
        checkpointer=checkpointer,
        context_schema=context,
    )
    return agent, model


def asked(*words: Any) -> dict[str, Any]:
    """Return the input of an agent: messages of the human."""
    return {"messages": [{"role": "user", "content": each} for each in words]}


def gathered(memories: Memories, tenant: str = "default") -> list[str]:
    """Return the questions that evidence was gathered for, by the ledger: each gathering leaves a record."""
    with memories.ledger.read() as tx:
        return [record.question for record in tx.answers.page(tenant)]


def blocks(prompt: list[BaseMessage]) -> list[str]:
    """Return the evidence blocks in a prompt."""
    return [str(m.content) for m in prompt if "<kb_context" in str(m.content)]


def text_in(prompts: list[list[BaseMessage]]) -> str:
    """Return everything that a model was shown."""
    return "\n".join(str(m) for prompt in prompts for m in prompt)
