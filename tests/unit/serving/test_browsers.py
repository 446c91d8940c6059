"""What a browser is shown when the server turns it away from the console: a page in its language, inert and whole."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import lxml.html
import pytest

from serving.failures import REQUEST_ID, Turned, reply_to

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
TOO_MANY = Turned(HTTPStatus.TOO_MANY_REQUESTS, "too many requests", kind="TooManyRequests", retry_after=7.2)
KINDS = ("TooManyRequests", "Busy", "Starting", "Draining", "TooLarge", "WrongHost", "TimedOut")


def asked(path: str = "/console/queue", *, method: str = "GET", query: str = "", **headers: str) -> dict[str, Any]:
    """Return the scope of a browser's request."""
    named = {"accept": CHROME, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(k.encode(), v.encode()) for k, v in named.items()],
        "state": {REQUEST_ID: "r1"},
    }


def shown(scope: dict[str, Any], error: Exception = TOO_MANY) -> Any:
    """Return the page that an error is, as elements."""
    reply = reply_to(scope, error)  # type: ignore[arg-type] # as the framework's own tests call it
    assert reply.media_type == "text/html"
    return lxml.html.fromstring(bytes(reply.body).decode())


def test_a_browser_is_told_in_its_language_what_happened_and_when_to_come_back() -> None:
    reply = reply_to(asked(), TOO_MANY)
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "8")
    english, chinese = shown(asked()), shown(asked(accept_language="zh-CN,zh;q=0.9"))
    assert english.xpath("string(//*[@role='alert'])") == (
        "Too many requests came from here. Nothing was done. Try again in 8 s."
    )
    assert (english.get("lang"), chinese.get("lang")) == ("en", "zh-Hans")
    assert "8 秒" in chinese.xpath("string(//*[@role='alert'])")
    assert shown(asked(accept_language="zh-CN", cookie="kb_language=en")).get("lang") == "en"
    assert shown(asked(cookie="kb_session=x; kb_language=zh")).get("lang") == "zh-Hans"


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_every_way_to_be_turned_away_has_words_of_its_own(language: str) -> None:
    said = set()
    for kind in (*KINDS, "AnythingElse"):
        page = shown(asked(accept_language=language), Turned(HTTPStatus.SERVICE_UNAVAILABLE, "raw words", kind=kind))
        said.add(page.xpath("string(//*[@role='alert'])"))
        assert "raw words" not in page.text_content()
        assert "r1" in page.text_content()
    assert len(said) == len(KINDS) + 1


@pytest.mark.parametrize(
    ("scope", "media"),
    [
        (asked(), "text/html"),
        (asked("/console"), "text/html"),
        (asked(accept="*/*", hx_request="true"), "text/html"),
        (asked(accept="*/*"), "application/problem+json"),
        (asked(accept="application/json"), "application/problem+json"),
        (asked("/v1/ask"), "application/problem+json"),
        (asked("/consoles"), "application/problem+json"),
    ],
)
def test_only_a_browser_that_asks_for_the_console_gets_a_page(scope: dict[str, Any], media: str) -> None:
    assert reply_to(scope, TOO_MANY).media_type == media  # type: ignore[arg-type] # as above


def test_a_page_leads_back_to_what_was_asked_for_and_a_form_is_never_sent_again() -> None:
    assert shown(asked(query="why=due&page=2")).xpath("//a/@href") == ["/console/queue?why=due&page=2", "/console/"]
    assert shown(asked("/console/decide", method="POST")).xpath("//a/@href") == ["/console/"]


@pytest.mark.parametrize(
    "evil", ['"><script>alert(1)</script>', "'onclick=x y", "{title}{0}", "//evil.test", "\u202e大"]
)
def test_what_was_asked_for_stays_words(evil: str) -> None:
    page = shown(asked(f"/console/{evil}", query=evil.encode().decode("latin-1") if evil.isascii() else ""))
    assert {e.tag for e in page.iter()} == {e.tag for e in shown(asked()).iter()}
    assert all(href.startswith("/console/") for href in page.xpath("//a/@href"))
    assert {name for a in page.xpath("//a") for name in a.attrib} == {"href"}


def test_the_pages_own_style_is_all_that_its_policy_lets_act() -> None:
    reply = reply_to(asked(), TOO_MANY)
    style = re.search(r"<style>(.*)</style>", bytes(reply.body).decode(), re.DOTALL)
    assert style is not None
    policy = reply.headers["content-security-policy"]
    assert f"style-src 'sha256-{b64encode(sha256(style[1].encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"<style>" not in reply_to(asked(hx_request="true"), TOO_MANY).body  # which would only be complained of
