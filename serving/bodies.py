"""What requests may hold. Names and limits are the command line's; what is not known is refused, not passed over."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from crag_runtime.result import MAX_QUESTION
from kb.errors import InputError
from kb.keys import Holder, Principal
from kb.model import Scope

MAX_NAME = 256  # bytes, and so characters, of a thread, a user, an agent or a conversation: what the ledger holds
MAX_SOURCE = 4096
MAX_LISTED = 1000

Name = Annotated[str, Field(max_length=MAX_NAME)]
Listed = Annotated[list[Annotated[str, Field(max_length=MAX_SOURCE)]], Field(max_length=MAX_LISTED)]
When = Annotated[str, Field(max_length=64, description="2026-03-01, 2026-03-01T12:00Z, -7d or +30d")]
Approve = Literal["", "ask", "always", "never"]


class Whose(BaseModel):
    """Whose memories inside the key's tenant. An agent's key stands for its agent unless another is named."""

    model_config = ConfigDict(extra="forbid")
    user: Name = Field(default="", description="also memories of this user")
    agent: Name = Field(default="", description="also memories of this agent; for an agent's key: the key's name")
    conversation: Name = Field(default="", description="also memories of this conversation")

    def scope(self, caller: Principal) -> Scope:
        """Return it as the core's scope."""
        agent = self.agent or (caller.name if caller.holder is Holder.AGENT else "")
        checked(self.user, agent, self.conversation)
        return Scope(agent=agent, user=self.user, conversation=self.conversation)


class AskBody(Whose):
    """A question."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"question": "How long may a card payment take?"},
                {"question": "And for business customers?", "thread": "case-17", "user": "ada", "stream": True},
            ]
        }
    )
    question: str = Field(min_length=1, max_length=MAX_QUESTION, description="the words")
    thread: Name = Field(default="", description="conversation it belongs to; follow-ups are understood by it")
    at: When | None = Field(default=None, description="instant to answer for; none: now")
    sources: Listed = Field(default_factory=list, description="only these source URIs")
    documents: Listed = Field(default_factory=list, description="only these documents, by id")
    approve: Approve = Field(default="", description="who decides on a paid web search; empty: as the server is set")
    stream: bool = Field(
        default=False, description="answer with a stream of events; so does `Accept: text/event-stream`"
    )


class ResumeBody(Whose):
    """Goes on with a question that waits for a person, or that was cut off."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"thread": "case-17", "decision": "approve"},
                {"thread": "case-17", "decision": "edit", "query": "card payment duration 2026"},
            ]
        }
    )
    thread: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] = Field(description="its thread")
    decision: Literal["", "approve", "decline", "edit"] = Field(default="", description="empty for what was cut off")
    query: str = Field(default="", max_length=MAX_QUESTION, description="for edit: the words to look for instead")
    answer_id: Name = Field(default="", description="id of the answer decided on, lest it be a newer question's")
    stream: bool = Field(default=False, description="as for /v1/ask")


class SearchBody(Whose):
    """A search."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": "card payment", "k": 3}, {"question": "card", "mode": "text"}]}
    )
    question: str = Field(min_length=1, max_length=MAX_QUESTION, description="what to look for")
    k: int = Field(default=5, ge=1, le=1000, description="hits wanted")
    gate: float | None = Field(
        default=None, ge=0, le=1, description="effective confidence to exceed; none: as the server is set"
    )
    at: When | None = Field(default=None, description="instant to answer for; none: now")
    mode: Literal["hybrid", "dense", "text"] = Field(default="hybrid", description="arms used")
    fusion: Literal["minmax", "rrf"] = Field(default="minmax", description="how two arms become one score")
    sources: Listed = Field(default_factory=list, description="only these source URIs")
    metadata: dict[Name, str | int | float | bool] = Field(
        default_factory=dict, max_length=100, description="values that must be equal"
    )


def checked(*texts: str) -> None:
    """Refuse texts that no store can hold.

    Raises:
        InputError: one holds a zero byte, or half of a character.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("a text holds half of a surrogate pair, which is no character") from None
        if "\x00" in text:
            raise InputError("a text holds a zero byte")
