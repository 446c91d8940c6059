"""What a reader must not be deceived by: characters that turn or hide text become visible; only plain links are links.

A memory is hostile input. Escaping keeps it from acting; this keeps it from lying about what it says. Pure.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from markupsafe import Markup

# Controls but tab and line ends; marks that turn the direction of what follows; spaces of no width; tags; halves of
# characters. Joiners and soft hyphens stay: Persian, emoji and PDF files are full of them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_WEB = re.compile(r"https?://[^\s\x00-\x20\\<>\"']+", re.IGNORECASE)


def visible(value: object) -> object:
    """Return a text with its unseen characters spelled out as [U+202E]; anything else as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _UNSEEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", value)


def is_web(uri: object) -> bool:
    """Return whether a reader may be given a link: http or https, a host, no name before it, nothing unseen."""
    if not isinstance(uri, str) or not _WEB.fullmatch(uri) or _UNSEEN.search(uri):
        return False
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return bool(parts.hostname) and "@" not in parts.netloc
