"""The owned Milvus Lite: one server however many ask, whatever was killed, and nothing acknowledged is lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import psutil
import pytest

from kb.errors import IndexUnavailable
from kb.index.lite import LiteServer
from kb.index.milvus import MilvusServer
from tests.index_samples import DIM, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
PATIENCE = 60
ASK = """
import sys
from pathlib import Path
from kb.index.lite import LiteServer
server = LiteServer(Path(sys.argv[1]), 30)
print(server.endpoint(), flush=True)
sys.stdin.read()
"""
WRITE = """
import sys
from pathlib import Path
from kb.errors import IndexUnavailable
from kb.index.lite import LiteServer
from kb.index.milvus import MilvusServer
from tests.index_samples import DIM, row
index = MilvusServer(LiteServer(Path(sys.argv[1]), 30), timeout=5).open("kb_test", DIM)
for n in range(10**9):
    rows = [row(f"{sys.argv[2]}-{n}-{i}", rev=n) for i in range(5)]
    try:
        index.upsert(rows)
    except IndexUnavailable:
        continue
    print(n, flush=True)
"""
WAIT = """
import sys
from pathlib import Path
from kb.index.lite import LiteServer
with LiteServer(Path(sys.argv[1]), 30).writing():
    print("writing", flush=True)
    sys.stdin.read()
"""

Start: TypeAlias = "Callable[..., LiteServer]"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LiteServer]]:
    """Makes Lite servers below the test's directory; all are stopped after it."""
    servers: list[LiteServer] = []

    def make(directory: str = "index", idle: float = 30, wedged: float = 10) -> LiteServer:
        servers.append(LiteServer(tmp_path / directory, idle, wedged_seconds=wedged))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


