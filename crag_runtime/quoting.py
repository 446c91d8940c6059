"""Foreign text as data: put into a marked block it cannot leave, and flagged where it reads like instructions. Pure.

A memory's or a page's text may hold anything. In a prompt it stands only inside a block made here, in a message of
the user role, and the block's end cannot be forged: closing tags, openings of the same tag and the control tokens of
chat templates lose their first character to an entity. Everything else stays verbatim, so that quotes can be checked.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ANGLE = "<＜﹤"  # what reads as "<": the full-width and small forms too
_SLASH = "/／∕⁄\\\\"  # likewise for "/"; a model takes "<\passage>" for an end as well
_UNSEEN = (  # what no reader sees, and a model may read over
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_HIDDEN = f"\\s{_UNSEEN}"
_INVISIBLE = re.compile(f"[{_UNSEEN}]")
_TAG_LETTERS = {0xE0000 + code: code for code in range(0x20, 0x7F)}  # ASCII that models read and people do not see
_TEMPLATE = r"(?:start_of_turn|end_of_turn|start_of_image|bos|eos|s|<\s*/?\s*sys)\s*>"  # control tokens without a bar
_BRACKETED = re.compile(
    r"\[(?=\s*/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*\])", re.IGNORECASE
)
_QUOTATION = " \t\r\n\"'`“”‘’「」『』«»"
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def quoted(tag: str, attributes: Mapping[str, str], text: str) -> str:
    """Return `text` as a block `<tag attributes>` … `</tag>` that the text itself cannot end or imitate.

    Args:
        tag: an ASCII name, ours.
        attributes: names are ours; values may be foreign and become one line each. Empty values are left out.
        text: foreign.
    """
    values = {name: _harmless(tag, _one_line(value)) for name, value in attributes.items() if value.strip()}
    pairs = "".join(f' {name}="{value}"' for name, value in values.items())
    return f"<{tag}{pairs}>\n{_harmless(tag, text)}\n</{tag}>"


def unquoted(text: str) -> str:
    """Return a piece copied from a block as it stands in the original."""
    return text.replace("&lt;", "<").replace("&#91;", "[")


def instruction_like(text: str) -> bool:
    """Return whether a text reads as if it gave orders to a model, in English or Chinese.

    It flags, never decides: a document about such attacks is flagged too.
    """
    plain = unicodedata.normalize("NFKC", text)
    unseen = plain.translate(_TAG_LETTERS)
    texts = {_INVISIBLE.sub("", plain).casefold(), _INVISIBLE.sub("", unseen).casefold()}
    return any(pattern.search(each) for each in texts for pattern in _ORDERS)


def _harmless(tag: str, text: str) -> str:
    return _BRACKETED.sub("&#91;", _marks(tag).sub("&lt;", text))


def _one_line(value: str) -> str:
    return escape(_BLANKS.sub(" ", value).strip(), quote=True)


@lru_cache(maxsize=32)
def _marks(tag: str) -> re.Pattern[str]:
    """Match the first character of what could end the block, open another, or speak to the chat template."""
    name = f"[{_HIDDEN}]*".join(re.escape(letter) for letter in tag)
    after = rf"[{_HIDDEN}]*(?:[{_SLASH}]|[|｜]|{name}(?![\w-])|{_TEMPLATE})"
    return re.compile(rf"[{_ANGLE}](?={after})", re.IGNORECASE)


_EARLIER = r"(?:previous|prior|above|earlier|preceding|foregoing|system|existing|original|current)"
_RULES = r"(?:instructions?|prompts?|rules?|guidelines?|directions?|commands?|constraints?|directives?)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|skip|neglect|do not follow|don't follow|stop following)"
_OBEY = r"(?:you|ignore|disregard|forget|always|never|answer|respond|reply|say|output|rate|score|label|from now on)"
_ZH_RULES = r"(?:指令|指示|命令|提示词?|要求|说明|规则|设定|限制|约束|内容|对话)"
_ZH_DROP = r"(?:忽略|无视|忘记|忘掉|不要(?:再)?(?:理会|遵守|遵循|遵从|执行)|请?勿(?:遵守|遵循|执行)|跳过|绕过)"
_ZH_EARLIER = r"(?:以上|上述|上面|之前|此前|先前|前面|前述|所有|一切|全部|任何|你的|原有|原来|系统)"
_ZH_OBEY = r"(?:你|请|忽略|无视|忘记|必须|务必|只能|回答|输出|回复|判定|评为|标记)"

_ORDERS = tuple(
    re.compile("".join(parts), re.MULTILINE)
    for parts in (
        (
            rf"\b{_DROP}\s+(?:(?:all|any|the|your|of|these|those|my|every|each|other)\s+){{0,4}}",
            rf"{_EARLIER}\s+(?:(?:and|or|system|safety|user)\s+){{0,2}}{_RULES}\b",
        ),
        (rf"\b{_DROP}\s+(?:all\s+)?(?:of\s+)?(?:your|my)\s+{_RULES}\b",),
        (rf"\b{_DROP}\s+(?:everything|anything|all|what)\b[^.\n]{{0,30}}\b(?:above|before|previously|told|said)\b",),
        (r"\b(?:new|updated|real|actual|hidden|secret)\s+(?:system\s+)?(?:instructions?|prompt|directives?)\s*:",),
        (r"\byou\s+are\s+(?:now|no\s+longer)\s+(?:an?\s|the\s|in\s|my\s|bound|restricted|chatgpt|dan\b)",),
        (r"\bfrom\s+now\s+on,?\s+(?:you|always|never|respond|reply|answer|act)\b",),
        (
            r"\b(?:reveal|print|show|repeat|output|leak|display|disclose)\s+(?:me\s+)?(?:all\s+)?(?:of\s+)?your\s+",
            r"(?:(?:full|hidden|initial|original|entire|secret)\s+)?(?:system\s+)?(?:prompts?|instructions)\b",
        ),
        (r"\b(?:ai|llm|language model|assistant|chatbot)s?\b[^.\n]{0,20}\b(?:must|should)\s+", _OBEY, r"\b"),
        (
            r"\b(?:rate|score|grade|mark|label|classify)\s+(?:this|the)\s+",
            r"(?:passage|document|text|chunk|memory)\s+(?:as|with)\b",
        ),
        (r"^[ \t#*>\[(]{0,8}(?:system|developer)[ \t]*(?:message|prompt|instructions?)[ \t*\])]*:",),
        (r"^[ \t#*>\[(]{0,8}(?:system|assistant|developer)[ \t*\])]*:\s{0,4}", _OBEY, r"\b"),
        (r"<\s{0,4}\|[a-z_]{2,24}\||\[/?inst\]|<</?sys>>|^#{2,6} ?(?:instructions?|system):?$",),
        (rf"{_ZH_DROP}(?:掉|了)?(?:{_ZH_EARLIER}|的|和|与|提到|给出|收到|这些|那些|\s){{1,5}}{_ZH_RULES}",),
        (
            r"(?:你现在|从现在(?:开始|起))[,\s]{0,3}(?:你(?:是|将|要|就是|只能|必须|扮演|作为|不再)|(?<=你现在)(?:是|要|扮演))",
        ),
        (
            r"(?:输出|泄露|透露|显示|打印|重复|告诉我|说出)(?:一下)?你的?(?:完整|全部|初始|隐藏)?的?",
            r"(?:系统提示词?|提示词|指令内容)",
        ),
        (r"(?:新|真正|隐藏)的?(?:系统)?(?:指令|提示词)(?:如下|是)?\s{0,2}:",),
        (r"(?:模型|助手|ai|人工智能)[^。\n]{0,8}(?:必须|务必|只能)(?:忽略|无视|只|回答|输出|回复|判定|评为|标记)",),
        (r"(?:本|这|该|此)(?:段|篇|条|份)?(?:文本|文档|段落|内容|资料)?(?:评为|判为|判定为|标记为|打分为)",),
        (r"^[ \t\[【(]{0,4}(?:系统|开发者)(?:提示|消息|指令)[ \t\]】)]*:",),
        (r"^[ \t\[【(]{0,4}(?:系统|助手|开发者)[ \t\]】)]*:\s{0,4}", _ZH_OBEY),
    )
)


def verbatim(answer: str, text: str) -> str:
    """Return the span of `text` that `answer` quotes, exactly as it stands there; "" when it is no quote.

    White space and forms that NFKC makes one (full-width digits, ligatures) may differ; nothing else may. Quotation
    marks around the answer are not held against it.
    """
    folded, origins = _folded(text)
    for candidate in (answer, unquoted(answer), answer.strip(_QUOTATION)):
        sought, _ = _folded(candidate)
        at = folded.find(sought) if sought else -1
        if at >= 0:
            return text[origins[at] : origins[at + len(sought) - 1] + 1]
    return ""


def _folded(text: str) -> tuple[str, list[int]]:
    """Return the text without white space, each character in its NFKC form, and where each came from."""
    letters: list[str] = []
    origins: list[int] = []
    for index, letter in enumerate(text):
        for part in unicodedata.normalize("NFKC", letter):
            if not part.isspace():
                letters.append(part)
                origins.append(index)
    return "".join(letters), origins
