"""The text of HTML elements as a reader sees it: white space folded, scripts and hidden parts left out."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

Element = Any  # lxml's stubs know no single type for a node of a parsed page

BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure footer"  # noqa: SIM905 - a word list
    " form header hgroup hr html legend li main ol option p section summary table tbody td tfoot th thead tr ul".split()
)
DROPPED = frozenset(
    "script style title noscript template nav button select input textarea iframe object embed applet svg canvas audio"  # noqa: SIM905 - a word list
    " video map datalist noframes".split()
)
BREAK = "\x0b"  # stands for <br> until white space is folded
_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")
_HAN_BREAK = re.compile(r"(?<=[\u2e80-\u9fff\uff00-\uffef])[ \t]*\r?\n[ \t]*(?=[\u2e80-\u9fff\uff00-\uffef])")


def local_name(element: Element) -> str:
    """Return an element's tag in lower case without namespace; "" for what is no element."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def inline_text(element: Element) -> str:
    """Return the text of an element as one line."""
    return " ".join(folded("".join(strings(element))).split())


def folded(text: str) -> str:
    """Fold white space as a browser does: runs to one space, `<br>` to a line end, none between Chinese lines."""
    text = _SPACES.sub(" ", _HAN_BREAK.sub("", text))
    return "\n".join(line.strip() for line in text.split(BREAK)).strip()


def strings(element: Element) -> list[str]:
    """Return the pieces of text under an element, in order, white space as written."""
    parts: list[str] = []
    events: Any = etree.iterwalk(element, events=("start", "end"))
    for event, node in events:
        tag = local_name(node)
        if event == "end":
            parts.append((node.tail or "") if node is not element else "")
        elif tag in DROPPED or (tag == "a" and "headerlink" in (node.get("class") or "")):
            events.skip_subtree()
        else:
            parts.append("\n" if tag == "br" else " " if tag in BLOCKS else "")
            parts.append((node.get("alt") or "") if tag == "img" else node.text or "")
    return parts
