"""The parser process: reads files off a socket, answers documents or errors, dies with its parent.

It is started by `ingest.parse.worker` and never by hand. Three things end it: its parent's word (the socket closes),
its parent's death (seen by a watching thread), and the kernel's alarm some time after the document's limit, which works
even while native code holds the interpreter.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ingest.parse import guarded, wire
from ingest.parse.raw import ParseLimits
from kb.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.blocks import ParsedDocument

ALARM_GRACE_S = 5  # after the limit, should the parent be unable to act
GC_THRESHOLD = 50_000  # new objects between two collections; a document's tree is dropped whole
LARGE_FILE = 1_000_000  # bytes
PARENT_POLL_S = 0.25
HEAVY = ("unstructured", "pypdfium2", "docutils", "pandas")  # libraries whose memory grows


def serve(descriptor: int, parent: int) -> None:
    """Answer requests until the other end closes.

    Args:
        descriptor: of the socket to the parent.
        parent: its process id.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it may let this document finish
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    warnings.simplefilter("ignore")
    sock = socket.socket(fileno=descriptor)
    try:
        head, _ = wire.receive(sock)
        limits = ParseLimits(**head["limits"])
        _limit_memory(limits.memory)
        parse = loaded(head["parser"])
        gc.freeze()  # what is loaded stays: the collector need not look at it for every document
        gc.set_threshold(GC_THRESHOLD)
        wire.send(sock, {"ready": True})
        while True:
            request, data = wire.receive(sock)
            _answer(sock, parse, request["name"], data, limits)
    except (wire.Closed, BrokenPipeError):
        return


def loaded(path: str) -> Callable[[str, bytes, ParseLimits], ParsedDocument]:
    """Return the function named `package.module:function`."""
    module, _, function = path.partition(":")
    parse: Callable[[str, bytes, ParseLimits], ParsedDocument] = getattr(import_module(module), function)
    return parse


def _answer(
    sock: socket.socket, parse: Callable[..., ParsedDocument], name: str, data: bytes, limits: ParseLimits
) -> None:
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + ALARM_GRACE_S)
    text = b""
    head: dict[str, Any]
    try:
        head, text = guarded(lambda: wire.packed(parse(name, data, limits)))
    except DocumentError as error:
        head = wire.packed_error(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if len(data) > LARGE_FILE:
        gc.collect()
    head["heavy"] = any(name in sys.modules for name in HEAVY)
    wire.send(sock, head, text)


def _limit_memory(size: int) -> None:
    """Let the kernel refuse data memory beyond `size`: a leap between two looks of the parent ends here."""
    try:
        import resource  # noqa: PLC0415 - loaded when first needed

        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        return


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)
