"""What is configured as a secret, or as an address with a password in it, is in no form in which anything is shown."""

from __future__ import annotations

import asyncio
import json
import traceback
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from crag_runtime.caches import open_cache
from crag_runtime.checkpoints import open_checkpointer
from crag_runtime.searchers import open_search
from crag_runtime.threads import Threads
from kb import log
from kb.addresses import Address, without_secret
from kb.chat import Message
from kb.chat.openai import OpenAIChat
from kb.clock import SystemClock
from kb.embedders import open_embedder
from kb.embedders.openai import OpenAIEmbedder
from kb.errors import ConfigError, KbError
from kb.index.milvus import open_server
from kb.ledger import open_ledger
from kb.ledger.engine import target_of
from kb.settings import Settings, load_settings
from serving.limits import opened_buckets
from tests.fakes.chat_server import ChatServer
from tests.fakes.search_server import Reply, SearchServer
from tests.secrets import Secret, leaks, secrets, unmasked
from tests.tracing import logged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEAD = "127.0.0.1:9"
SCHEMES = {"ledger_url": "postgresql", "checkpoint_url": "postgresql", "limits_url": "redis", "grade_cache": "redis"}
HELD = {secret.variable: secret.sentinel for secret in secrets()}
CHOSEN = {
    "KB_EMBEDDER": "openai",
    "KB_EMBEDDING_DIM": "8",
    "KB_CHAT__MODEL": "m",
    "KB_CHAT__RETRIES": "0",
    "KB_INDEX_TIMEOUT": "1",
    "KB_ASK__CHECKPOINTER": "postgres",
}


def value_of(secret: Secret) -> str:
    scheme = SCHEMES.get(secret.path[-1], "http")
    return f"{scheme}://kb:{secret.sentinel}@{DEAD}/x" if secret.is_address else secret.sentinel


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    for name, value in {**CHOSEN, **{secret.variable: value_of(secret) for secret in secrets()}}.items():
        monkeypatch.setenv(name, value)
    return load_settings(data_dir=tmp_path, cache_dir=tmp_path)


def test_no_setting_whose_name_tells_of_a_secret_or_an_address_is_a_plain_text() -> None:
    assert unmasked() == []
    assert {s.path[-1] for s in secrets()} >= {*SCHEMES, "api_key", "index_token", "session_secret", "index_uri"}


def test_settings_show_no_secret_in_any_form(settings: Settings) -> None:
    nested = {name: getattr(settings, name) for name in Settings.model_fields}
    shown = {
        "repr": repr(settings), "str": str(settings), "dump": repr(settings.model_dump()),
        "json": settings.model_dump_json(), "nested": repr(nested), "copy": repr(settings.model_copy(deep=True)),
        "dict": repr(dict(settings)),
    }  # fmt: skip
    assert leaks({where: text.encode() for where, text in shown.items()}, HELD) == []
    assert settings.index_uri == f"http://kb:{HELD['KB_INDEX_URI']}@{DEAD}/x"  # what is used is whole


def adapters(settings: Settings, threads: Threads) -> dict[str, Any]:
    assert settings.ledger_url is not None
    return {
        "embedder": open_embedder(settings),
        "chat": OpenAIChat.from_settings(settings),
        "tavily": open_search(_searching(settings, "tavily"), threads),
        "searxng": open_search(_searching(settings, "searxng"), threads),
        "limits": opened_buckets(settings.serve),
        "cache": open_cache(settings, SystemClock()),
        "milvus": open_server(settings),
        "ledger": target_of(settings.ledger_url.get_secret_value(), settings.data_dir),
    }


def _searching(settings: Settings, provider: str) -> Settings:
    key = Settings.model_validate({"search": {"api_key": f"tvly-{HELD['KB_SEARCH__API_KEY']}"}}).search.api_key
    return settings.model_copy(
        update={"search": settings.search.model_copy(update={"provider": provider, "api_key": key})}
    )


def told(value: Any, depth: int = 4) -> str:
    """Return what an object says of itself, and of what it is made of, as a debugger or a dataclass would show it."""
    parts = vars(value) if hasattr(value, "__dict__") else {n: getattr(value, n, None) for n in _slots(value)}
    ours = {n: p for n, p in parts.items() if type(p).__module__.split(".")[0] in ("kb", "crag_runtime", "serving")}
    inside = [told(p, depth - 1) for p in ours.values() if depth and type(p) is not Address]
    return "\n".join([repr(value), str(value), *inside])


def _slots(value: Any) -> list[str]:
    return [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]


def test_no_adapter_shows_a_secret_nor_what_it_is_made_of(settings: Settings) -> None:
    with closing(Threads(1)) as threads:
        shown = {name: told(adapter).encode() for name, adapter in adapters(settings, threads).items()}
    assert leaks(shown, HELD) == []


