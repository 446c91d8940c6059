"""What models write for a label, in English and Chinese: bare words, and sentences that name exactly one. Pure."""

from __future__ import annotations

import re
import unicodedata

from crag_runtime.evidence import Label

_BARE: dict[Label, tuple[str, ...]] = {
    Label.RELEVANT: ("yes", "y", "true", "correct", "有关", "有關", "是", "是的", "正确"),
    Label.IRRELEVANT: ("no", "n", "false", "incorrect", "不", "否", "不是", "错误"),
    Label.AMBIGUOUS: ("unclear", "unsure", "uncertain", "部分", "可能", "不明确", "一般"),
}
_BY_WORD = {word: label for label, words in _BARE.items() for word in words}

# Each pattern takes its words out before the next one looks: "irrelevant" holds "relevant", and 不相关 holds 相关.
_SAID = (
    (
        Label.IRRELEVANT,
        r"irrelevant|unrelated|\b(?:non-?|(?:not|isn't|no|without)\s+(?:(?:very|really|directly)\s+)?)relevan(?:t|ce)\b",
        r"(?:不|没有?|無|无|毫无|并不|毫不)(?:太|是|直接)?(?:相关|相關)|无关|無關",
    ),
    (
        Label.AMBIGUOUS,
        r"ambiguous|\b(?:partial|partially|partly|somewhat|possibly|maybe)\b(?:\s+relevant)?",
        r"(?:部分|有些|有点|可能)(?:相关|相關)|不确定|模糊",
    ),
    (Label.RELEVANT, r"\brelevant\b", r"相关|相關"),
)
_PATTERNS = tuple((label, re.compile(f"{english}|{chinese}")) for label, english, chinese in _SAID)
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def label_word(value: object) -> str:
    """Return what a model wrote for a label as the label's value.

    Raises:
        ValueError: it names no label, or more than one.
    """
    if isinstance(value, bool):
        return (Label.RELEVANT if value else Label.IRRELEVANT).value
    if not isinstance(value, str):
        raise ValueError("not a word")  # noqa: TRY004 - pydantic reads ValueError
    text = " ".join(unicodedata.normalize("NFKC", value).casefold().replace("’", "'").replace("_", " ").split())
    bare = _BY_WORD.get(_AROUND.sub("", text))
    if bare is not None:
        return bare.value
    named = []
    for label, pattern in _PATTERNS:
        text, times = pattern.subn(" ", text)
        if times:
            named.append(label)
    if len(named) != 1:
        raise ValueError("no label, or more than one")
    return named[0].value
