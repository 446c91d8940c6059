"""How the console looks: on a phone, in the dark, in print, in both languages, and to who cannot see it."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from kb.model import Passage, SourceClass, SourceRoot
from tests.consoling import furnished, of_tenant
from tests.disputing import keep

PHONE = {"width": 375, "height": 760}
SERIOUS = {"serious", "critical"}
ABSENT = "/nowhere"  # whose status Chromium itself tells of
LANGUAGES = ("en-GB", "zh-CN")


@pytest.fixture(scope="module")
def pages(console):
    """Paths of every page of a tenant that has something of everything, with a key to it."""
    made = furnished(console.memories, "looks")
    endless = "endless" * 60
    long = of_tenant("looks", "long", endless, passage=Passage(end=1, title=endless, heading_path=(endless,)))
    keep(console.memories, long)
    with console.memories.ledger.write() as tx:
        root = SourceRoot(tenant="looks", name="a" * 90, location=endless, source_class=SourceClass.DOCUMENT)
        tx.sources.put(root)
    visit = console.visitor("looks")
    done = visit.decide(
        "/decide", decision="pin", ids=made["due"].id, reason="a reason with-one-word-that-never-" + "ends" * 60
    )
    sweep = re.search(r"done=(\w+)", done.headers["location"])[1]
    one = made["one"].id
    note = f"/memories/{made['note'].id}?done={sweep}"
    paths = ["/", f"/queue?done={sweep}&refused=1&at=1", "/memories", f"/memories/{one}", note,
             f"/memories/{long.id}", f"/memories/{one}/lineage", "/sweeps", f"/sweeps/{sweep}",
             "/sweeps/preview?job=decay",
             "/sweeps/preview?job=gc", f"/rollback?memory={one}", "/sources", "/answers",
             "/answers/a-looks", ABSENT]  # fmt: skip
    return paths, console.key("looks")


@pytest.fixture
def window(browser, console, pages):
    """Open a window that is logged in."""
    opened = []

    def made(**options):
        context = browser.new_context(**options)
        opened.append(context)
        page = context.new_page()
        page.goto(f"{console.url}/login")
        logged_in(page, pages[1])
        return page

    yield made
    for context in opened:
        context.close()


def logged_in(page, key):
    page.locator("#key").fill(key)
    page.locator("#key").press("Enter")
    page.wait_for_url(re.compile(r"/console/$"))


def violations(page, *rules):
    """Return what axe finds that is serious: rule and elements."""
    only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    options = {**only, "resultTypes": ["violations"]}
    found = page.evaluate("options => axe.run(document, options)", options)
    return [(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found["violations"] if v["impact"] in SERIOUS]


@pytest.mark.parametrize("locale", LANGUAGES)
def test_no_page_shuts_out_who_cannot_see_or_hear_it_well(window, console, pages, locale):
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    first = "light" if locale == "en-GB" else "dark"
    page = window(locale=locale, color_scheme=first)
    for path in pages[0]:
        page.goto(console.url + path)
        page.evaluate(axe)
        assert violations(page) == [], (path, first)
        page.emulate_media(color_scheme="dark" if first == "light" else "light")
        assert violations(page, "color-contrast") == [], (path, "the other scheme")
        page.emulate_media(color_scheme=first)
    page.goto(f"{console.url}/language/en?back=/login")
    page.evaluate(axe)
    assert violations(page) == []


def test_the_login_page_shuts_out_nobody_either(browser, console):
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{console.url}/login")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    assert violations(page) == []
    page.evaluate("document.querySelector('label').remove()")
    assert [rule for rule, _ in violations(page)] == ["label"]  # it would have been found
    context.close()


@pytest.mark.parametrize("locale", LANGUAGES)
def test_no_page_is_wider_than_a_phone(window, console, pages, locale):
    page = window(locale=locale, viewport=PHONE, has_touch=True)
    for path in pages[0]:
        page.goto(console.url + path)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"], path


def test_the_dark_scheme_is_dark_and_print_is_ink_on_paper(window, console):
    page = window(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert max(map(int, re.findall(r"\d+", page.evaluate(ground)))) < 60
    page.goto(f"{console.url}/queue")
    page.emulate_media(media="print")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert not page.locator("header nav").is_visible()
    assert not page.locator("#bulk > .bar").is_visible()
    assert page.locator("li.item .text").first.is_visible()


def test_no_page_complains_in_either_language(window, console, pages):
    said = []
    for locale in LANGUAGES:
        page = window(locale=locale)
        page.on("console", lambda m: None if m.location.get("url", "").endswith(ABSENT) else said.append(m.text))
        page.on("pageerror", lambda e: said.append(str(e)))
        for path in pages[0]:
            page.goto(console.url + path)
            assert said == [], path
