"""Takes the pictures of docs/howto/console: the review console over an invented harbour, at a fixed time, in Chromium.

    .venv/bin/python docs/screenshots.py [FOLDER]

Needs Chromium and a font that has Chinese (on Debian: chromium, fonts-noto-cjk).
"""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402 - after the path
from playwright.sync_api import sync_playwright  # noqa: E402

from governance.corroborate import plan_promote  # noqa: E402
from governance.planning import planned  # noqa: E402
from governance.sweep import apply  # noqa: E402
from kb.history import AnswerId  # noqa: E402
from kb.model import MemoryId, Passage, SourceClass, Standing  # noqa: E402
from kb.sweeps import SweepJob  # noqa: E402
from kb.trust import DAY_MS, trusted  # noqa: E402
from tests.consoling import answered, of_tenant, open_console, witnessed  # noqa: E402
from tests.disputing import FIFTY, FORTY, FUENFZIG, POLICIES, VIERZIG, keep, policy, recheck  # noqa: E402
from tests.stores import T0  # noqa: E402

if TYPE_CHECKING:
    from kb.model import Memory
    from tests.consoling import Console

TENANT = "harbour"
COLOURS = 128
DESK, PHONE = {"width": 1100, "height": 760}, {"width": 390, "height": 780}
THINGS = ("crane", "quay", "lock gate", "ferry", "beacon", "pilot boat", "warehouse", "tug")
FACTS = (
    "is checked every spring",
    "is closed in a storm",
    "was rebuilt after the flood",
    "belongs to the harbour office",
)


def main() -> None:
    """Seed a store, open its console, take the pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "howto" / "console"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, open_console(Path(scratch)) as console:
        take(console, seeded(console), folder)


def seeded(console: Console) -> dict[str, str]:
    """Fill the store and return the ids that pictures are of."""
    store = console.memories
    one = titled(of_tenant(TENANT, "bridge", FORTY), "Harbour Bridge", "https://harbour.example/bridge")
    other = titled(of_tenant(TENANT, "repair", FIFTY), "Harbour Bridge", "https://works.example/repair-2026")
    zh = titled(of_tenant(TENANT, "bridge-zh", VIERZIG), "海港大桥", "https://harbour.example/zh/bridge")
    zh_other = titled(of_tenant(TENANT, "zh-repair", FUENFZIG), "海港大桥", "https://works.example/zh/repair")
    pier = of_tenant(TENANT, "pier", "The east pier is closed for repairs until spring.", by=SourceClass.AGENT)
    pier = named(pier)
    ferry = of_tenant(TENANT, "ferry", "The ferry leaves the east pier at nine on working days.", verified=True)
    half_life = POLICIES[ferry.source_class].half_life
    ferry = replace(named(ferry), trust=trusted(0.95, T0 - 3 * DAY_MS, half_life, verified_at=T0 - 183 * DAY_MS))
    keep(store, one, other, zh, zh_other, pier, ferry)
    witnessed(store, pier, "marked as helpful by mira", "marked as helpful by tom")
    asked(console, one)
    note = of_tenant(
        TENANT, "tender", "Heavy loads need the 40 ton permit of the harbour office.", by=SourceClass.AGENT
    )
    note = named(note)
    keep(store, note)
    own = policy(tenant=TENANT)
    recheck(store, by=own)
    keep(store, *crowd())
    apply(store, plan_promote(store, own, T0), policy=own, actor="daemon")
    console.clock.advance(60_000)
    prune = planned(store, SweepJob.PRUNE, own, console.clock.now())
    apply(store, replace(prune, actions=prune.actions[:2]), policy=own, actor="daemon", allow_mass=True)
    return {"one": one.id, "pier": pier.id}


def crowd() -> list[Memory]:
    """Return memories of every age, so that there is something to count."""
    dice = random.Random(7)  # noqa: S311 - the same picture every time
    made = []
    for n in range(150):
        by = dice.choice((SourceClass.DOCUMENT, SourceClass.DOCUMENT, SourceClass.CURATED, SourceClass.WEB))
        text = f"The {dice.choice(THINGS)} number {n} {dice.choice(FACTS)}."
        memory = of_tenant(TENANT, f"c{n:03}", text, by=by, source=f"file://harbour/{n % 12}.md")
        age, own = int(dice.random() ** 3 * 250) * DAY_MS, POLICIES[by]
        trust = trusted(own.confidence, T0 + own.hold - age, own.half_life, verified_at=memory.trust.verified_at)
        active = {"standing": Standing.ACTIVE, "standing_reason": ""}
        made.append(replace(named(memory), trust=trust, created_at=T0 - age, updated_at=T0 - age, **active))
    return made


def named(memory: Memory) -> Memory:
    """Return a memory with an id like those that the product gives."""
    return replace(memory, id=MemoryId(hashlib.sha256(memory.id.encode()).hexdigest()[:32]))


def titled(memory: Memory, title: str, url: str) -> Memory:
    """Return a memory of a document with a title and an address of its own."""
    return replace(named(memory), metadata={"url": url}, passage=Passage(end=len(memory.text), title=title))


def asked(console: Console, cited: Memory) -> None:
    """Record what was asked: one answer that counts, and others for the rates."""
    answer = answered(console.memories, TENANT, cited, created_at=T0 - DAY_MS)
    ends = (
        ("answered", "correct", 0),
        ("partial", "ambiguous", 1),
        ("refused", "incorrect", 1),
        ("conflict", "correct", 0),
    )
    with console.memories.ledger.write() as tx:
        for n in range(40):
            outcome, verdict, searches = ends[(0, 0, 0, 1, 0, 2, 0, 3)[n % 8]]
            report = {"usage": {"searches": searches}}
            said = {"outcome": outcome, "verdict": verdict, "report": report, "created_at": T0 - n * 3_600_000}
            tx.answers.add(
                replace(answer, id=AnswerId(f"a{n:03}"), citations=(), question=f"When is quay {n} open?", **said)
            )


def take(console: Console, ids: dict[str, str], folder: Path) -> None:
    """Take every picture."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    shots = (
        ("overview", "/", "en-GB", DESK, "light"),
        ("queue", "/queue", "en-GB", DESK, "light"),
        ("memory", f"/memories/{ids['one']}", "en-GB", DESK, "light"),
        ("lineage", f"/memories/{ids['one']}/lineage", "en-GB", {"width": 1100, "height": 480}, "light"),
        ("preview", "/sweeps/preview?job=prune", "en-GB", {"width": 1100, "height": 620}, "light"),
        ("queue-zh", "/queue#i-3", "zh-CN", DESK, "dark"),
        ("phone", "/queue?why=quarantined", "en-GB", PHONE, "light"),
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, path, locale, size, scheme in shots:
            page = browser.new_context(locale=locale, viewport=size, color_scheme=scheme).new_page()
            page.goto(f"{console.url}/login")
            page.locator("#key").fill(console.key(TENANT))
            page.locator("#key").press("Enter")
            page.wait_for_url("**/console/")
            page.goto(console.url + path)
            saved(page.screenshot(), folder / f"{name}.png")
        browser.close()


def saved(png: bytes, path: Path) -> None:
    """Write a picture with few colours, which is all that a page of text needs."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main()
