"""Whether two sentences that share their words say the opposite, by negation or by opposites: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.terms import terms
from kb.words.entities import words_of
from kb.words.strips import stop_terms

if TYPE_CHECKING:
    from collections.abc import Iterator

REACH = 48  # characters that a negation may reach to the right
MOST = 20  # negations read in a sentence
SCOPE = 3  # content words it is about
_NEUTRAL = re.compile(
    r"\b(?:not only|not just|no doubt|"
    r"no (?:more|less|later|fewer|sooner|earlier|longer|larger|higher|lower|smaller) than|"
    r"not (?:more|less|later|fewer|larger|longer) than|whether or not|no\. ?\d)\b"
    r"|不(?:超过|少于|低于|晚于|早于|高于|多于|大于|小于)|是不是|能不能|有没有|会不会|要不要|未读",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|no|cannot|without|neither|nor|none|nobody|nothing)\b|n['’]t\b", re.IGNORECASE)
_HAN = re.compile("[\u3400-\u9fff]+")
_HAN_NEGATION = re.compile(
    "不|不要|不会|不能|不可|不得|不是|不应|不应该|不再|不必|不须|不需|不需要|不准|不许|不予|不用|不该|绝不|决不"
    "|从不|并不|而不是|不可以|不能够|没有|没|未|未经|尚未|从未|并未|无|无法|无需|无须|勿|切勿|请勿|莫|别|禁止"
    "|严禁|并非|非"
)
_MAY_NEGATE = re.compile("[不没未无勿莫别禁非]")
_ENDS = re.compile(
    r"[,.;:!?，。；：！？\n]\s|[，。；：！？\n]|\b(?:but|and|while|whereas|because|since)\b|但|而|因为|并且",
    re.IGNORECASE,
)
_OPPOSITES = tuple(
    tuple(side.split("/") for side in pair.split("|"))
    for pair in (
        "increas/rise/rose/grew/grow|decreas/fall/fell/drop/shrank/declin/reduc",
        "befor|after",
        "minimum/min|maximum/max",
        "least|most",
        "enabl|disabl",
        "allow/permit|forbid/forbidden/prohibit/deni/disallow",
        "includ|exclud",
        "true|false",
        "encrypt|unencrypt",
        "support|unsupport",
        "avail|unavail",
        "limit|unlimit",
        "最多/至多|最少/至少",
        "以上|以下",
        "之前/以前|之后/以后",
        "增加/上升/上涨/提高/增长|减少/下降/下跌/降低",
        "启用/开启|禁用/关闭/停用",
        "允许/可以|禁止/不得",
        "包括/包含|不包括/不含/除外",
        "最大|最小",
        "高于|低于",
        "支持|反对",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Polarity:
    """What a sentence says, and what of it it denies.

    Args:
        said: its terms.
        denied: for each negation, the content terms right after it.
    """

    said: frozenset[str]
    denied: tuple[tuple[str, ...], ...]


def polarity(sentence: str) -> Polarity:
    """Return a sentence's polarity."""
    plain = _NEUTRAL.sub(lambda m: "#" * len(m.group()), sentence)
    ends = [*(m.end() for m in _NEGATION.finditer(plain)), *_han_negations(plain)]
    scopes = (_scope(plain[end : end + REACH]) for end in ends[:MOST])
    return Polarity(said=frozenset(terms(sentence).split()), denied=tuple(scope for scope in scopes if scope))


def _han_negations(text: str) -> Iterator[int]:
    """Yield where Chinese words of negation end; 不足 and 非常 are other words."""
    for run in (run for run in _HAN.finditer(text) if _MAY_NEGATE.search(run.group())):
        end = run.start()
        for word in words_of(run.group()):
            end += len(word)
            if _HAN_NEGATION.fullmatch(word):
                yield end


def are_opposed(one: Polarity, other: Polarity) -> bool:
    """Return whether one denies what the other says, or says its opposite."""
    return _denies(one, other) or _denies(other, one) or _is_opposite(one, other)


def _scope(text: str) -> tuple[str, ...]:
    end = _ENDS.search(text)
    found = (term for term in terms(text[: end.start()] if end else text).split() if term not in stop_terms())
    return tuple(found)[:SCOPE]


def _denies(one: Polarity, other: Polarity) -> bool:
    """Return whether what `one` denies first, and most of the rest, is said and not denied by `other`."""
    denied = {term for scope in other.denied for term in scope}
    for scope in one.denied:
        shared = sum(term in other.said for term in scope)
        if scope[0] in other.said and scope[0] not in denied and 2 * shared >= len(scope):
            return True
    return False


def _is_opposite(one: Polarity, other: Polarity) -> bool:
    for left, right in _OPPOSITES:
        sides = [(any(t in p.said for t in left), any(t in p.said for t in right)) for p in (one, other)]
        if sides in ([(True, False), (False, True)], [(False, True), (True, False)]):
            return True
    return False
