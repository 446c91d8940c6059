"""Web searches behind the port `crag_runtime.ports.WebSearch`; which one is the settings' choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kb.addresses import canonical_url, without_secret
from kb.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from crag_runtime.ports import WebSearch
    from crag_runtime.threads import Threads
    from kb.settings import Settings


def open_search(settings: Settings, threads: Threads) -> WebSearch | None:
    """Return the configured web search; None when there is none. Nothing is connected before the first search.

    Raises:
        ConfigError: what the chosen provider needs is missing or wrong.
    """
    chosen = settings.search
    match chosen.provider:
        case "none":
            return None
        case "tavily":
            from crag_runtime.searchers.tavily import TavilyWebSearch  # noqa: PLC0415 - only when it is chosen

            url = _checked_url(chosen.url) if chosen.url else None
            key = _checked_key(chosen.api_key)
            return TavilyWebSearch(key, url=url, seconds=chosen.timeout_seconds, threads=threads)
        case "searxng":
            from crag_runtime.searchers.searxng import SearxngSearch  # noqa: PLC0415 - likewise

            if not chosen.url:
                raise ConfigError("searxng needs the URL of its instance", hint="set KB_SEARCH__URL, or [search] url")
            return SearxngSearch(_checked_url(chosen.url), seconds=chosen.timeout_seconds, threads=threads)
    assert_never(chosen.provider)


def _checked_url(url: str) -> str:
    if not canonical_url(url) or "?" in url or "#" in url:
        raise ConfigError(f"[search] url is {without_secret(url)!r}; it must be an absolute http(s) base URL")
    return url.strip()


def _checked_key(key: SecretStr | None) -> SecretStr:
    secret = "" if key is None else key.get_secret_value()
    if key is None or not secret:
        raise ConfigError("tavily needs a key", hint="set KB_SEARCH__API_KEY, or choose another [search] provider")
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError("[search] api_key holds characters that no key has", hint="copy the key once more")
    return key
