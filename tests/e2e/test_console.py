"""The review console as its readers use it: a real server, a real Chromium, by mouse, by keys, and without scripts."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

from kb.model import Standing
from tests.consoling import PEOPLE, contested, due, furnished, now_of, standing_of, waiting
from tests.hostile import HOSTILE, pages_of
from tests.stores import sync, write

CRANES = [f"Crane number {n} of the harbour is painted yellow." for n in range(4)]
FOCUSED = """() => { const at = document.activeElement;
  return [(at.innerText || at.name || "").trim(), getComputedStyle(at).outlineStyle, at.tagName]; }"""
PHONE = {"width": 375, "height": 760}


class Reader:
    """A browser window whose every complaint is kept."""

    def __init__(self, context, console):
        self.page = context.new_page()
        self.url = console.url
        self.complaints = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("dialog", lambda d: (self.complaints.append(d.message), d.dismiss()))
        self.page.on("requestfailed", self.failed)
        foreign = re.compile(rf"^(?!{re.escape(console.url)})")
        self.page.on("request", lambda r: self.complaints.append(r.url) if foreign.match(r.url) else None)

    def failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # which is what becomes of a page's rest when one leaves it
            self.complaints.append(f"{request.url}: {request.failure}")

    def go(self, path):
        self.page.goto(self.url + path)

    def login(self, key):
        self.go("/login")
        self.page.locator("#key").fill(key)
        self.page.locator("#key").press("Enter")
        self.page.wait_for_url(re.compile(r"/console/$"))

    def item(self, memory):
        return self.page.locator("li.item").filter(has=self.page.locator(f'input[value="{memory.id}"]'))

    def done(self):
        """Wait until the page says what was done."""
        self.page.locator(".note.done").wait_for()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)


@pytest.fixture
def reading(browser, console, tenant):
    """Open a window that is logged in; what it complains of in the end fails the test."""

    @contextmanager
    def opened(*, scopes=PEOPLE, of=tenant, **options):
        context = browser.new_context(**options)
        reader = Reader(context, console)
        try:
            reader.login(console.key(of, *scopes))
            yield reader
            assert reader.complaints == []
        finally:
            context.close()

    return opened


def test_one_logs_in_by_key_and_out_again(reading, console):
    with reading() as reader:
        page = reader.page
        assert page.locator(".name").inner_text().startswith("ada · ")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(re.compile("/login$"))
        reader.go("/queue")
        assert page.url.endswith("/login")
        page.get_by_label("API key").fill("kb_nothing")
        page.get_by_role("button", name="Log in").click()
        assert page.get_by_role("alert").inner_text() == "This key is unknown, revoked or expired."
        assert reader.complaints.pop().startswith("Failed to load resource: the server responded with a status of 401")


def test_a_memory_is_verified_and_that_is_undone(reading, console, tenant):
    (note,) = waiting(console.memories, tenant)
    with reading() as reader:
        reader.go("/queue")
        reader.item(note).get_by_role("button", name="Verify until").click()
        reader.done()
        assert standing_of(console, note) is Standing.ACTIVE
        assert "Nothing waits for a person." in reader.page.locator("main").inner_text()
        reader.page.get_by_role("button", name="Undo").click()
        reader.page.wait_for_url(re.compile("/sweeps"))
        assert standing_of(console, note) is Standing.QUARANTINED


def test_many_are_rejected_at_once_with_a_reason_and_come_back_at_once(reading, console, tenant):
    notes = waiting(console.memories, tenant, *CRANES)
    with reading() as reader:
        reader.go("/queue")
        reader.page.locator("#all").check()
        reader.item(notes[0]).get_by_role("checkbox").uncheck()
        reader.page.locator("#bulk > .bar").get_by_label("reason").fill("the cranes are blue")
        reader.page.locator("#bulk > .bar").get_by_role("button", name="Reject").click()
        reader.done()
        assert "the cranes are blue" in now_of(console, notes[1]).standing_reason
        assert [reader.item(n).count() for n in notes] == [1, 0, 0, 0]
        reader.page.get_by_role("button", name="Undo").click()
        reader.page.wait_for_url(re.compile("/sweeps"))
        reader.go("/queue")
        assert [reader.item(n).count() for n in notes] == [1, 1, 1, 1]


def test_a_memory_is_pinned_and_remarked_on_from_its_page(reading, console, tenant):
    memory = due(console.memories, tenant)
    with reading() as reader:
        reader.go(f"/memories/{memory.id}")
        reader.page.get_by_role("button", name="Pin", exact=True).click()
        reader.done()
        assert now_of(console, memory).pinned
        reader.page.get_by_label("remark").fill("asked the ferry company <b>twice</b>")
        reader.page.get_by_role("button", name="Leave a remark").click()
        reader.page.get_by_text("“asked the ferry company <b>twice</b>”").wait_for()
        assert reader.page.get_by_role("button", name="Unpin").is_visible()


def test_both_sides_of_a_contradiction_stand_beside_each_other_with_their_difference_marked(reading, console, tenant):
    one, _ = contested(console.memories, tenant)
    with reading() as reader:
        reader.go("/queue?why=contested")
        item = reader.item(one).first
        assert item.locator(".side").count() == 2
        assert item.locator(".side mark").all_inner_texts() == ["40", "55"]
        item.get_by_role("button", name="Verify until").click()
        reader.done()
        assert now_of(console, one).trust.verified
        assert not now_of(console, one).contested


def test_a_source_is_rolled_back_after_a_look_at_its_reach_and_that_is_undone(reading, console, tenant, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    write(folder, cranes_md="# Cranes\n\nThe harbour has seven cranes, all of them yellow.\n")
    sync(console.memories, folder, tenant=tenant)
    (memory,) = console.memories.page(tenant, limit=10)
    with reading() as reader:
        reader.go("/sources")
        reader.page.get_by_role("link", name="Roll back…").click()
        reader.page.locator("#h-r").wait_for()
        act = reader.page.get_by_role("button", name="Roll this back")
        act.click()
        assert standing_of(console, memory) is Standing.ACTIVE  # the browser asks for the tick
        reader.page.get_by_label("Yes, all of this").check()
        act.click()
        reader.page.wait_for_url(re.compile(r"/sweeps/\w+$"))
        assert standing_of(console, memory) is Standing.QUARANTINED
        reader.page.get_by_role("button", name="Undo").click()
        reader.page.wait_for_url(re.compile(r"/sweeps\?done="))
        assert standing_of(console, memory) is Standing.ACTIVE


def test_a_sweep_is_looked_at_and_applied_and_a_stale_look_is_refused(reading, console, tenant):
    made = furnished(console.memories, tenant)
    with reading() as reader:
        reader.go("/sweeps")
        reader.page.get_by_role("link", name="preview: decay").click()
        reader.page.get_by_role("button", name="Apply exactly this").wait_for()
        other = console.visitor(tenant)
        stale = reader.page.locator('input[name="plan"]').input_value()
        other.decide("/decide", decision="pin", ids=made["faded"].id)
        reader.page.get_by_role("button", name="Apply exactly this").click()
        said = reader.page.get_by_role("alert").inner_text()
        assert said == "the store has changed since the preview: nothing was done"
        assert now_of(console, made["faded"]).trust.shown is None
        assert re.search("409", reader.complaints.pop())
        reader.go("/sweeps/preview?job=decay")
        assert reader.page.locator('input[name="plan"]').input_value() != stale
        reader.page.get_by_role("button", name="Apply exactly this").click()
        reader.page.wait_for_url(re.compile(r"/sweeps/\w{32}$"))
        assert now_of(console, made["faded"]).trust.shown is not None


def test_the_console_speaks_chinese_by_its_button_and_by_the_browsers_language(reading, console, tenant):
    one, _ = contested(console.memories, tenant, in_chinese=True)
    with reading() as reader:
        reader.go("/queue?why=contested")
        reader.page.get_by_role("link", name="中文").click()
        reader.page.get_by_role("heading", name="审核").wait_for()
        assert reader.page.url.endswith("/queue?why=contested")
        assert reader.page.locator("html").get_attribute("lang") == "zh-Hans"
        assert reader.item(one).first.locator("mark").all_inner_texts() == ["40", "55"]
        assert reader.item(one).first.locator(".why [lang=en]").count() == 1
        reader.page.get_by_role("link", name="English").click()
        reader.page.get_by_role("heading", name="Review").wait_for()
    with reading(locale="zh-CN") as reader:
        assert reader.page.get_by_role("heading", name="总览").is_visible()
        reader.go("/queue")
        reader.item(one).first.get_by_role("button", name="核实至").click()
        reader.page.get_by_text("已完成").wait_for()


def test_hands_on_the_keys_need_no_mouse(reading, console, tenant):
    notes = waiting(console.memories, tenant, *CRANES)
    with reading() as reader:
        reader.go("/queue")
        reader.press("j", "j", "k", "j")
        assert reader.page.locator(".item.at").get_attribute("id") == "i-2"
        reader.press("v")
        reader.done()
        assert standing_of(console, notes[1]) is Standing.ACTIVE
        assert reader.item(notes[2]).get_attribute("class") == "item at"  # where it was, the next one stands
        reader.press("x", "j", "x", "r")
        reader.item(notes[3]).wait_for(state="detached")
        assert [standing_of(console, n) for n in notes[2:]] == [Standing.QUARANTINED] * 2
        assert "rejected" in now_of(console, notes[3]).standing_reason
        reader.press("u")
        reader.page.wait_for_url(re.compile("/sweeps"))
        reader.page.locator(".note.done").wait_for()
        assert "rejected" not in now_of(console, notes[3]).standing_reason
        reader.go("/queue")
        reader.press("j", "Enter")
        reader.page.wait_for_url(re.compile(f"/memories/{notes[0].id}$"))


def test_every_control_of_the_queue_is_reached_and_seen_by_the_tab_key(reading, console, tenant):
    waiting(console.memories, tenant)
    with reading() as reader:
        reader.go("/queue")
        reached = []
        for _ in range(40):
            reader.press("Tab")
            name, outline, tag = reader.page.evaluate(FOCUSED)
            if tag == "BODY":
                break
            reached.append(name)
            assert outline != "none", name
        assert reached[0] == "Skip to content"
        assert {"Overview", "reason", "Verify", "Reject", "Pin", "ids"} <= set(reached)


def test_without_scripts_one_reads_and_decides_all_the_same(reading, console, tenant):
    notes = waiting(console.memories, tenant, *CRANES)
    with reading(java_script_enabled=False) as reader:
        page = reader.page
        reader.go("/queue")
        assert not page.locator("#all").is_visible()  # what needs scripts is not shown
        for note in notes[:2]:
            reader.item(note).get_by_role("checkbox").check()
        page.locator("#bulk > .bar").get_by_role("button", name="Verify", exact=True).click()
        reader.done()
        assert [standing_of(console, n) for n in notes[:2]] == [Standing.ACTIVE] * 2
        page.get_by_role("button", name="Undo").click()
        assert [standing_of(console, n) for n in notes[:2]] == [Standing.QUARANTINED] * 2
        reader.go("/queue")
        reader.item(notes[3]).get_by_role("button", name="Reject").click()
        assert page.url.endswith("#i-4")
        reader.go(f"/rollback?memory={notes[0].id}")
        page.get_by_label("Yes, all of this").check()
        page.get_by_role("button", name="Roll this back").click()
        assert "done" in page.locator("dl").inner_text()


def test_who_may_only_look_is_offered_nothing_to_decide(reading, console, tenant):
    made = furnished(console.memories, tenant)
    with reading(scopes=PEOPLE[:1]) as reader:
        for path in ("/queue", f"/memories/{made['one'].id}", f"/rollback?memory={made['one'].id}", "/sweeps"):
            reader.go(path)
            assert reader.page.locator('main form[method="post"]').count() == 0
        assert "read only" in reader.page.locator(".name").inner_text()


@pytest.fixture
def draining(console):
    """Let the server turn every request away while it is entered."""

    @contextmanager
    def away():
        traffic = console.served.app.state.traffic
        traffic.is_draining = True
        try:
            yield
        finally:
            traffic.is_draining = False

    return away


def test_who_is_turned_away_is_told_so_and_loses_nothing_that_was_typed(reading, console, tenant, draining):
    (note,) = waiting(console.memories, tenant)
    with reading() as reader:
        reader.go("/queue")
        reader.item(note).get_by_role("checkbox").check()
        bar = reader.page.locator("#bulk > .bar")
        bar.get_by_label("reason").fill("a long thought")
        with draining():
            bar.get_by_role("button", name="Reject").click()
            told = reader.page.get_by_role("alert")
            told.wait_for()
            assert told.inner_text() == "The server is shutting down. Nothing was done. Try again in 5 s."
        assert reader.page.evaluate(FOCUSED)[0] == told.inner_text()
        reader.page.route("**/decide", lambda route: route.abort())
        bar.get_by_role("button", name="Reject").click()
        reader.page.get_by_text("The server did not answer.").wait_for()
        assert reader.page.get_by_role("alert").count() == 1
        reader.page.unroute("**/decide")
        assert bar.get_by_label("reason").input_value() == "a long thought"
        assert reader.page.url.endswith("/queue")
        bar.get_by_role("button", name="Reject").click()
        reader.done()
        assert "a long thought" in now_of(console, note).standing_reason
        assert [c for c in reader.complaints if not re.search("503|ERR_FAILED|^htmx:", c)] == []
        reader.complaints.clear()


@pytest.mark.parametrize(("locale", "words"), [("en-GB", "Try again"), ("zh-CN", "重试")])
def test_a_page_that_cannot_be_had_now_is_a_page_all_the_same(reading, draining, locale, words):
    with reading(locale=locale) as reader:
        with draining():
            reader.go("/queue?why=due")
            assert reader.page.locator("html").get_attribute("lang") == ("zh-Hans" if locale == "zh-CN" else "en")
            assert "5" in reader.page.get_by_role("alert").inner_text()
        reader.page.get_by_role("link", name=words).click()
        reader.page.locator("nav.tabs").wait_for()
        assert reader.page.url.endswith("/queue?why=due")
        assert [c for c in reader.complaints if "503" not in c] == []
        reader.complaints.clear()


def test_a_page_that_is_swapped_in_begins_at_its_top_for_eyes_keys_and_ears(reading, console, tenant):
    notes = waiting(console.memories, tenant, *(f"Crane number {n} of the harbour is yellow." for n in range(30)))
    with reading() as reader:
        reader.go("/queue")
        reader.page.get_by_role("link", name="More").click()
        reader.page.wait_for_url(re.compile("page=2"))
        reader.item(notes[25]).wait_for()
        reader.page.locator("h1:focus").wait_for()
        assert reader.page.evaluate("window.scrollY") == 0
        reader.item(notes[25]).get_by_role("link").first.click()
        reader.page.wait_for_url(re.compile("/memories/"))
        reader.page.get_by_role("button", name="Pin", exact=True).click()
        reader.done()
        reader.page.locator(".note.done:focus").wait_for()
        assert reader.page.title() == f"{notes[25].id} · Memory · kb"


def test_after_a_refusal_the_page_before_it_is_the_one_that_is_loaded_again(reading, console, tenant):
    waiting(console.memories, tenant)
    with reading() as reader:
        reader.go("/queue")
        reader.page.locator("#bulk > .bar").get_by_role("button", name="Reject").click()  # of nothing
        assert reader.page.get_by_role("alert").inner_text() == "nothing was chosen"
        assert reader.page.title() == "That did not work (422) · kb"
        reader.page.get_by_role("link", name="中文").click()
        reader.page.get_by_role("heading", name="总览").wait_for()
        reader.page.go_back()
        reader.page.reload()
        assert reader.page.locator("li.item").count() == 1
        assert "422" in reader.complaints.pop()


@pytest.mark.parametrize("what", ["an attribute's end", "an htmx attribute"])
def test_hostile_words_do_nothing_in_a_real_browser(reading, console, tenant, what):
    pages = [
        reply.url for _, reply in pages_of(console, tenant, HOSTILE[what], "javascript:alert(1)") if reply.is_success
    ]
    with reading() as reader:
        for url in pages:
            reader.page.goto(str(url))
            reader.page.mouse.move(200, 200)
            assert reader.page.evaluate("window.stolen") is None
