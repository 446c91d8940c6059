"""`kb memory`: single memories: add a note, look at one, list them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb.objects import memory_object
from kb_cli import render
from kb_cli.acting import is_agent
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from kb.model import Memory

app = typer.Typer(help="Single memories: add a note, look at one, list them.", no_args_is_help=True)


class Author(StrEnum):
    """Who writes a note."""

    PERSON = "person"
    AGENT = "agent"


class StandingOption(StrEnum):
    """What a memory may be used for."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"
    SUPERSEDED = "superseded"
    RETIRED = "retired"


Text = Annotated[str, typer.Argument(help="The note; `-` reads it from standard input.")]
By = Annotated[Author, typer.Option("--by", help="Who writes it; an agent's note is quarantined.")]
Source = Annotated[str, typer.Option("--source", help="URI it is credited to.")]
Title = Annotated[str, typer.Option("--title", help="What it is about.")]
Confidence = Annotated[float | None, typer.Option("--confidence", help="Prior confidence, 0 to 1.")]
User = Annotated[str, typer.Option("--user", help="Seen only by searches that name this user.")]
Agent = Annotated[str, typer.Option("--agent", help="Seen only by searches that name this agent.")]
Conversation = Annotated[str, typer.Option("--conversation", help="Likewise for a conversation.")]
Metadata = Annotated[list[str] | None, typer.Option("--metadata", help="key=value; repeatable.")]
From = Annotated[
    list[str] | None, typer.Option("--from", help="Memory or answer that it was written from, by id; repeatable.")
]


@app.command("add")
def add(
    text: Text,
    by: By = Author.PERSON,
    source: Source = "",
    title: Title = "",
    confidence: Confidence = None,
    user: User = "",
    agent: Agent = "",
    conversation: Conversation = "",
    metadata: Metadata = None,
    from_: From = None,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Store a note as a memory."""
    from kb.memories import Note
    from kb.model import Scope, SourceClass
    from kb_cli.values import from_stdin, pairs, readable

    readable(text, source, title, user, agent, conversation, *(from_ or []))
    settings = settings_of(tenant=tenant)
    note = Note(
        text=from_stdin() if text == "-" else text,
        tenant=settings.tenant,
        by=SourceClass.AGENT if is_agent() else SourceClass(by.value),
        source=source,
        title=title,
        scope=Scope(agent=agent, user=user, conversation=conversation),
        confidence=confidence,
        metadata=pairs(metadata or []),
        derived_from=tuple(from_ or ()),
    )
    with opened(settings) as memories:
        memory, drained = memories.add_note(note)
        shown = memory_object(memories, memory)
    if drained.problem:
        render.tell(f"stored; it waits for the index: {drained.problem}")
    if as_json:
        render.emit_json({**shown, "outbox_pending": drained.pending})
    else:
        render.say(f"{memory.id}  {memory.standing.value}", *_why(memory))


@app.command("get")
def get(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")],
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Show one memory whole: text, source, trust now, and when it leaves the gate."""
    from kb.model import MemoryId

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        shown = memory_object(memories, memories.get(MemoryId(id_), settings.tenant))
    if as_json:
        render.emit_json(shown)
    else:
        text = str(shown.pop("text"))
        render.say(*(f"{key:22}{value}" for key, value in shown.items()), "", text)


@app.command("list")
def list_(
    standing: Annotated[
        list[StandingOption] | None, typer.Option("--standing", help="Only this standing; repeatable.")
    ] = None,
    after: Annotated[str, typer.Option("--after", help="Go on after this id.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 50,
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """List memories in the order of their ids."""
    from kb.model import Standing

    settings = settings_of(tenant=tenant)
    standings = [Standing(s.value) for s in standing or []]
    with opened(settings) as memories:
        page = memories.page(settings.tenant, after=after, limit=limit, standings=standings)
        shown = [memory_object(memories, m) for m in page]
    following = page[-1].id if len(page) == limit else None
    if as_json:
        render.emit_json({"memories": list(shown), "next": following})
        return
    rows = [(m["id"], m["standing"], f"{m['effective_confidence']:.2f}", m["source"], m["text"]) for m in shown]
    head = ("id", "standing", "now", "source", "text")
    render.say(*render.table(head, [(*row[:4], render.excerpt(str(row[4]), 60)) for row in rows]))
    if following:
        render.say(f"more: --after {following}")


def _why(memory: Memory) -> list[str]:
    return [memory.standing_reason] if memory.standing_reason else []
