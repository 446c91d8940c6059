"""How a document crosses the pipe between ingestion and the parser process: frames of JSON and bytes.

JSON, not pickle: what comes back from a process that read a stranger's file must never be able to run code. A block's
text is not sent; it is cut from the document's text again.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from ingest.blocks import Block, BlockKind, ParsedDocument
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

HEADER = struct.Struct(">II")  # bytes of JSON, bytes of data
MAX_FRAME = 2**31
_PIECE = 1 << 20


class Closed(Exception):  # noqa: N818 - a condition, not a fault
    """The other end is gone."""


def send(sock: socket.socket, head: dict[str, Any], data: bytes = b"") -> None:
    """Send one frame.

    Raises:
        OSError: the other end is gone, or the socket's own timeout passed.
    """
    encoded = json.dumps(head, ensure_ascii=False).encode("utf-8", "replace")
    sock.sendall(HEADER.pack(len(encoded), len(data)) + encoded)
    if data:
        sock.sendall(data)


def receive(sock: socket.socket, *, wait: Callable[[], None] = lambda: None) -> tuple[dict[str, Any], bytes]:
    """Return the next frame.

    Args:
        sock: with a timeout, `wait` is called each time it passes and may raise to give up.
        wait: what to do while nothing comes.

    Raises:
        Closed: the other end is gone.
    """
    first, second = HEADER.unpack(_exactly(sock, HEADER.size, wait))
    if first + second > MAX_FRAME:
        raise Closed
    head = json.loads(_exactly(sock, first, wait))
    return head, _exactly(sock, second, wait)


def _exactly(sock: socket.socket, count: int, wait: Callable[[], None]) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        try:
            piece = sock.recv(min(count - len(parts), _PIECE))
        except TimeoutError:
            wait()
            continue
        except OSError as error:
            raise Closed from error
        if not piece:
            raise Closed
        parts += piece
    return bytes(parts)


def packed(document: ParsedDocument) -> tuple[dict[str, Any], bytes]:
    """Return a document as JSON values and its text in UTF-8."""
    head = {
        "blocks": [
            (b.kind.value, b.start, b.end, b.level, b.title, b.page, b.opening, b.closing, b.header_lines)
            for b in document.blocks
        ],
        "title": document.title,
        "front_matter": document.front_matter,
        "properties": document.properties,
        "parser": document.parser,
        "warnings": document.warnings,
    }
    return {"document": head}, document.text.encode("utf-8")


def unpacked(head: dict[str, Any], data: bytes) -> ParsedDocument:
    """Return the document that `packed` made these of."""
    text = data.decode("utf-8")
    values = head["document"]
    blocks = tuple(
        Block(
            kind=BlockKind(kind), text=text[start:end], start=start, end=end, level=level, title=title, page=page,
            opening=opening, closing=closing, header_lines=header_lines,
        )
        for kind, start, end, level, title, page, opening, closing, header_lines in values["blocks"]
    )  # fmt: skip
    return ParsedDocument(
        text=text,
        blocks=blocks,
        title=values["title"],
        front_matter=values["front_matter"],
        properties=values["properties"],
        parser=values["parser"],
        warnings=tuple(values["warnings"]),
    )


def packed_error(error: DocumentError) -> dict[str, Any]:
    """Return an error as JSON values."""
    return {"error": {"code": error.code.value, "message": str(error), "hint": error.hint}}


def unpacked_error(head: dict[str, Any]) -> DocumentError:
    """Return the error that `packed_error` made this of."""
    values = head["error"]
    return DocumentError(FailureCode(values["code"]), values["message"], hint=values["hint"])
