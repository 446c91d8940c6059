"""A page that exists in Chinese shows the same commands, in the same order, as its English original."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.tree import files, name

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = {"bash", "sh", "shell", "console"}
CHINESE = [p for p in files() if p.name.endswith(".zh.md")]


def original(page: Path) -> Path:
    return page.with_name(page.name.replace(".zh.md", ".md"))


def code_blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, code) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Return the command lines of every shell block and of every block that shows a prompt; comments may differ."""
    found = []
    for language, code in code_blocks(text):
        lines = code.splitlines()
        if language in SHELLS:
            bare = [re.sub(r"(^|\s)#.*$", "", line).rstrip() for line in lines]
            found.append([line for line in bare if line])
        elif any(line.startswith("$ ") for line in lines):
            found.append(lines)  # what a program prints is not translated
    return found


def other_blocks(text: str) -> list[str]:
    """Return the languages of the blocks that are neither commands nor a drawing."""
    return [language for language, _ in code_blocks(text) if language and language not in SHELLS]


def test_the_readme_and_the_tutorial_are_there_in_chinese() -> None:
    assert {name(p) for p in CHINESE} >= {"README.zh.md", "docs/tutorial.zh.md"}


@pytest.mark.parametrize("page", CHINESE, ids=name)
def test_a_chinese_page_shows_the_commands_of_its_original(page: Path) -> None:
    english, chinese = (p.read_text(encoding="utf-8") for p in (original(page), page))
    assert commands(chinese) == commands(english)
    assert other_blocks(chinese) == other_blocks(english)


@pytest.mark.parametrize("page", CHINESE, ids=name)
def test_a_chinese_page_has_the_sections_of_its_original(page: Path) -> None:
    def levels(path: Path) -> list[str]:
        without_code = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        return re.findall(r"^#+(?= )", without_code, re.MULTILINE)

    assert levels(page) == levels(original(page))


@pytest.mark.parametrize("page", CHINESE, ids=name)
def test_a_page_and_its_translation_lead_to_each_other(page: Path) -> None:
    assert f"]({original(page).name})" in page.read_text(encoding="utf-8")
    assert f"]({page.name})" in original(page).read_text(encoding="utf-8")


def test_a_changed_command_would_be_found() -> None:
    english = "```bash\nkb ask x   # why\n```\n\n```\n$ kb status\nfine\n```\n"
    assert commands(english.replace("why", "为什么")) == commands(english)
    assert commands(english.replace("kb ask", "kb search")) != commands(english)
    assert commands(english.replace("fine", "好")) != commands(english)
