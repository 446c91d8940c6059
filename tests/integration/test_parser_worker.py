"""The parser's process: stopped at its limits, replaced when it dies, gone when its parent goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from ingest.parse import ParseLimits, parse
from ingest.parse.worker import ParserWorker
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
OBEDIENT = "tests.fakes.misbehaving:obedient"
OFFLINE = "tests.fakes.misbehaving:offline"
MEMORY = 300_000_000
PATIENCE_S = 60  # how long a death may take to be seen on a busy machine

PARENT = """
import sys
from ingest.parse import ParseLimits
from ingest.parse.worker import ParserWorker
with ParserWorker(ParseLimits(seconds=600), parser="tests.fakes.misbehaving:obedient") as worker:
    print(worker.parse("ok", b"").text, flush=True)
    worker.parse(sys.argv[1], b"")
"""


@pytest.fixture
def worker() -> Iterator[ParserWorker]:
    with ParserWorker(ParseLimits(seconds=1, memory=MEMORY), parser=OBEDIENT) as worker:
        yield worker


def failure(worker: ParserWorker, name: str, data: bytes = b"") -> FailureCode:
    with pytest.raises(DocumentError) as caught:
        worker.parse(name, data)
    assert caught.value.hint
    return caught.value.code


def test_no_process_is_started_before_it_is_needed() -> None:
    with ParserWorker() as worker:
        assert worker.pid is None
        worker.parse("a.md", b"# Hi")
        assert worker.pid is not None


def test_a_document_comes_back_as_it_was_parsed() -> None:
    page = "---\ntitle: T\nn: 1.5\nl: [a]\n---\n# 标题 😀\n\n```py\nx\n```\n\n|a|b|\n|-|-|\n".encode() + b"\xff"
    with ParserWorker() as worker:
        assert worker.parse("a.md", page) == parse("a.md", page, ParseLimits())


def test_a_parsers_own_failure_keeps_its_code_and_its_process(worker: ParserWorker) -> None:
    before = worker.parse("ok", b"").text
    assert failure(worker, "raise") is FailureCode.PARSER_ERROR
    assert worker.parse("ok", b"").text == before


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("hang", FailureCode.TIMEOUT),
        ("hold", FailureCode.TIMEOUT),
        ("eat", FailureCode.OUT_OF_MEMORY),
        ("leap", FailureCode.OUT_OF_MEMORY),
        ("segfault", FailureCode.PARSER_ERROR),
        ("exit", FailureCode.PARSER_ERROR),
    ],
)
def test_a_document_that_breaks_its_parser_fails_alone(worker: ParserWorker, action: str, code: FailureCode) -> None:
    before = worker.parse("ok", b"").text
    assert failure(worker, action) is code
    assert worker.parse("ok", b"").text != before
    assert not psutil.pid_exists(int(before))


def test_a_process_that_died_while_idle_is_replaced_without_blame(worker: ParserWorker) -> None:
    before = int(worker.parse("ok", b"").text)
    psutil.Process(before).kill()
    assert worker.parse("ok", b"x" * 5_000_000).properties == {"bytes": 5_000_000}


def test_a_process_is_replaced_after_its_share_of_documents() -> None:
    limits = ParseLimits(recycle_after=1)
    with ParserWorker(limits, parser=OBEDIENT) as worker:
        pids = [worker.parse("ok", b"").text for _ in range(60)]
    assert 2 <= len(set(pids)) <= 4


def test_a_file_above_the_limit_is_never_sent() -> None:
    with ParserWorker(ParseLimits(max_bytes=10)) as worker:
        assert failure(worker, "a.md", b"x" * 11) is FailureCode.TOO_LARGE
        assert worker.pid is None


def test_leaving_ends_the_process(worker: ParserWorker) -> None:
    pid = int(worker.parse("ok", b"").text)
    worker.close()
    assert not psutil.pid_exists(pid)
    assert worker.pid is None


def test_what_a_parser_prints_never_reaches_our_output(capfd: pytest.CaptureFixture[str], worker: ParserWorker) -> None:
    worker.parse("shout", b"")
    worker.close()
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_process_dies_with_its_parent_even_in_the_midst_of_a_document(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, "hang"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert parent.stdout is not None
    try:
        child = psutil.Process(int(parent.stdout.readline()))
        # Ctrl-C reaches the whole group, the others only the parent
        (os.killpg if number == signal.SIGINT else os.kill)(parent.pid, number)
        parent.wait(PATIENCE_S)
        child.wait(PATIENCE_S)
        assert not child.is_running()
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_a_parser_that_does_not_load_is_an_error_not_a_wait() -> None:
    with ParserWorker(parser="ingest.parse:no_such_function") as worker:
        assert failure(worker, "a.md") is FailureCode.PARSER_ERROR


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_cut_network_makes_no_difference() -> None:
    import io

    import docx

    document = docx.Document()
    document.add_heading("Heading", 1)
    document.add_paragraph("这是一个段落。 And an English sentence with a verb in it.")
    out = io.BytesIO()
    document.save(out)
    files = {"a.docx": out.getvalue(), "a.md": b"# Hi\n\ntext"}
    with ParserWorker(ParseLimits(seconds=240)) as whole, ParserWorker(ParseLimits(seconds=240), parser=OFFLINE) as cut:
        for name, data in files.items():
            assert cut.parse(name, data) == whole.parse(name, data)


def test_markdown_loads_no_heavy_library() -> None:
    code = (
        "import sys; from ingest.parse import parse, ParseLimits; import ingest.parse.child, ingest.parse.worker\n"
        "parse('a.md', b'---\\nt: 1\\n---\\n# Hi', ParseLimits())\n"
        "heavy = {'unstructured', 'spacy', 'numpy', 'lxml', 'pypdfium2', 'pandas', 'docutils'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
