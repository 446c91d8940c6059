"""One spelling per web address, and one way to show the address of a service: pure, and never raises."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

URL_CHARS = 1_800  # the ledger holds sources of at most 2,000 bytes
HIDDEN = "***"
_PATHS = ("/", ".", "~", "unix:")
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?=.{1,253}\Z)(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.ASCII)
_PAIR = 2  # labels of `example.org`, letters of `uk`
_SECOND_LEVEL = frozenset(
    "ac co com edu gen go gob gov gouv govt gub ltd me mil ne net nom or org plc sch school".split()  # noqa: SIM905 - a list literal takes a screen
)
_SAFE = "/%:@!$&'()*+,;=~-._?[]"
_TRACKING = re.compile(
    r"(?:utm_[a-z_]+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|igshid|li_fat_id|srsltid|mc_cid|"
    r"mc_eid|_hsenc|_hsmi|_ga|_gl|vero_id|oly_anon_id|oly_enc_id|ref_src|ref_url|spm|scm|mkt_tok|s_cid|cmpid)",
    re.IGNORECASE,
)


class Address(str):
    """Where a service is, as somebody set it; who prints its repr sees neither user, password nor options."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(without_secret(str(self)))


def without_secret(uri: str) -> str:
    """Return the address of a service without user, password and options, fit to be shown."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return HIDDEN
    place = parts.netloc.rsplit("@", 1)[-1]
    if not parts.netloc:  # a path; or an address without its scheme
        return uri if uri.startswith(_PATHS) else uri.rsplit("@", 1)[-1].partition("?")[0]
    if "@" in uri and "@" not in parts.netloc:  # a password with a / in it ends the host for whoever reads on
        return f"{parts.scheme}://{HIDDEN}"
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def canonical_url(url: str) -> str:
    """Return the address in one spelling; "" when it is no absolute http(s) URL or is too long.

    Scheme and host are in lower case (the host in its ASCII form), without user, default port, fragment and tracking
    parameters; other parameters stay as and where they are.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        return ""
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not (host := _ascii_host(host)):
        return ""
    netloc = host if port in (None, _PORTS[scheme]) else f"{host}:{port}"
    query = "&".join(p for p in parts.query.split("&") if p and not _TRACKING.fullmatch(p.partition("=")[0]))
    try:
        path = quote(parts.path or "/", safe=_SAFE)
        found = urlunsplit((scheme, netloc, path, quote(query, safe=_SAFE), ""))
    except ValueError:  # a lone surrogate
        return ""
    return found if len(found) <= URL_CHARS else ""


def host_of(url: str) -> str:
    """Return the host of an address, in lower case and without `www.`; "" when it has none."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host.lower().rstrip(".").removeprefix("www.")


def registrable(host: str) -> str:
    """Return who answers for a host: its domain below a public ending; an address is itself.

    By rule, without a list of every public ending: where in doubt, two hosts count as one, so that nothing is taken
    for independent that is not.
    """
    labels = host.split(".")
    if len(labels) <= _PAIR or ":" in host or labels[-1].isdigit():
        return host
    is_paired = len(labels[-1]) == _PAIR and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3 if is_paired else -2 :])


def _ascii_host(host: str) -> str:
    """Return a host name or address as it goes over the wire; "" when it is none."""
    if ":" in host:  # IPv6; urlsplit has seen its brackets
        return f"[{host}]" if re.fullmatch(r"[0-9a-f:.]+", host) else ""
    try:
        name = host.rstrip(".").encode("idna").decode().lower()
    except UnicodeError:
        name = host.rstrip(".") if host.isascii() else ""
    return name if _HOST.fullmatch(name) else ""
