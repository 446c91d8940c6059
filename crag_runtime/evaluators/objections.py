"""What speaks against a passage that a reader takes for an answer: names it lacks, a value of the wrong kind. Pure.

A small reader scores what looks like an answer to the question's form. It does not see that the passage is about
another plan, another code, or nobody at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crag_runtime.checking.answering import Wanted, gives, wanted_by
from crag_runtime.evaluators.coefficients import coefficients
from crag_runtime.evaluators.features import NAME_RARITY
from kb.terms import Script, query_terms, script_of, terms
from kb.words.entities import entities, same
from kb.words.strips import split

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING = 0.5  # share of the question's names that a passage lacks, from which it is about something else
SHORT = 3  # letters of an abbreviation, which a passage may well write out
ROOT = 4  # letters by which a name is known in another form: "Indian", "India"
_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d_])[^\s\u3400-\u9fff]+|[^\s\u3400-\u9fff]*_[^\s\u3400-\u9fff]*")
_HEADING = re.compile(r"\s*#{1,6}\s|[\w. -]+:\s*$")
_SOMEBODY = re.compile(
    r"[a-z](?:er|or|ist|ian|ant|ent|man|men|eer|team|people|staff|committee|board|nobody|group|king|queen|ess)s?\b"
    r"|[员人者师家长官们王帝后君军团队族子父母女士生]|公司|部门|机构|政府|委员会",
    re.IGNORECASE,
)
_MEANING = re.compile(
    r"\bwhat (?:does|do|did) .{1,60}\b(?:mean|stand for|say|signal|indicate)\b|\bmeaning of\b"
    r"|^what(?:'s| is)(?: (?:an?|the|error|alert|code|alarm|status|field|option|setting|command)){0,3} \S+\?$"
    r"|是什么意思|什么含义|的含义|代表什么|表示什么|^什么是|(?a:[\w-]+)\s?是什么[？?]?$",
    re.IGNORECASE,
)


def missing_names(question: str, text: str) -> list[str]:
    """Return the names of a question that a passage lacks, if they are most of them.

    Nor where a text names nothing at all: "it" may well be what is asked about.
    A name in another script than the text need not be there, it may be written in the text's; a code must. Nor must an
    abbreviation, which may be written out; common Chinese nouns are no names.

    Args:
        question: one sub-question.
        text: of the passage, with its title and headings.
    """
    named = [name for name in entities(question) if _must_be_there(name)]
    if not named:
        return []
    known, plain = frozenset(terms(text).split()), same(text)
    own = script_of(text)
    named = [name for name in named if _CODE.fullmatch(name) or own in {Script.NONE, script_of(name)}]
    missing = [name for name in named if not _is_there(name, known, plain)]
    if not any(_CODE.fullmatch(name) for name in missing) and not _names_anything(text):
        return []
    return missing if named and len(missing) >= MISSING * len(named) else []


def has_its_code(question: str, text: str) -> bool:
    """Return whether a question asks what a code means and a text has that code, letter by letter."""
    codes = [name for name in entities(question) if _CODE.fullmatch(name)]
    return bool(codes) and _MEANING.search(question.strip()) is not None and all(_stands(c, text) for c in codes)


def is_misfit(question: str, text: str, answer: str) -> bool:
    """Return whether a span is no answer of the kind asked for: nobody for "who", no figure for "how many", a heading.

    In doubt it is one: only what is plainly something else is a misfit.
    """
    if not answer.strip():
        return True
    at = text.find(answer)
    line = next((text[a:b] for a, b in split(text) if a <= at < b), "")
    if _HEADING.match(line):
        return True
    match wanted_by(question):
        case Wanted.WHO:
            return not (_SOMEBODY.search(answer) or _names_somebody(answer))
        case Wanted.COUNT | Wanted.WHEN:
            return not gives(answer, question) and not gives(line, question)
        case _:
            return False


def _names_somebody(answer: str) -> bool:
    """Return whether a span has a capital that does not only begin it, or letters of a script without capitals."""
    words = answer.split()
    first, rest = words[0], words[1:]
    is_one = not rest and first[:1].isupper()
    return is_one or any(w[:1].isupper() or not w.isascii() for w in rest) or not first.isascii()


def _names_anything(text: str) -> bool:
    return any(not _CODE.fullmatch(name) for name in entities(text))


def _must_be_there(name: str) -> bool:
    if _CODE.fullmatch(name):
        return True
    if name.isascii() and len(name) <= SHORT:
        return False
    if not name.isascii():
        rarity = coefficients().rarity
        return any(rarity(term) >= NAME_RARITY for term in terms(name).split() if len(term) > 1)
    return True


def _is_there(name: str, known: frozenset[str], plain: str) -> bool:
    if _CODE.fullmatch(name):
        return _stands(name, plain)
    if same(name) in plain:
        return True
    return any(term in known or _has_root(term, known) for term in query_terms(name).split())


def _has_root(term: str, known: frozenset[str]) -> bool:
    if not term.isascii() or len(term) < ROOT:
        return False
    return any(other.startswith(term[:-1]) or term.startswith(other) for other in _long(known))


def _long(known: frozenset[str]) -> Iterator[str]:
    return (term for term in known if len(term) >= ROOT and term.isascii())


def _stands(code: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(same(code))}(?![\w-])", same(text), re.ASCII) is not None
