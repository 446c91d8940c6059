"""Whatever memories, answers and people say, a page of the console shows it as words and does nothing of it."""

from __future__ import annotations

import re

import lxml.html
import pytest

from governance.console.visible import is_web, visible
from tests.hostile import HOSTILE, PLAIN, pages_of

URLS = ("JaVaScRiPt:alert(1)", "data:text/html,<script>1</script>", "//evil.test/x", "https://bank.test@evil.test/",
        'https://evil.test/"onclick="x')  # fmt: skip
NO_LINKS = (*URLS, "javascript:alert(1)", "vbscript:x", " https://evil.test", "https:evil.test", "file:///etc/passwd",
            "blob:x", "http://", "https://evil.test/\u202egpj", "http://[::1", "https://", "", None, 7)  # fmt: skip
OURS = {"/console/static/htmx.min.js", "/console/static/console.js"}


def skeleton(page):
    """Return what a page is made of, without its words: elements with the names of their attributes, in any order."""
    return sorted((e.tag, sorted(e.attrib)) for e in page.iter() if isinstance(e.tag, str))


def inert(reply):
    """Return a page as elements, and check that nothing on it acts but what is ours."""
    page = lxml.html.fromstring(reply.text)
    assert {s.get("src") for s in page.iter("script")} <= OURS
    assert not any(s.text for s in page.iter("script"))
    for element in page.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag not in {"iframe", "object", "embed", "style", "base", "animate", "img", "foreignobject"}
        for name, value in element.attrib.items():
            assert not name.startswith(("on", "style", "srcdoc")), name
            assert name == "hx-boost" or not name.startswith(("hx-", "data-hx")), name
            if name in {"href", "src", "action", "formaction"}:
                assert re.match(r"/console/|#content$|https?://", value), value
                if not value.startswith(("/console/", "#")):
                    assert element.get("rel") == "noopener noreferrer nofollow"
    return page


@pytest.fixture(scope="module")
def plain(console):
    """The pages of a tenant that holds nothing bad, as elements."""
    return [skeleton(inert(r)) for _, r in pages_of(console, "plain", PLAIN, "note://harmless")]


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_hostile_words_are_shown_as_words_on_every_page(console, tenant, plain, words):
    found = pages_of(console, tenant, words, "note://harmless")
    pages = [(path, inert(reply)) for path, reply in found]
    assert [skeleton(page) for _, page in pages] == plain
    texts = {path: page.text_content() for path, page in pages}
    shown = str(visible(words))
    for path, text in texts.items():
        if path.startswith(("/queue", "/answers", "/memories/m-")):
            assert shown in text, path
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b]", text), path
    assert not any("window.stolen" in s for path, page in pages for s in page.xpath("//script/text()"))
    if "7*7" in words:
        assert any("{{7*7}}" in text for text in texts.values())
        assert not any("49{" in text or "$49" in text for text in texts.values())


@pytest.mark.parametrize("uri", NO_LINKS)
def test_only_a_whole_web_address_is_taken_for_one(uri):
    assert not is_web(uri)
    assert is_web("https://harbour.test/pages?q=a&b=c#d")


@pytest.mark.parametrize("uri", URLS)
def test_a_uri_that_is_no_plain_web_address_is_no_link(console, tenant, plain, uri):
    found = pages_of(console, tenant, PLAIN, uri)
    assert [skeleton(inert(reply)) for _, reply in found] == plain


def test_a_plain_web_address_is_a_link_that_tells_nobody_where_it_was_found(console, tenant):
    uri = "https://harbour.test/pages?q=bridge&lang=en"
    pages = {path: inert(reply) for path, reply in pages_of(console, tenant, PLAIN, uri)}
    for path in ("/queue", "/memories", f"/answers/a-{tenant}"):
        links = pages[path].xpath(f"//a[@href='{uri}']")
        assert links, path
        assert {a.get("rel") for a in links} == {"noopener noreferrer nofollow"}