def failures(settings: Settings, threads: Threads, *, is_spoilt: bool) -> dict[str, bytes]:
    """Return the errors, and their tracebacks, of every service when it is first used."""
    embedder = OpenAIEmbedder.from_settings(settings)
    embedder._sleep = lambda _: None  # it repeats a call for ten seconds
    assert settings.ledger_url is not None
    address = settings.ledger_url.get_secret_value()

    async def asked() -> None:
        async with aclosing(OpenAIChat.from_settings(settings)) as chat:
            await chat.complete([Message(role="user", content="toll")])

    def searched(provider: str) -> object:
        search = open_search(_searching(settings, provider), threads)
        assert search is not None
        return asyncio.run(search.search("toll", limit=1))

    async def checkpoints() -> None:
        async with open_checkpointer(settings, needs_one=True):
            pass

    uses: dict[str, Callable[[], object]] = {
        "ledger": lambda: open_ledger(address, data_dir=settings.data_dir),
        "milvus": lambda: open_server(settings).has("kb_x"),
        "chat": lambda: asyncio.run(asked()),
        "embedder": lambda: embedder.queries(["toll"]),
        "tavily": lambda: searched("tavily"),
        "searxng": lambda: searched("searxng"),
    }
    if is_spoilt:  # of one that is away the pool waits for long, and says as little
        uses |= {
            "checkpoints": lambda: asyncio.run(checkpoints()),
            "cache": lambda: open_cache(settings, SystemClock()),
        }
    return {name: text.encode() for name, use in uses.items() if (text := failure(use))}


def failure(use: Callable[[], object]) -> str:
    try:
        use()
    except KbError as error:
        log.get_logger().error("failed", exc_info=error)
        return "\n".join([str(error), error.hint, *traceback.format_exception(error)])
    return ""


@pytest.mark.parametrize("is_spoilt", [False, True], ids=["away", "no address"])
def test_no_error_quotes_an_address_that_leads_nowhere_or_is_none(settings: Settings, *, is_spoilt: bool) -> None:
    with logged("debug") as written, closing(Threads(1)) as threads:
        shown = failures(spoilt(settings) if is_spoilt else settings, threads, is_spoilt=is_spoilt)
    assert shown.keys() >= {"ledger", "milvus", "chat", "embedder"}
    assert leaks({**shown, "log": written.getvalue().encode()}, HELD) == []


def spoilt(settings: Settings) -> Settings:
    """Return settings whose addresses are none."""
    bare = {name: Address(f"kb:{HELD[name]}@{DEAD}") for name in HELD}
    odd = {name: SecretStr(HELD[name]) for name in HELD}
    parts: dict[str, Any] = {
        "chat": {"base_url": bare["KB_CHAT__BASE_URL"]},
        "search": {"url": bare["KB_SEARCH__URL"]},
        "ask": {"grade_cache": bare["KB_ASK__GRADE_CACHE"], "checkpoint_url": odd["KB_ASK__CHECKPOINT_URL"]},
    }
    changed = {name: getattr(settings, name).model_copy(update=update) for name, update in parts.items()}
    top = {
        "index_uri": bare["KB_INDEX_URI"],
        "openai_base_url": bare["KB_OPENAI_BASE_URL"],
        "ledger_url": odd["KB_LEDGER_URL"],
    }
    return settings.model_copy(update={**changed, **top})


def test_no_error_passes_on_what_an_endpoint_says_of_the_key_it_was_shown(settings: Settings) -> None:
    with ChatServer() as chat, SearchServer() as web, closing(Threads(1)) as threads, logged("debug") as written:
        chat.key = "another"  # it answers 401, and quotes the key
        said = json.dumps(
            {"detail": {"error": f"no such key: {HELD['KB_SEARCH__API_KEY']}"}, "error": HELD["KB_SEARCH__API_KEY"]}
        )
        web.script += [Reply(status=401, body=said.encode())] * 2
        there = {
            "openai_base_url": Address(chat.url),
            "chat": settings.chat.model_copy(update={"base_url": Address(chat.url)}),
            "search": settings.search.model_copy(update={"url": Address(web.base)}),
        }
        shown = failures(settings.model_copy(update=there), threads, is_spoilt=False)
    assert {"chat", "embedder", "tavily"} <= shown.keys()
    told = {name: text.split(b"Traceback", 1)[0] for name, text in shown.items()}
    assert leaks({**told, "log": written.getvalue().encode()}, HELD) == []


@pytest.mark.parametrize(
    "toml",
    ['openai_api_key = "{}', 'openai_api_keyy = "{}"', 'openai_api_key = ["{}"]', '[chat]\napi_key = "{}"\nnope = 1'],
)
def test_a_setting_that_is_not_valid_is_named_and_its_value_is_not(
    toml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kb.toml").write_text(toml.format(HELD["KB_OPENAI_API_KEY"]))
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert leaks({"error": str(refused.value).encode()}, HELD) == []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://kb:s@milvus:19530/db?token=s", "http://milvus:19530/db"),
        ("redis://:s@h/0", "redis://h/0"),
        ("kb:s@milvus:19530", "milvus:19530"),
        ("milvus:19530?token=s", "milvus:19530"),
        ("http://kb:s/s@h/", "http://***"),
        ("http://h/x?token=s@s", "http://***"),
        ("http://[h", "***"),
        ("memory", "memory"),
        ("/srv/a@b/milvus.db", "/srv/a@b/milvus.db"),
        ("unix:/run/kb.sock", "unix:/run/kb.sock"),
    ],
)
def test_an_address_is_shown_without_user_password_and_options(address: str, shown: str) -> None:
    assert without_secret(address) == shown
    assert repr(Address(address)) == repr(shown)
    assert str(Address(address)) == address
