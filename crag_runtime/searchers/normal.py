"""What searches answer, whatever its shape, as findings: plain, bounded, distinct. Pure.

A search may answer with a mapping, a list, a string or an error; its entries may be anything. What cannot be used is
counted and left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from crag_runtime.evidence import Finding
from crag_runtime.searchers.dates import instant_of
from crag_runtime.searchers.plain import plain_text
from kb.addresses import canonical_url
from kb.words.shortened import shortened

TEXT_CHARS = 4_000
TITLE_CHARS = 300
QUERY_CHARS = 400  # Tavily refuses longer ones
NEARLY_EQUAL = 0.95  # of two texts' shingles
_SHINGLE = 5  # characters; serves both scripts
_URL = ("url", "link", "href")
_TEXT = ("content", "snippet", "text", "description", "raw_content")
_PUBLISHED = ("published_date", "publishedDate", "published", "date", "pubdate")
_NOTHING = "no search results found"  # how langchain-tavily says it


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalised:
    """What a search's answer comes to.

    Args:
        findings: best first, distinct.
        malformed: entries without an absolute http(s) URL or without text.
        repeated: entries whose URL or text a better one has.
        complaint: why the whole answer cannot be used; "" when it can.
    """

    findings: tuple[Finding, ...] = ()
    malformed: int = 0
    repeated: int = 0
    complaint: str = ""


def normalised(payload: object, *, limit: int) -> Normalised:
    """Return the findings of a search's answer, at most `limit`."""
    entries = entries_of(payload)
    if isinstance(entries, str):
        return Normalised(complaint=entries)
    findings: list[Finding] = []
    malformed = repeated = 0
    for entry in entries:
        finding = _finding(entry)
        if finding is None:
            malformed += 1
        elif any(_is_same(finding, other) for other in findings):
            repeated += 1
        elif len(findings) < limit:
            findings.append(finding)
        else:
            break
    return Normalised(findings=tuple(findings), malformed=malformed, repeated=repeated)


def asked_query(query: str) -> str:
    """Return a query on one line, without control characters, at most 400 characters; "" when nothing is left."""
    line = " ".join(plain_text(query, has_markup=False).split())
    return line if len(line) <= QUERY_CHARS else line[: QUERY_CHARS + 1].rsplit(maxsplit=1)[0][:QUERY_CHARS]


def entries_of(payload: object) -> list[object] | str:
    """Return the entries of a reply, or in words why it has none; no entries are no complaint."""
    if isinstance(payload, str):
        return _entries_of_text(payload)
    if isinstance(payload, Mapping):
        found = payload.get("results")
        if isinstance(found, list | tuple):
            return list(found)
        said = payload.get("error") or payload.get("detail") or "the reply has no results"
        return plain_text(str(said))[:200] or "the reply has no results"
    if isinstance(payload, list | tuple):
        return list(payload)
    return f"the reply is a {type(payload).__name__}"


def _entries_of_text(text: str) -> list[object] | str:
    if text.strip().casefold().startswith(_NOTHING):
        return []
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return plain_text(text)[:200] or "the reply is empty"
    return entries_of(inner) if isinstance(inner, dict | list) else "the reply is no list of results"


def _finding(entry: object) -> Finding | None:
    if not isinstance(entry, Mapping):
        return None
    url = canonical_url(_first_text(entry, _URL))
    text = shortened(plain_text(_first_text(entry, _TEXT)), chars=TEXT_CHARS)
    if not url or not text:
        return None
    title = " ".join(plain_text(_first_text(entry, ("title",))).split())
    published = next((at for name in _PUBLISHED if (at := instant_of(entry.get(name))) is not None), None)
    return Finding(url=url, title=title[:TITLE_CHARS].rstrip(), text=text, published=published)


def _first_text(entry: Mapping[object, object], names: tuple[str, ...]) -> str:
    return next((v for name in names if isinstance(v := entry.get(name), str) and v.strip()), "")


def _is_same(one: Finding, other: Finding) -> bool:
    return one.url == other.url or is_nearly_equal(one.text, other.text)


def is_nearly_equal(one: str, other: str) -> bool:
    """Return whether two texts are copies of each other. Texts with other numbers never are: they may disagree."""
    a, b = _folded(one), _folded(other)
    if a == b:
        return True
    if _numbers(a) != _numbers(b) or min(len(a), len(b)) < NEARLY_EQUAL * max(len(a), len(b)):
        return False
    left, right = _shingles(a), _shingles(b)
    return len(left & right) >= NEARLY_EQUAL * len(left | right)


def _folded(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _numbers(folded: str) -> list[str]:
    return [word for word in folded.split() if any(c.isdigit() for c in word)]


def _shingles(folded: str) -> set[str]:
    return {folded[i : i + _SHINGLE] for i in range(max(1, len(folded) - _SHINGLE + 1))}
