"""The settings choose the web search; what a choice needs is asked for only when it is chosen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from crag_runtime.searchers import open_search
from crag_runtime.threads import Threads
from kb.errors import ConfigError
from kb.settings import Settings, WebSearchSettings

ROOT = Path(__file__).parents[3]


@pytest.fixture
def threads():
    made = Threads(1)
    yield made
    made.close()


def opened(threads, **search):
    return open_search(Settings(search=WebSearchSettings(**search)), threads)


def test_without_a_choice_there_is_no_search_whatever_else_is_set(threads):
    assert opened(threads) is None
    assert opened(threads, api_key=SecretStr("bad key\n"), url="nonsense") is None


def test_each_provider_is_what_it_says(threads):
    tavily = opened(threads, provider="tavily", api_key=SecretStr("tvly-x"))
    searxng = opened(threads, provider="searxng", url="http://127.0.0.1:8888/searx/")
    assert (tavily.name, tavily.is_paid) == ("tavily", True)
    assert (searxng.name, searxng.is_paid) == ("searxng", False)


@pytest.mark.parametrize(
    "search",
    [
        {"provider": "tavily"},
        {"provider": "tavily", "api_key": SecretStr("")},
        {"provider": "tavily", "api_key": SecretStr("tvly-secret\n")},
        {"provider": "tavily", "api_key": SecretStr("tvly-sécret")},
        {"provider": "tavily", "api_key": SecretStr("tvly-secret"), "url": "proxy.example"},
        {"provider": "searxng"},
        {"provider": "searxng", "url": "localhost:8888"},
        {"provider": "searxng", "url": "ftp://search.example"},
        {"provider": "searxng", "url": "http://search.example/search?q="},
    ],
)
def test_what_a_provider_cannot_work_with_is_a_setting_to_change(threads, search):
    with pytest.raises(ConfigError) as caught:
        opened(threads, **search)
    assert "cret" not in str(caught.value)


def test_choosing_a_search_loads_no_vendor_of_seconds():
    code = (
        "import sys\n"
        "from crag_runtime.searchers import open_search\n"
        "from crag_runtime.threads import Threads\n"
        "from kb.settings import Settings\n"
        "open_search(Settings(search={'provider': 'tavily', 'api_key': 'tvly-x'}), Threads(1))\n"
        "print(sorted({'langchain_core', 'langchain_tavily', 'aiohttp', 'redis'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "[]", done.stderr