def run(program: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """Close a program's input, which ends it, and return what it still printed."""
    return process.communicate(timeout=PATIENCE)[0]


def interrupted(process: subprocess.Popen[str]) -> str:
    """Interrupt a program until it ends, and return what it still printed.

    Python drops an interrupt that falls into a destructor or a callback, so one may not be enough.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=2)[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                process.kill()
                process.communicate()
                raise


def until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def servers_of(directory: Path) -> list[psutil.Process]:
    """Return the living server processes that work in `directory`."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "milvus":
            try:
                if process.cwd() == str(directory) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
    return found


def pids(directory: Path) -> tuple[int, int]:
    """Return the pids of supervisor and server."""
    announced = json.loads((directory / "endpoint").read_text())
    return announced["pid"], announced["server_pid"]


def test_eight_processes_that_ask_at_once_share_one_server(start: Start, tmp_path: Path) -> None:
    server = start()
    asking = [run(ASK, tmp_path / "index") for _ in range(8)]
    answers = [process.stdout.readline().strip() for process in asking if process.stdout]
    assert len(set(answers)) == 1
    assert answers[0].startswith("unix:")
    assert len(servers_of(tmp_path / "index")) == 1
    assert server.status().clients == 8
    for process in asking:
        finish(process)
    until(lambda: server.status().clients == 0)


def test_the_server_ends_when_idle_and_the_next_call_starts_it_again(start: Start, tmp_path: Path) -> None:
    server = start(idle=0.3)
    first = server.endpoint()
    time.sleep(1)  # far longer than the idle time
    assert server.status().uri == first, "it must stay while somebody holds it"
    server.close()
    until(lambda: not server.status().running)
    until(lambda: not servers_of(tmp_path / "index"))
    assert not (tmp_path / "index" / "endpoint").exists()
    assert server.endpoint() != first


def test_stop_and_status_tell_the_truth(start: Start, tmp_path: Path) -> None:
    server = start()
    assert not server.status().running
    assert not server.stop()
    uri = server.endpoint()
    status = server.status()
    assert (status.running, status.uri, status.clients) == (True, uri, 1)
    assert (status.pid, status.server_pid) == pids(tmp_path / "index")
    assert status.disk_bytes > 0
    assert status.uptime_seconds is not None
    assert status.uptime_seconds >= 0
    assert server.is_current(uri)
    assert server.stop()
    assert not server.is_current(uri)
    assert not server.status().running
    assert servers_of(tmp_path / "index") == []


def test_it_writes_nothing_beside_its_directory(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left alone, the server logs every search to a file in TMPDIR, without a bound."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    server = start()
    milvus = MilvusServer(server, timeout=PATIENCE)
    milvus.create("kb_test", DIM)
    index = milvus.open("kb_test", DIM)
    index.upsert([row("one")])
    assert index.count() == 1
    assert server.stop()
    assert sorted((tmp_path / "tmp").rglob("*")) == []


def test_another_process_may_stop_it_and_the_next_call_goes_on(start: Start, tmp_path: Path) -> None:
    milvus = MilvusServer(start())
    milvus.create("kb_test", DIM)
    index = milvus.open("kb_test", DIM)
    index.upsert([row("a")])
    assert LiteServer(tmp_path / "index", 30).stop()
    assert index.count() == 1
    milvus.close()


def test_terminating_the_supervisor_ends_both_cleanly(start: Start, tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        server = start()
        server.endpoint()
        os.kill(pids(tmp_path / "index")[0], number)
        until(lambda: not servers_of(tmp_path / "index"))
        until(lambda: not (tmp_path / "index" / "endpoint").exists())
        until(lambda: list((tmp_path / "index").glob("*.sock")) == [])


@pytest.mark.parametrize("victim", ["server", "supervisor", "both"])
def test_the_call_after_a_kill_works_and_finds_every_row(start: Start, tmp_path: Path, victim: str) -> None:
    milvus = MilvusServer(start())
    milvus.create("kb_test", DIM)
    index = milvus.open("kb_test", DIM)
    for n in range(3):
        index.upsert([row(f"{n}-{i}") for i in range(50)])
        supervisor, server = pids(tmp_path / "index")
        for pid in {"server": [server], "supervisor": [supervisor], "both": [supervisor, server]}[victim]:
            os.kill(pid, signal.SIGKILL)
        assert index.count() == 50 * (n + 1)
        assert len(list(index.revisions())) == 50 * (n + 1)
    assert len(servers_of(tmp_path / "index")) == 1
    milvus.close()


def test_nothing_that_a_dead_writer_has_sent_comes_after_what_is_written_next(start: Start, tmp_path: Path) -> None:
    directory = tmp_path / "index"
    milvus = MilvusServer(start())
    milvus.create("kb_test", DIM)
    index = milvus.open("kb_test", DIM)
    first = pids(directory)
    writer = run(WAIT, directory)
    assert writer.stdout
    assert writer.stdout.readline() == "writing\n"
    index.upsert([row("a")])
    assert pids(directory) == first, "a writer that lives is left alone"
    writer.kill()
    writer.communicate(timeout=PATIENCE)
    assert index.count() == 1
    assert pids(directory) == first, "who only reads changes nothing"
    index.delete(["a"])
    second = pids(directory)
    assert second != first, "the server that may have had its request is gone"
    index.upsert([row("b")])
    assert (index.count(), pids(directory)) == (1, second)
    assert list(directory.glob("writing-*")) == []
    milvus.close()


def test_a_server_that_no_longer_answers_is_replaced(start: Start, tmp_path: Path) -> None:
    milvus = MilvusServer(start(wedged=1), timeout=2)
    milvus.create("kb_test", DIM)
    index = milvus.open("kb_test", DIM)
    index.upsert([row("a")])
    os.kill(pids(tmp_path / "index")[1], signal.SIGSTOP)
    assert index.count() == 1
    milvus.close()


def test_stale_files_do_not_hinder_a_start(start: Start, tmp_path: Path) -> None:
    directory = tmp_path / "index"
    stale = {"pid": os.getpid(), "server_pid": os.getpid(), "uri": f"unix:{directory}/gone.sock", "started_at": 0}
    for content in ("", "{", "[]", '{"uri": 1}', json.dumps(stale)):
        server = start()
        directory.mkdir(exist_ok=True)
        (directory / "endpoint").write_text(content)
        (directory / "lock").write_text(str(os.getpid()))
        (directory / "clients").write_text("")
        (directory / "gone.sock").write_text("")
        assert server.endpoint().startswith("unix:")
        assert not (directory / "gone.sock").exists()
        assert server.stop()


@pytest.mark.parametrize("name", ["deep/" * 40 + "index", "with blank/index", "100%41?#/index", "数据/index"])
def test_any_directory_will_do(start: Start, tmp_path: Path, name: str) -> None:
    server = start(name)
    milvus = MilvusServer(server)
    milvus.create("kb_test", DIM)
    milvus.open("kb_test", DIM).upsert([row("a")])
    assert (tmp_path / name / "kb.db").stat().st_size > 0
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
    place = Path(server.endpoint().removeprefix("unix:")).parent
    assert place.stat().st_mode & 0o777 == 0o700
    milvus.close()
    server.stop()
    assert place == tmp_path / name or not place.exists()


def test_two_data_directories_stand_side_by_side(start: Start) -> None:
    one, two = MilvusServer(start("one")), MilvusServer(start("two"))
    for server, id_ in ((one, "a"), (two, "b")):
        server.create("kb_test", DIM)
        server.open("kb_test", DIM).upsert([row(id_)])
    assert list(one.open("kb_test", DIM).revisions()) == [("a", 1)]
    assert list(two.open("kb_test", DIM).revisions()) == [("b", 1)]
    one.close()
    two.close()


def test_a_start_that_fails_says_why(start: Start, tmp_path: Path) -> None:
    (tmp_path / "index" / "kb.db").mkdir(parents=True)
    with pytest.raises(IndexUnavailable, match="did not start"):
        start().endpoint()
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexUnavailable, match="cannot be used"):
        start("file/index").endpoint()


def test_without_the_binary_the_way_out_is_named() -> None:
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n"
        "from kb.errors import IndexUnavailable\nfrom kb.index.lite import server_binary\n"
        "try:\n    server_binary()\nexcept IndexUnavailable as error:\n    print(error, error.hint)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert "not installed" in done.stdout
    assert "KB_INDEX_URI" in done.stdout


def killed_rounds(start: Start, directory: Path, rounds: int, writers: int) -> None:
    """Kill server or supervisor while processes write; every acknowledged row must be there, once."""
    chance = random.Random(rounds)
    milvus = MilvusServer(start(), timeout=5)
    milvus.create("kb_test", DIM)
    writing = [run(WRITE, directory, name) for name in "abcdefgh"[:writers]]
    for process in writing:
        assert process.stdout
        process.stdout.readline()
    for _ in range(rounds):
        time.sleep(chance.uniform(0.05, 0.5))  # the moment of the kill is what is random
        milvus.has("kb_test")
        os.kill(chance.choice(pids(directory)), signal.SIGKILL)
    milvus.has("kb_test")
    acknowledged = {"abcdefgh"[w]: [0, *map(int, interrupted(p).split())] for w, p in enumerate(writing)}
    index = milvus.open("kb_test", DIM)
    found = [id_ for id_, _ in index.revisions()]
    assert len(set(found)) == len(found) == index.count()
    wanted = {f"{writer}-{n}-{i}" for writer, numbers in acknowledged.items() for n in numbers for i in range(5)}
    assert wanted - set(found) == set()
    milvus.close()


def test_no_acknowledged_row_is_lost_to_kills(start: Start, tmp_path: Path) -> None:
    killed_rounds(start, tmp_path / "index", rounds=3, writers=2)


@pytest.mark.soak
def test_no_acknowledged_row_is_lost_to_many_kills(start: Start, tmp_path: Path) -> None:
    killed_rounds(start, tmp_path / "index", rounds=60, writers=8)
