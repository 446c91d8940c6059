"""The how-to's code runs as it is written, on the default store, embedder and evaluator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.clock import SystemClock
from kb.memories import Note, open_memories
from kb.settings import load_settings
from tests.fakes.scripted_model import ScriptedModel, calling

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "langchain-agent.md"
FACT = "Customers have 30 days to return a lamp."


def test_the_code_of_the_page_runs(
    tmp_path: Path, model_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KB_CACHE_DIR", str(model_cache))
    monkeypatch.setenv("KB_INDEX_IDLE_SECONDS", "2")
    with open_memories(load_settings(), SystemClock()) as memories:
        memories.add_note(Note(text=FACT, tenant="default"))
    replies = ["Thirty days.", calling("web_search", query="return a lamp"), "Thirty days.", "Nothing.", "Thirty days."]
    model = ScriptedModel(script=list(replies))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"model": model, "__name__": "howto"}
    exec(compile("\n".join(blocks), str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    turn, search, after_search, other_tenant, chain = model.prompts
    assert FACT in str(turn[-2].content)
    assert FACT in str(search[-2].content)
    assert "https://shop.example/returns" in str(after_search[-1].content)
    assert "rain" not in str(after_search)
    assert FACT not in str(other_tenant)
    assert FACT in str(chain[0].content)
    assert names["answer"] == "Thirty days."
    assert (names["said"]["outcome"], len(names["said"]["citations"])) == ("answered", 1)
    assert "Thirty days." in capsys.readouterr().out
