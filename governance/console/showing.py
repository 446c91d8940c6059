"""Pages from templates: everything is escaped, since a memory is hostile input; words in the reader's language."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from governance.console.charts import fitted
from governance.console.visible import is_web, visible
from governance.console.visitor import language_of
from kb.clock import iso

if TYPE_CHECKING:
    from fastapi import Request

    from governance.console.visitor import Visitor
    from kb.model import Instant

HERE = Path(__file__).parent
READS = ("GET", "HEAD")
CHINESE = HERE / "zh.json"


def page(request: Request, name: str, who: Visitor | None, /, *, status: int = 200, **given: Any) -> HTMLResponse:  # noqa: ANN401 - a template's values
    """Return a page in the visitor's language."""
    language = who.language if who is not None else language_of(request)
    words = translations() if language == "zh" else {}

    def said(english: str, **values: object) -> str:
        found = words.get(english) or english.replace("_", " ")  # names of values are words, too
        return found.format(**values) if values else found

    home = request.scope.get("root_path", "")
    here = request.url.path.removeprefix(home) or "/"
    place = f"{here}?{request.url.query}" if request.url.query else here
    if request.method not in READS:  # where a form was sent there is no page to come back to
        place = "/"
    named = {"t": said, "language": language, "who": who, "home": home, "here": here}
    text = _environment().get_template(name).render(**named, place=place, **given)
    return HTMLResponse(text, status_code=status)


@cache
def translations() -> dict[str, str]:
    """Return the Chinese words by the English ones."""
    found: dict[str, str] = json.loads(CHINESE.read_text(encoding="utf-8"))
    return found


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["fit"] = fitted
    made.filters.update(instant=_instant, when=_when, day=_day, short=_short, percent=_percent, part=_part, kept=_kept)
    made.tests["web"] = is_web
    return made


def _instant(at: Instant | None) -> str:
    return (iso(at) or "–").replace("T", " ").removesuffix("Z")


def _when(at: Instant | None) -> Markup:
    """Return an instant for readers and machines; a page says once that times are in UTC."""
    named = iso(at)
    return Markup("–") if named is None else Markup("<time datetime='{}'>{}</time>").format(named, _instant(at))


def _day(at: Instant | None) -> str:
    return (iso(at) or "–")[:10]


def _short(id_: str) -> str:
    return id_ if len(id_) <= 12 else f"{id_[:10]}…"  # noqa: PLR2004 - as much as a reader compares


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _part(id_: str) -> str:
    """Return an id as one part of a path."""
    return quote(id_, safe="")


def _kept(value: str) -> Markup:
    """Return what a form must send back exactly as it came, escaped and otherwise as it is."""
    return escape(value)
