"""Finds the encoding that a file names itself, in the one place where its format lets it be named.

A name found elsewhere (an example in a tutorial) proves nothing, so each format is asked in its own way.
"""

from __future__ import annotations

import re

HEAD = 4096  # bytes in which a page names its encoding

_META = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_PROLOG = re.compile(rb"""\A\s*<\?xml[^>]{0,100}encoding\s*=\s*["']([\w.:-]+)""")
_COMMENT = re.compile(rb"""\s*(?:#|//|/\*|;|--|%|<!--|"|\.\.|@charset)""")
_COOKIE = re.compile(rb"""(?:coding|charset)\s*[:=]?\s*["']?([A-Za-z][\w.-]{2,30})""")
_FRONT = re.compile(rb"\A---[ \t]*\r?\n(.{0,4096}?)\r?\n(?:---|\.\.\.)[ \t]*\r?\n", re.DOTALL)
_FRONT_KEY = re.compile(
    rb"""^(?:encoding|charset)[ \t]*:[ \t]*["']?([A-Za-z][\w.:-]{2,30})["']?[ \t]*\r?$""", re.MULTILINE
)


def in_page(data: bytes) -> str:
    """Return the encoding an HTML page names in a meta element, else in its XML prolog; "" for none."""
    return _named(_META.search(data[:HEAD])) or in_xml(data)


def in_xml(data: bytes) -> str:
    """Return the encoding an XML file names in its prolog; "" for none."""
    return _named(_PROLOG.match(data[:HEAD]))


def in_source(data: bytes) -> str:
    """Return the encoding a comment on the first two lines of source code names for editors; "" for none.

    Python reads it (PEP 263), Ruby too; Emacs and Vim write it; a style sheet has `@charset`.
    """
    lines = data[:HEAD].split(b"\n", 2)[:2]
    return next(filter(None, (_named(_COOKIE.search(line)) for line in lines if _COMMENT.match(line))), "")


def in_front_matter(data: bytes) -> str:
    """Return the encoding that YAML front matter names under `encoding` or `charset`; "" for none."""
    block = _FRONT.match(data)
    return _named(_FRONT_KEY.search(block[1])) if block else ""


def _named(found: re.Match[bytes] | None) -> str:
    return found[1].decode("ascii", "ignore") if found else ""
