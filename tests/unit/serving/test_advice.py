"""Hints over HTTP: every one that the code can give names what a caller can do, and no command, flag or setting."""

from __future__ import annotations

import ast
import re
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from governance.decisions import Decision
from kb import errors
from kb.settings import Settings
from serving.advice import _SAID, _TOOLS, OPERATOR, hint_over_http, hint_over_mcp, over_http, report_over_http
from serving.app import create_app
from serving.problems import problem_of
from serving.routes.governance import ApplyBody, RollbackBody, UndoBody
from serving.routes.memories import FeedbackBody, ReasonBody
from tests.architecture.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LANES = ("kb", "governance", "jobs", "crag_runtime", "ingest", "serving")
COMMAND_LINE = re.compile(
    r"`kb |\bkb (?:memory|govern|ask|ingest|serve) |(?<!soffice )--[a-z]|kb\.toml|KB_[A-Z]|\[\w+\]"
)
# What only commands reach: they keep their own words, in errors' messages too.
COMMANDS = ("kb/moving/", "governance/erase.py", "jobs/command.py", "crag_runtime/calibrating/", "serving/run.py")
ENDPOINT = re.compile(r"(GET|POST|DELETE) (/v1/[\w/{}]+)")


def words(node: ast.expr | None) -> Iterator[str]:
    """Yield what an expression can come to as text; what is put in at run time reads X."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(p.value if isinstance(p, ast.Constant) and isinstance(p.value, str) else "X" for p in parts)
        case ast.BoolOp(values=parts):
            yield from chain.from_iterable(map(words, parts))
        case ast.IfExp(body=one, orelse=other):
            yield from (*words(one), *words(other))


def is_hint(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and "hint" in node.id.lower()


def hints_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.keyword(arg="hint", value=value):
                yield from words(value)
            case ast.Assign(targets=targets, value=value) if any(map(is_hint, targets)):
                yield from words(value)


def messages_in(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id="ConfigError"))):
                pass  # the operator's: callers are told that something went wrong, and no more
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from chain.from_iterable(map(words, arguments))


def files() -> list[Path]:
    return [file for lane in LANES for file in sorted((ROOT / lane).rglob("*.py"))]


def test_no_hint_of_the_code_tells_a_caller_over_http_to_use_the_command_line():
    found = [(file.name, hint) for file in files() for hint in hints_in(file)]
    assert len(found) > 100
    assert [(name, hint) for name, hint in found if COMMAND_LINE.search(hint_over_http(hint))] == []


def test_no_message_of_the_code_does_so_either():
    reached = [file for file in files() if not str(file.relative_to(ROOT)).startswith(COMMANDS)]
    found = [(file.name, said) for file in reached for said in messages_in(file)]
    assert len(found) > 300
    assert [(name, said) for name, said in found if COMMAND_LINE.search(over_http(said))] == []


def test_every_endpoint_that_a_hint_names_is_one():
    described = create_app(Settings(serve={"mcp": False, "console": False})).openapi()["paths"]  # type: ignore[arg-type]
    decisions = [path.replace("{decision}", d) for path in described for d in Decision if "{decision}" in path]
    paths = {**described, **{path: {"post": {}} for path in decisions}}
    known = {(method.upper(), re.sub(r"{\w+}", "{}", path)) for path, item in paths.items() for method in item}
    named = {
        (method, re.sub(r"/(?:\\1|ID)(?=/|$)", "/{}", path))
        for _, said in _SAID
        for method, path in ENDPOINT.findall(said.replace(r"\1", "ID"))
    }
    assert len(named) >= 10
    assert named - known == set()


@pytest.mark.parametrize(
    ("field", "body", "hint"),
    [
        ("allow_mass", ApplyBody, errors.MassRetire.hint),
        ("sweep_id", UndoBody, "`kb govern undo s1` takes the undo back"),
        ("memory_id", FeedbackBody, "say which one was wrong with --memory; `kb trace` lists them"),
        ("reason", ReasonBody, "kb memory annotate ID --reason TEXT"),
    ],
)
def test_a_hint_names_the_field_that_does_what_the_flag_does(field, body, hint):
    assert f"`{field}`" in hint_over_http(hint)
    assert field in body.model_fields


def test_what_to_roll_back_is_said_in_the_requests_own_words():
    said = over_http("say what to roll back: one of --source, --document, --batch, --since, --memory")
    assert set(said.partition("one of ")[2].split(", ")) <= set(RollbackBody.model_fields)


def test_what_only_the_operator_can_do_is_said_to_be_so_and_what_is_left_to_the_caller_stays():
    assert problem_of(errors.EmbedderChanged())["hint"] == OPERATOR
    assert problem_of(errors.IndexUnavailable())["hint"] == OPERATOR
    assert hint_over_http("raise ingest.max_bytes in kb.toml, or split the file") == "split the file"
    assert hint_over_http("split it, or raise `ingest.parse_seconds`") == "split it"
    assert hint_over_http(errors.Locked.hint) == errors.Locked.hint


def test_over_mcp_a_hint_names_a_tool_or_is_left_out():
    said = [hint_over_mcp(hint) for file in files() for hint in hints_in(file)]
    assert [hint for hint in said if COMMAND_LINE.search(hint) or "/v1/" in hint] == []
    assert "`kb_query`" in hint_over_mcp(errors.UnknownAnswer.hint)
    assert hint_over_mcp(errors.Locked.hint) == errors.Locked.hint
    assert hint_over_mcp(errors.EmbedderChanged.hint) == ""
    tools = {name for _, said in _TOOLS for name in re.findall(r"kb_\w+", said)}
    assert tools <= {"kb_query", "kb_search", "kb_trace"}


def test_a_report_is_told_likewise_and_its_sources_keep_their_names():
    source = "file://docs/run `kb ingest` again.md"
    failure = {"source": source, "hint": "run `kb ingest` again", "message": "--since narrows a source"}
    told = report_over_http({"failures": [failure], "embedded": 3, "error": None})
    assert told["failures"] == [{"source": source, "hint": "upload it again", "message": "since narrows a source"}]
    assert (told["embedded"], told["error"]) == (3, None)
