"""Fixtures of the review console: one server a module, and one browser."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.consoling import open_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.consoling import Console


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A running console that asks for keys. Its tenants are the tests' own."""
    with open_console(tmp_path_factory.mktemp("console")) as running:
        yield running


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    """A tenant that no other test knows."""
    return f"t{abs(hash(request.node.nodeid)):x}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium, as the machine has it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()
