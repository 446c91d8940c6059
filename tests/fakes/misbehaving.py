"""Parsers that misbehave in every way a real one can; the worker's tests name them by module path."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from ingest.blocks import Block, BlockKind, ParsedDocument
from ingest.parse import ParseLimits, parse

if TYPE_CHECKING:
    from collections.abc import Callable


def obedient(name: str, data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Do what the name says; anything else parses as text of the process's own id."""
    action = ACTIONS.get(name)
    if action is not None:
        action(limits)
    text = str(os.getpid())
    block = Block(kind=BlockKind.TEXT, text=text, start=0, end=len(text))
    return ParsedDocument(text=text, blocks=(block,), title=name, properties={"bytes": len(data)})


def offline(name: str, data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Parse for real on a machine whose every connection is refused."""

    def refuse(*_: object) -> NoReturn:
        raise OSError("the network is cut")

    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.getaddrinfo = refuse  # type: ignore[assignment]
    return parse(name, data, limits)


def _hang(_: ParseLimits) -> None:
    while True:
        time.sleep(1)


def _hold_the_interpreter(_: ParseLimits) -> None:
    re.match("(a+)+$", "a" * 60 + "b")  # the regex engine never lets another thread run


def _eat(_: ParseLimits) -> None:
    eaten = []
    while True:
        eaten.append(bytearray(5_000_000))
        time.sleep(0.001)


def _leap(limits: ParseLimits) -> None:
    leap = bytearray(limits.memory * 2)
    leap[::4096] = b"x" * len(leap[::4096])


def _segfault(_: ParseLimits) -> None:
    ctypes.string_at(0)


def _exit(_: ParseLimits) -> None:
    os._exit(7)


def _shout(_: ParseLimits) -> None:
    sys.stdout.write("a banner nobody asked for\n")
    os.write(1, b"and one past Python\n")


def _raise(_: ParseLimits) -> None:
    raise IndexError("list index out of range")


ACTIONS: dict[str, Callable[[ParseLimits], None]] = {
    "hang": _hang,
    "hold": _hold_the_interpreter,
    "eat": _eat,
    "leap": _leap,
    "segfault": _segfault,
    "exit": _exit,
    "shout": _shout,
    "raise": _raise,
}
