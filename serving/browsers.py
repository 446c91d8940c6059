"""What a browser is shown when the server itself turns it away from the console, or fails there: a page, not JSON.

The page is whole by itself, style and all: it is there while the server starts, ends or has no hands free.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

    from kb.model import Json

CONSOLE = "/console"
LANGUAGE = "kb_language"  # the cookie in which the console keeps its reader's choice
POLICY = "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
READS = frozenset({"GET", "HEAD"})

_TRY = ("Try again", "重试")
_HOME = ("Overview", "总览")
_WAIT = ("Try again in {n} s.", "请在 {n} 秒后重试。")
_TITLE = ("That did not work", "操作未成功")
_ID = ("Request", "请求编号")
_OTHER = (
    "Something unexpected went wrong; the log names it by this request's id.",
    "发生意外错误；可按请求编号在日志中查到。",
)
_ABSENT = ("There is no such page.", "没有这个页面。")
_SAID: Mapping[str, tuple[str, str]] = {
    "TooManyRequests": ("Too many requests came from here. Nothing was done.", "来自此处的请求过多，未执行任何操作。"),
    "Busy": ("The server has its hands full. Nothing was done.", "服务器正忙，未执行任何操作。"),
    "Starting": ("The server is starting. Nothing was done.", "服务器正在启动，未执行任何操作。"),
    "Draining": ("The server is shutting down. Nothing was done.", "服务器正在关闭，未执行任何操作。"),
    "TooLarge": ("What was sent is too large. Nothing was done.", "提交的内容过大，未执行任何操作。"),
    "WrongHost": ("This server does not answer to that name.", "此服务器不以该主机名提供服务。"),
    "TimedOut": (
        "That took too long and was broken off. Look whether it was done before you send it again.",
        "操作用时过长，已中断。再次提交之前，请先查看是否已经完成。",
    ),
}


def is_asked_for(scope: Scope) -> bool:
    """Return whether a request is a browser's for the console: one that reads pages, or the console's own script."""
    path, headers = str(scope.get("path", "")), Headers(scope=scope)
    is_console = path == CONSOLE or path.startswith(f"{CONSOLE}/")
    return is_console and ("text/html" in headers.get("accept", "") or "hx-request" in headers)


def page_of(scope: Scope, problem: Mapping[str, Json], headers: Mapping[str, str] | None) -> HTMLResponse:
    """Return a problem as a page in the reader's language, with what to do and when."""
    asked = Headers(scope=scope)
    n = 1 if _is_chinese(asked) else 0
    status, given = int(str(problem["status"])), dict(headers or {})
    said = _SAID.get(str(problem.get("type", "")).removeprefix("urn:kb:"))
    said = said or (_ABSENT if status in (404, 405) else _OTHER)
    wait = next((_WAIT[n].format(n=int(v)) for k, v in given.items() if k == "Retry-After"), "")
    return HTMLResponse(
        _PAGE.format(
            language=("en", "zh-Hans")[n],
            title=_TITLE[n],
            said=" ".join(filter(None, (said[n], wait))),
            on=_way_on(scope, n),
            id=f"{_ID[n]}: {escape(str(problem.get('instance', '')).rpartition(':')[2])}",
            style="" if "hx-request" in asked else f"<style>{_STYLE}</style>",
        ),
        status,
        {**given, "Content-Security-Policy": _policy(), "Vary": "Accept, Accept-Language, Cookie, HX-Request"},
    )


def _way_on(scope: Scope, n: int) -> str:
    home = f'<a href="{CONSOLE}/">{_HOME[n]}</a>'
    if scope["method"] not in READS:
        return home
    query = scope.get("query_string", b"").decode("latin-1")
    again = quote(str(scope["path"])) + (f"?{query}" if query else "")
    return f'<a href="{escape(again)}">{_TRY[n]}</a> · {home}'


def _policy() -> str:
    """Return the policy that lets the page's own style act and nothing else."""
    return POLICY.format(style=b64encode(sha256(_STYLE.encode()).digest()).decode())


def _is_chinese(headers: Headers) -> bool:
    chosen = cookie_parser(headers.get("cookie", "")).get(LANGUAGE, "")
    return (chosen or headers.get("accept-language", "").strip().lower()).startswith("zh")


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
main { max-width: 34rem; margin: 2rem auto; padding: 0 1rem; }
[role="alert"] { border-left: 4px solid; padding: 0.5rem 0.9rem; }
"""
_PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · kb</title>
{style}
</head>
<body>
<main>
<h1>{title}</h1>
<p role="alert">{said}</p>
<p>{on}</p>
<p><small>{id}</small></p>
</main>
</body>
</html>
"""
