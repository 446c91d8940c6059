"""What words for the command line say to who calls over HTTP or MCP: what does the same there. Pure.

What a caller can do nothing about is left out, and where nothing is left, it is said who can.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.model import Json

OPERATOR = "whoever runs the server can mend this"

_WORDS = frozenset({"message", "reason", "notices"})  # keys of a report whose values are for people
_SETTING = r"`?[\w.]+`?(?: in kb\.toml)?"
_SAID: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(written), said)
    for written, said in (
        (r"`kb memory list`", "`GET /v1/memories`"),
        (r"`kb memory trace (\w+)`", r"`GET /v1/memories/\1/trace`"),
        (r"`kb memory restore (\w+)`", r"`POST /v1/memories/\1/restore`"),
        (r"kb memory annotate ID --reason TEXT", "say it in `reason`"),
        (r"`kb govern history`", "`GET /v1/governance/history`"),
        (r"`kb govern explain (\w+)`", r"`GET /v1/memories/\1/explain`"),
        (r"`kb govern plan JOB`", "`POST /v1/governance/plan`"),
        (r"`kb govern undo ([^`]*)`", r"`POST /v1/governance/undo` with `sweep_id` \1"),
        (r"`kb search --json`", "`POST /v1/search`"),
        (r"the id is printed with every answer, and is (`answer_id`) in `kb ask --json`", r"\1 of `POST /v1/ask`"),
        (r"`kb ask --json`", "`POST /v1/ask`"),
        (r"`kb ingest --json`", "the reply of `POST /v1/ingest`"),
        (r"in a file and `kb ingest` it", "in a file for `POST /v1/ingest`"),
        (r"run `kb ingest` again", "upload it again"),
        (r"`kb trace`", "`GET /v1/answers/ID`"),
        (r"`kb status` names the sources", "every memory of `GET /v1/memories` names its source"),
        (r"repeat with --allow-mass$", "repeat with `allow_mass` true"),
        (r"with --memory\b", "with `memory_id`"),
        (r"one of --source, --document, --batch, --since, --memory", "one of source, document, batch, since, memories"),
        (r"^--since narrows", "since narrows"),
        (r"go on with thread ", "`POST /v1/ask/resume` goes on with thread "),
        (r",(?: and at| or) the `\.kb\.yaml` rules and --metadata that it gets", ""),
        (rf"raise {_SETTING}, or ", ""),
        (rf",? or raise {_SETTING}$", ""),
    )
)
_TOOLS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(written), said)
    for written, said in (
        (r"`POST /v1/ask`", "`kb_query`"),
        (r"`POST /v1/search`", "`kb_search`"),
        (r"`GET /v1/memories`", "`kb_search`"),
        (r"`GET /v1/answers/ID`", "`kb_trace`"),
        (r"`GET /v1/memories/\w+/trace`", "`kb_trace`"),
    )
)
_OPERATORS = re.compile(
    r"(?<!soffice )--\w|\bkb [a-z]|\.?kb\.(?:toml|yaml)|\.kbignore|KB_[A-Z]|\[\w+[\].]|_ur[il]\b|\bask\.\w"
)


def over_http(words: str) -> str:
    """Return words of an error as a caller can follow them."""
    for written, said in _SAID:
        words = written.sub(said, words)
    return words


def hint_over_http(hint: str) -> str:
    """Return a hint as a caller can follow it; that of who runs the server becomes that they can."""
    said = over_http(hint)
    return OPERATOR if _OPERATORS.search(said) else said


def over_mcp(words: str) -> str:
    """Return words of an error as an agent can follow them: by its tools."""
    words = over_http(words)
    for written, said in _TOOLS:
        words = written.sub(said, words)
    return words


def hint_over_mcp(hint: str) -> str:
    """Return a hint as an agent can follow it; empty where no tool of its does that."""
    said = over_mcp(hint)
    return "" if _OPERATORS.search(said) or "/v1/" in said else said


def report_over_http(report: dict[str, Json]) -> dict[str, Json]:
    """Return a report with its hints, messages, reasons and notices as a caller can follow them."""
    return {key: _told(key, value) for key, value in report.items()}


def _told(key: str, value: Json) -> Json:
    match value:
        case str():
            return hint_over_http(value) if key == "hint" else over_http(value) if key in _WORDS else value
        case list():
            return [_told(key, each) for each in value]
        case dict():
            return report_over_http(value)
        case _:
            return value
