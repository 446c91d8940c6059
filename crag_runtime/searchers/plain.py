"""Markup to plain text: pure, linear in the length of the text, and never raises."""

from __future__ import annotations

import html
import re
import unicodedata

RAW_CHARS = 40_000  # read of one text; ten times what is kept of it
_PASSES = 4
_HIDDEN = (  # whole elements that no reader sees
    (re.compile(r"<!--"), "-->"),
    (re.compile(r"<script(?=[\s/>])", re.IGNORECASE), "</script"),
    (re.compile(r"<style(?=[\s/>])", re.IGNORECASE), "</style"),
)
_INLINE = (
    "a|abbr|b|big|bdi|bdo|cite|code|del|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike|strong|sub|sup|tt|u|var|"
    "wbr"
)
_BLOCK = (
    "address|article|aside|audio|base|blockquote|body|br|button|caption|center|col|colgroup|dd|details|dialog|div|dl|dt|"
    "embed|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|img|input|label|"
    "legend|li|link|main|map|meta|nav|noscript|object|ol|option|p|picture|pre|script|section|select|source|style|summary|"
    "svg|table|tbody|td|template|textarea|tfoot|th|thead|time|title|tr|ul|video"
)
_INLINE_TAG = re.compile(rf"</?(?:{_INLINE})(?=[\s/>])[^<>]*>", re.IGNORECASE)
_BLOCK_TAG = re.compile(rf"</?(?:{_BLOCK})(?=[\s/>])[^<>]*>|<![a-z][^<>]*>|<\?[^<>]*\?>", re.IGNORECASE)
_MARKDOWN_LINK = re.compile(
    r"!?\[([^\[\]\n]{0,300})\]\((?:https?:|/|#|mailto:|data:)[^()\s]{0,2000}(?: \"[^\"\n]{0,200}\")?\)"
)
_MARKDOWN_HEADING = re.compile(r"(?m)^[ ]{0,3}#{1,6}[ \t]+")
_CDATA = "<![CDATA["
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")
_JOINERS = "\u200c\u200d"  # several scripts cannot be written without them


def plain_text(text: str, *, has_markup: bool = True) -> str:
    """Return `text` as a reader sees it: no tags, no control or invisible characters, in NFC, blanks single.

    Args:
        text: anything; only its first 40,000 characters are read.
        has_markup: whether tags, entities and Markdown links stand for something; else they are left as they are.
    """
    text = text[:RAW_CHARS]
    if has_markup:
        text = _unmarked(html.unescape(_unmarked(text)))
        text = _MARKDOWN_HEADING.sub("", _MARKDOWN_LINK.sub(r"\1", text))
    visible = "".join(_seen(c) for c in unicodedata.normalize("NFC", text))
    if has_markup:  # an invisible character may have kept a tag apart
        visible = _untagged(visible)
    return unicodedata.normalize("NFC", _LINES.sub("\n", _BLANKS.sub(" ", visible))).strip()


def _unmarked(text: str) -> str:
    for opening, closing in _HIDDEN:
        text = _without(text, opening, closing)
    if _CDATA in text:
        text = text.replace(_CDATA, "").replace("]]>", "")
    return _untagged(text)


def _untagged(text: str) -> str:
    """Take tags away, those too that appear where others were."""
    for _ in range(_PASSES):
        bare = _INLINE_TAG.sub("", _BLOCK_TAG.sub("\n", text))
        if bare == text:
            return text
        text = bare
    return _INLINE_TAG.sub(" ", _BLOCK_TAG.sub("\n", text))  # a blank in its place lets no new tag appear


def _without(text: str, opening: re.Pattern[str], closing: str) -> str:
    kept: list[str] = []
    lower, at = text.lower(), 0
    if len(lower) != len(text):  # lower case of a few letters is longer
        lower = text
    while (begin := opening.search(text, at)) is not None:
        end = lower.find(closing, begin.end())
        if end < 0:
            break
        kept.append(text[at : begin.start()])
        at = end + len(closing)
        if not closing.endswith(">"):
            at = lower.find(">", at) + 1 or len(text)
    return " ".join([*kept, text[at:]]) if kept else text


def _seen(character: str) -> str:
    if character < "\x7f":
        return character if character >= " " else "\n" if character in "\n\r\v\f" else " " if character == "\t" else ""
    category = unicodedata.category(character)
    if category in {"Zl", "Zp"}:
        return "\n"
    if category == "Zs":
        return " "
    if category in {"Cc", "Cs"} or (category == "Cf" and character not in _JOINERS) or _is_noncharacter(character):
        return "\n" if character == "\x85" else ""
    return character


def _is_noncharacter(character: str) -> bool:
    point = ord(character)
    return 0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE  # noqa: PLR2004 - Unicode's own table
