"""A collector that is absent, takes in and never answers, or dies: no noise, no wait, an end in time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kb import telemetry
from kb.telemetry import Attr, Metric, Span, span
from kb.telemetry.switch import SHUTDOWN_S
from tests.fakes.collector import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
TICK_S = 0.01
SPANS = 3_000  # several batches; more than the queue holds would be dropped, which is right as well
SLACK_S = 5.0  # a machine under load; without a bound a shutdown would take 10 s a batch

PROGRAM = f"""
import sys, time
from kb import telemetry
from kb.telemetry import Attr, Metric, Span
telemetry.configure(sys.argv[1], prometheus=True)
for n in range({SPANS}):
    with telemetry.span(Span.SEARCH, {{Attr.HITS: n}}): telemetry.count(Metric.SEARCHES)
began = time.monotonic()
if sys.argv[2] == "said": telemetry.shutdown()
print(time.monotonic() - began)
"""


@contextmanager
def absent() -> Iterator[str]:
    """A port that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def black_hole() -> Iterator[str]:
    """A listener that takes connections in and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def dying() -> Iterator[str]:
    """A collector that answers once, and is gone."""
    kept: list[bytes] = []
    gone = threading.Event()

    class Mortal(Collector):
        def keep(self, path: str, body: bytes) -> None:
            kept.append(body)
            gone.set()
            del path
            raise ConnectionError("gone")

    with Mortal() as collector:
        collector._server.handle_error = lambda *_: None  # type: ignore[method-assign] # it is told to fail
        yield collector.endpoint


PLACES = [absent, black_hole, dying]


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("end", ["said", "at exit"])
def test_a_process_ends_in_time_and_says_nothing(place: Callable[[], Iterator[str]], end: str) -> None:
    with place() as endpoint:  # type: ignore[attr-defined] # each is a context manager
        began = time.monotonic()
        command = [sys.executable, "-W", "error", "-c", PROGRAM, endpoint, end]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
        whole = time.monotonic() - began
    assert done.stderr == ""
    assert float(done.stdout) < SHUTDOWN_S + SLACK_S
    assert whole < 60


@pytest.mark.parametrize("place", PLACES, ids=lambda p: p.__name__)
def test_work_never_waits_for_a_collector(place: Callable[[], Iterator[str]]) -> None:
    """Structural: what works never takes a lock that an export holds. The ratio is bench/telemetry's."""
    with place() as endpoint:  # type: ignore[attr-defined] # likewise
        telemetry.configure(endpoint)
        try:
            with stalls() as stalled:
                longest = 0.0
                for _ in range(SPANS):
                    began = time.perf_counter()
                    with span(Span.SEARCH, {Attr.HITS: 1}):
                        telemetry.count(Metric.SEARCHES)
                    longest = max(longest, time.perf_counter() - began)
        finally:
            telemetry.shutdown()
    assert longest - max(stalled) < 1.0  # an export waits 2 s


@contextmanager
def stalls() -> Iterator[list[float]]:
    """Give the seconds by which a thread that only sleeps was late: what the machine, not the work, made wait."""
    late, is_over = [0.0], threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            began = time.perf_counter()
            is_over.wait(TICK_S)
            late.append(time.perf_counter() - began - TICK_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield late
    finally:
        is_over.set()
        watcher.join()


def test_what_was_recorded_before_the_end_arrives_and_a_second_end_is_nothing() -> None:
    with Collector() as collector:
        telemetry.configure(collector.endpoint)
        with span(Span.SEARCH):
            telemetry.count(Metric.SEARCHES)
        telemetry.shutdown()
        telemetry.shutdown()
        with span(Span.ASK):  # off: recorded nowhere, and no error
            telemetry.count(Metric.REQUESTS)
    assert [s.name for s in collector.spans] == [Span.SEARCH]  # type: ignore[attr-defined]
    assert Metric.SEARCHES in collector.metrics


def test_it_can_be_switched_on_again_elsewhere() -> None:
    for _ in range(2):
        with Collector() as collector:
            telemetry.configure(collector.endpoint)
            with span(Span.SEARCH):
                pass
            telemetry.shutdown()
        assert len(collector.spans) == 1


def test_a_child_of_a_fork_does_not_hang_on_its_parents_exports() -> None:
    program = """
import os, sys
from kb import telemetry
from kb.telemetry import Span
telemetry.configure(sys.argv[1])
with telemetry.span(Span.SEARCH): pass
child = os.fork()
with telemetry.span(Span.ASK): pass
telemetry.shutdown()
if child:
    os.waitpid(child, 0)
else:
    os._exit(0)
"""
    with Collector() as collector:
        command = [sys.executable, "-c", program, collector.endpoint]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert sorted(s.name for s in collector.spans).count(Span.ASK) == 2  # type: ignore[attr-defined]
