"""Pages from templates: everything is escaped, since a memory is hostile input; words in the reader's language."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from governance.console.visitor import language_of
from kb.clock import iso

if TYPE_CHECKING:
    from fastapi import Request

    from governance.console.visitor import Visitor
    from kb.model import Instant

HERE = Path(__file__).parent
CHINESE = HERE / "zh.json"


def page(request: Request, name: str, who: Visitor | None, /, *, status: int = 200, **given: Any) -> HTMLResponse:  # noqa: ANN401 - a template's values
    """Return a page in the visitor's language."""
    language = who.language if who is not None else language_of(request)
    words = translations() if language == "zh" else {}

    def said(english: str, **values: object) -> str:
        found = words.get(english, english)
        return found.format(**values) if values else found

    home = request.scope.get("root_path", "")
    text = (
        _environment()
        .get_template(name)
        .render(
            t=said,
            language=language,
            who=who,
            home=home,
            here=request.url.path.removeprefix(home) or "/",
            **given,
        )
    )
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
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(instant=_instant, short=_short, percent=_percent)
    return made


def _instant(at: Instant | None) -> str:
    return (iso(at) or "–").replace("T", " ").removesuffix("Z")


def _short(id_: str) -> str:
    return id_ if len(id_) <= 12 else f"{id_[:10]}…"  # noqa: PLR2004 - as much as a reader compares


def _percent(share: float) -> str:
    return f"{share:.0%}"
