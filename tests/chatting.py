"""Runtimes that ask a chat model: what the model says is decided by what it is asked for, and everything is counted."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import unescape
from typing import TYPE_CHECKING, Any

from crag_runtime.evaluators.cascade import Cascade
from crag_runtime.evaluators.criteria import BANDS
from crag_runtime.evaluators.llm import LlmEvaluator
from crag_runtime.generators.llm import LlmGenerator
from crag_runtime.planning.planners import LlmPlanner
from crag_runtime.planning.rewriters import LlmRewriter
from crag_runtime.threads import Threads
from kb.model import MemoryId, Standing
from kb.trust import trusted
from tests.fakes.embedder import HashingEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kb.chat import Chat
    from kb.memories import Memories
    from kb.model import Memory
    from kb.ports import Vector

PLAN, GRADE, REWRITE, WRITE = "ProposedPlan", "Relevance", "RewrittenQuery", ""
_BEGINS = {"You plan": PLAN, "You grade": GRADE, "You rewrite": REWRITE}  # of our rules
OTHER_WORDS = ("", "exactly", "in detail", "precisely", "by rule")
UPPER, LOWER = 0.8, 0.4  # of a factual question, as the criteria have it


@dataclass
class Teller:
    """Decides what a scripted chat model says. A test may change any part between questions.

    Args:
        parts: sub-questions of the plan; empty: the question itself.
        grades: relevance by words in the passage; what has none of them gets `otherwise`.
        query: the rewrite of a sub-question, with how many queries were tried; each of the default's is another.
        answer: a text, or a function of the prompt; None quotes the first sentence of the first evidence.
        instead: by what is asked for, what is said in place of all this.
    """

    parts: tuple[str, ...] = ()
    grades: Mapping[str, float] = field(default_factory=dict)
    otherwise: float = 0.1
    query: Callable[[str, int], str] = lambda question, tried: f"{question.rstrip('?')} {OTHER_WORDS[tried]}?"
    answer: str | Callable[[str], str] | None = None
    instead: dict[str, Any] = field(default_factory=dict)

    def __call__(self, asking: Any) -> Any:
        wanted = asked_for(asking)
        if wanted in self.instead:
            return self.instead[wanted]
        prompt = asking.by_role("user")
        if wanted == PLAN:
            question = block(prompt, "question")
            return {"question": question, "sub_questions": list(self.parts or (question,)), "type": "factual",
                    "is_current": False}  # fmt: skip
        if wanted == GRADE:
            return self._grade(block(prompt, "passage"))
        if wanted == REWRITE:
            return {"query": self.query(block(prompt, "question"), prompt.count("<tried"))}
        if self.answer is None:
            return first_sentence(prompt)
        return self.answer if isinstance(self.answer, str) else self.answer(prompt)

    def _grade(self, passage: str) -> dict[str, Any]:
        relevance = next((r for words, r in self.grades.items() if words in passage), self.otherwise)
        label = "relevant" if relevance >= UPPER else "ambiguous" if relevance >= LOWER else "irrelevant"
        return {"reason": "by script", "answer": "", "label": label, "relevance": relevance}


def asked_for(asking: Any) -> str:
    """Return what a request to either fake wants, in whatever form: the name of a schema, or "" for a text."""
    if hasattr(asking, "schema"):
        return str(asking.schema)
    if asking.form != "words":
        return str(asking.asks_for)
    return next(name for begin, name in _BEGINS.items() if asking.by_role("system").startswith(begin))


def block(prompt: str, tag: str) -> str:
    """Return the text of the first block with this tag."""
    found = re.search(rf"<{tag}(?: [^>]*)?>\n(.*?)\n</{tag}>", prompt, re.DOTALL)
    assert found, f"no <{tag}> in the prompt"
    return unescape(found[1])


def evidence_blocks(prompt: str) -> list[str]:
    """Return the texts of the evidence in a generator's prompt."""
    return re.findall(r'<data kind="evidence"[^>]*>\n(.*?)\n</data>', prompt, re.DOTALL)


def first_sentence(prompt: str) -> str:
    """Return the first line of the first evidence, cited."""
    return f"{evidence_blocks(prompt)[0].splitlines()[0]} [1]"


class CountingEmbedder(HashingEmbedder):
    """Counts texts: what `usage.embeddings` speaks of. `asked` are those embedded as questions."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.texts = 0
        self.asked: list[str] = []

    def passages(self, texts: Sequence[str]) -> Vector:
        vectors = super().passages(texts)
        self.texts += len(texts)
        return vectors

    def queries(self, texts: Sequence[str]) -> Vector:
        vectors = super().queries(texts)
        self.texts += len(texts)
        self.asked += texts
        return vectors


@contextmanager
def with_model(chat: Chat, first: Any = None) -> Iterator[dict[str, Any]]:
    """Give the parts of a runtime that ask a chat model; with `first`, grades are a cascade's."""
    threads = Threads()
    llm = LlmEvaluator(chat, BANDS, threads)
    try:
        yield {
            "planner": LlmPlanner(chat, threads),
            "evaluator": llm if first is None else Cascade(first, llm),
            "rewriter": LlmRewriter(chat, threads),
            "generator": LlmGenerator(chat, threads),
        }
    finally:
        threads.close()


def vouched(memories: Memories, id_: str) -> Memory:
    """Return a memory after a person vouched for it: active, verified, decisive confidence. Written to the ledger."""
    now = memories.clock.now()
    memory = memories.get(MemoryId(id_), "default")
    half_life = memories.policies[memory.source_class].half_life
    trust = trusted(0.95, now, half_life, verified_at=now)
    changed = replace(
        memory, trust=trust, standing=Standing.ACTIVE, standing_reason="", updated_at=now, rev=memory.rev + 1
    )
    with memories.ledger.write() as tx:
        tx.memories.replace([changed])
        tx.outbox.mark([changed.id], now)
    memories.projector.drain()
    return changed
