"""The console's Chinese: every word that a page shows has one, every one is used, and none loses what it is to hold."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from jinja2 import Environment, nodes

from crag_runtime.evidence import Label, Outcome, Verdict
from governance.comparing.sayings import ValueKind
from governance.console import app
from governance.console.showing import HERE, translations
from governance.queue import Waits
from kb.history import EdgeKind, EvidenceKind
from kb.ledger.runs import RunStatus
from kb.model import Kind, SourceClass, Standing
from kb.sweeps import ActionKind, SweepJob, SweepStatus
from tests.architecture.tree import ROOT

if TYPE_CHECKING:
    from enum import StrEnum
    from pathlib import Path

ENUMS: tuple[type[StrEnum], ...] = (Standing, Kind, SourceClass, SweepJob, SweepStatus, ActionKind, EvidenceKind,
                                    EdgeKind, Waits, ValueKind, Outcome, Verdict, Label, RunStatus)  # fmt: skip
OURS = {app.UNFORESEEN, app.MALFORMED, app.ABSENT}
TEMPLATES = sorted((HERE / "templates").glob("*.html"))
# What `t` is given that is no enumeration's: told by the code that makes it, and looked for there.
MADE = {
    "governance/explain.py": r'what="(\w+)"',
    "governance/rollback.py": r'^ {12}"(\w+)": (?:sum|len|self|kinds)\b',
    "governance/lineage.py": r'"type": "(\w+)"|"(search|root|gone)"',
    "governance/running.py": r'SKIPPED = "(\w+)"',
    "kb/ledger/erasing.py": r'^    "(\w+)": \(\w+, \(|"(outbox|vectors|documents|versions)"',
}


def calls(template: Path) -> list[nodes.Call]:
    tree = Environment(autoescape=True).parse(template.read_text(encoding="utf-8"))
    return [c for c in tree.find_all(nodes.Call) if isinstance(c.node, nodes.Name) and c.node.name == "t"]


def constants() -> set[str]:
    """Return the words that templates pass to `t` as they stand."""
    given = [c.args[0] for template in TEMPLATES for c in calls(template)]
    return {c.value for arg in given for c in ([arg] if isinstance(arg, nodes.Const) else arg.find_all(nodes.Const))}


def made() -> set[str]:
    """Return the words that code makes for pages."""
    found = set()
    for path, pattern in MADE.items():
        matches = re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        words = set(chain.from_iterable([m] if isinstance(m, str) else m for m in matches)) - {""}
        assert words, path
        found |= words
    return found


def shown() -> set[str]:
    return constants() | {member.value for enum in ENUMS for member in enum} | OURS | made()


def test_every_word_that_a_page_shows_has_a_translation() -> None:
    assert sorted(shown() - {Standing.STAGED.value} - set(translations())) == []


def test_no_translation_is_unused() -> None:
    assert sorted(set(translations()) - shown()) == []


def test_no_translation_lacks_a_place_for_what_it_is_given() -> None:
    def places(text: str) -> set[str]:
        return set(re.findall(r"\{(\w*)\}", text))

    assert {e: c for e, c in translations().items() if places(e) != places(c)} == {}


def test_every_translation_is_chinese_and_stands_once() -> None:
    assert {e: c for e, c in translations().items() if not re.search(r"[一-鿿]", c)} == {}
    text = (HERE / "zh.json").read_text(encoding="utf-8")
    keys = re.findall(r'"((?:[^"\\]|\\.)*)": "', text)
    assert len(keys) == len(set(keys)) == len(translations())


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda p: p.name)
def test_a_call_gives_exactly_what_its_words_hold(template: Path) -> None:
    for call in calls(template):
        if isinstance(call.args[0], nodes.Const):
            holds = set(re.findall(r"\{(\w+)\}", call.args[0].value))
            assert {k.key for k in call.kwargs} == holds, call.args[0].value


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda p: p.name)
def test_no_template_says_words_of_its_own(template: Path) -> None:
    """Words between tags would stay English: all but names of programs come out of `t`."""
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", " ", template.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"<(code|kbd)>.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    assert set(re.findall(r"[A-Za-z]{2,}", text)) <= {"kb"}
