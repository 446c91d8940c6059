"""The parser's keeper: one child process that parses file after file, killed when a document exceeds its limits.

    with ParserWorker(limits) as worker:
        document = worker.parse(name, data)

A document that hangs, eats memory or crashes its parser fails alone: the next one gets a new child.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from ingest.parse import wire
from ingest.parse.memory import resident_bytes
from ingest.parse.raw import ParseLimits
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from ingest.blocks import ParsedDocument

PARSER = "ingest.parse:parse"
LOOK_S = 0.02  # between two looks at the child's memory and the clock
START_S = 120.0  # a child that is not ready by then will never be
LIGHT_FACTOR = 25  # a child without heavy libraries lives this many times longer
CRASH_SHARE = 0.8  # of the memory limit, from which a crash is put down to memory
GROWTH_SHARE = 0.5  # of the memory limit, from which an idle child is replaced

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    " from ingest.parse.child import serve; serve(int(sys.argv[2]), int(sys.argv[3]))"
)
_ENVIRONMENT = {  # one thread each: their per-thread memory would count against every document
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONUTF8": "1",
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "1",
    "UNSTRUCTURED_DISABLE_NOTICE": "1",
}
_HINT_TIME = "split it, or raise `ingest.parse_seconds`"
_HINT_MEMORY = "split it, or raise `ingest.parse_memory`"
_HINT_CRASH = "open it in its own program and save it again, or convert it to another format"


class ParserWorker:
    """Parses documents in a child process. Not for use from several threads at once.

    Args:
        limits: what one document may take.
        parser: `package.module:function` the child calls with (name, data, limits).
    """

    def __init__(self, limits: ParseLimits | None = None, *, parser: str = PARSER) -> None:
        self._limits = limits or ParseLimits()
        self._parser = parser
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._parsed = 0
        self._peak = 0  # bytes of memory the child was last seen with

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is no child."""
        return self._process.pid if self._process is not None else None

    def parse(self, name: str, data: bytes) -> ParsedDocument:
        """Return the document in a file.

        Args:
            name: the file's name.
            data: its bytes.

        Raises:
            DocumentError: the parser's own, or TIMEOUT, OUT_OF_MEMORY, PARSER_ERROR (its process died).
        """
        if len(data) > self._limits.max_bytes:
            message = f"it has {len(data):,} bytes, more than {self._limits.max_bytes:,}"
            raise DocumentError(FailureCode.TOO_LARGE, message, hint="split it, or raise `ingest.max_bytes`")
        answered = False
        try:
            head, text = self._exchange(name, data)
            answered = True
        finally:
            if not answered:  # also on Ctrl-C: the child may be in the midst of a document
                self.close()
        self._retire(heavy=bool(head.pop("heavy", False)))
        if "error" in head:
            error = wire.unpacked_error(head)
            if error.code is FailureCode.OUT_OF_MEMORY:
                self.close()  # who was refused memory once may be in any state
            raise error
        return wire.unpacked(head, text)

    def close(self) -> None:
        """End the child, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _exchange(self, name: str, data: bytes) -> tuple[dict[str, Any], bytes]:
        """Send a file and return the answer, looking after time and memory meanwhile."""
        for last in (False, True):
            sock = self._started()
            try:
                sock.settimeout(self._limits.seconds)
                wire.send(sock, {"name": name}, data)
                break
            except OSError:  # the child died while idle: not this document's doing
                self.close()
                if last:
                    raise DocumentError(
                        FailureCode.PARSER_ERROR, "the parser does not start", hint=_HINT_CRASH
                    ) from None
        deadline = time.monotonic() + self._limits.seconds
        sock.settimeout(LOOK_S)
        try:
            return wire.receive(sock, wait=lambda: self._look(deadline))
        except wire.Closed:
            raise self._post_mortem() from None

    def _look(self, deadline: float) -> None:
        """Raise when the document has had its time or memory."""
        if time.monotonic() > deadline:
            raise self._timeout()
        assert self._process is not None
        self._peak = resident_bytes(self._process.pid)
        if self._peak > self._limits.memory:
            raise self._out_of_memory()

    def _started(self) -> socket.socket:
        """Return the socket to a child that is ready."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [json.dumps(sys.path), str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(  # noqa: S603 - our own fixed command
                [sys.executable, "-c", _BOOT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # banners of libraries must not reach our own output
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **_ENVIRONMENT},
            )
        self._socket = ours
        self._parsed = self._peak = 0
        self._await_ready(ours)
        return ours

    def _await_ready(self, sock: socket.socket) -> None:
        deadline = time.monotonic() + START_S

        def wait() -> None:
            if time.monotonic() > deadline:
                raise wire.Closed

        sock.settimeout(1.0)
        try:
            wire.send(sock, {"limits": asdict(self._limits), "parser": self._parser})
            wire.receive(sock, wait=wait)
        except (wire.Closed, OSError):
            raise DocumentError(FailureCode.PARSER_ERROR, "the parser does not start", hint="`kb doctor`") from None

    def _retire(self, *, heavy: bool) -> None:
        """End a child that has done its share or grown fat; the next document starts another."""
        self._parsed += 1
        share = self._limits.recycle_after * (1 if heavy else LIGHT_FACTOR)
        assert self._process is not None
        fat = heavy and resident_bytes(self._process.pid) > GROWTH_SHARE * self._limits.memory
        if fat or self._parsed >= share:
            self.close()

    def _post_mortem(self) -> DocumentError:
        """Return why the child died."""
        assert self._process is not None
        code = self._process.wait()
        # the kernel kills when the machine is out of memory; native code that is refused memory just crashes
        if code == -signal.SIGKILL or self._peak > CRASH_SHARE * self._limits.memory:
            return self._out_of_memory()
        if code == -signal.SIGALRM:
            return self._timeout()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return DocumentError(FailureCode.PARSER_ERROR, f"the parser crashed ({cause})", hint=_HINT_CRASH)

    def _timeout(self) -> DocumentError:
        message = f"parsing took longer than {self._limits.seconds:g} s and was stopped"
        return DocumentError(FailureCode.TIMEOUT, message, hint=_HINT_TIME)

    def _out_of_memory(self) -> DocumentError:
        message = f"parsing took more than {self._limits.memory // 1_000_000:,} MB of memory and was stopped"
        return DocumentError(FailureCode.OUT_OF_MEMORY, message, hint=_HINT_MEMORY)
