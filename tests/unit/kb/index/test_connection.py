"""Every error of the vendor's becomes one of ours; a dead server is asked for once more, a slow one is not."""

from __future__ import annotations

import inspect
import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped] # it has no types
import pytest
from pymilvus import exceptions  # type: ignore[import-untyped] # it has no types

from kb.errors import ConfigError, IndexUnavailable, InputError, IntegrityError, KbError
from kb.index.connection import Connection, failures, translated, vendor

ROOT = Path(__file__).parents[4]
VENDOR_ERRORS = [
    error
    for _, error in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(error, Exception) and error.__module__ == exceptions.__name__
]


class RpcFailed(grpc.RpcError):  # type: ignore[misc] # it has no types
    def __init__(self, status: grpc.StatusCode) -> None:
        self.status = status

    def code(self) -> grpc.StatusCode:
        return self.status

    def details(self) -> str:
        return "as told"


class NoServer:
    """A launcher whose server is never there."""

    def __init__(self) -> None:
        self.asked = 0

    def endpoint(self) -> str:
        self.asked += 1
        return f"unix:/nowhere/{self.asked}.sock"

    def is_current(self, uri: str) -> bool:
        return bool(uri)

    def rewrite(self) -> None:
        """Nothing to clean."""

    def close(self) -> None:
        """Nothing to let go of."""


@pytest.mark.parametrize("error", VENDOR_ERRORS, ids=lambda e: e.__name__)
def test_every_error_of_the_vendor_becomes_ours(error: type[Exception]) -> None:
    assert issubclass(error, failures())
    ours = translated(error(message="what went wrong"), "somewhere")  # type: ignore[call-arg] # theirs take it
    assert isinstance(ours, KbError)
    assert ("what went wrong" in str(ours)) is not isinstance(
        ours, ConfigError
    )  # of an address it would be the password


@pytest.mark.parametrize("status", list(grpc.StatusCode), ids=lambda s: s.name)
def test_every_status_of_grpc_becomes_ours(status: grpc.StatusCode) -> None:
    assert isinstance(RpcFailed(status), failures())
    ours = translated(RpcFailed(status), "somewhere")
    assert isinstance(ours, IndexUnavailable)
    assert f"{status.name}: as told" in str(ours)


@pytest.mark.parametrize(
    ("error", "ours", "hint"),
    [
        (exceptions.MilvusException(1100, "bad expression"), InputError, ""),
        (exceptions.MilvusException(100, "no collection"), IndexUnavailable, "kb reindex"),
        (exceptions.MilvusException(1401, "who are you"), IndexUnavailable, "KB_INDEX_TOKEN"),
        (exceptions.MilvusException(grpc.StatusCode.UNAVAILABLE, "gone"), IndexUnavailable, "kb doctor"),
        (exceptions.MilvusException(2000, "segcore"), IndexUnavailable, ""),
        (exceptions.ConnectionConfigException(message="illegal"), ConfigError, ""),
        (exceptions.DataNotMatchException(message="a column is missing"), IntegrityError, ""),
        (exceptions.ParamError(message="limit"), InputError, ""),
        (ValueError("channel closed"), IndexUnavailable, ""),
    ],
)
def test_who_can_act_decides_the_error(error: Exception, ours: type[KbError], hint: str) -> None:
    found = translated(error, "somewhere")
    assert type(found) is ours
    assert hint in found.hint


def test_an_address_that_is_none_is_the_operators_to_mend() -> None:
    with pytest.raises(ConfigError):
        Connection("nonsense").call(lambda client: client)


@pytest.mark.parametrize("often", [1, 2])
def test_a_server_that_has_not_quite_begun_is_asked_once_more(monkeypatch: pytest.MonkeyPatch, often: int) -> None:
    connection, left = Connection("unix:/nowhere.sock"), [often]
    monkeypatch.setattr(connection, "_connected", object)

    def request(_: object) -> str:
        if left[0]:
            left[0] -= 1
            raise exceptions.MilvusException(2000, 'Assert "init_flag_ == true"  => Mmap manager has not been init.')
        return "found"

    if often == 1:
        assert connection.call(request) == "found"
    else:
        with pytest.raises(IndexUnavailable, match="has not been init"):
            connection.call(request)


def test_a_server_that_is_not_there_is_unavailable_and_passwords_stay_secret() -> None:
    connection = Connection("http://user:secret@127.0.0.1:1", timeout=0.5)
    with pytest.raises(IndexUnavailable) as caught:
        connection.call(lambda client: client)
    assert "secret" not in str(caught.value)
    assert connection.where == "http://127.0.0.1:1"


def test_a_lost_server_is_asked_for_once_more_and_then_given_up() -> None:
    for error, times in ((RpcFailed(grpc.StatusCode.UNAVAILABLE), 2), (exceptions.MilvusException(2000, "x"), 1)):
        connection = Connection(NoServer(), timeout=0.2)
        calls: list[int] = []

        def fail(_: Any, error: Exception = error, calls: list[int] = calls) -> None:
            calls.append(1)
            raise error

        connection._new_client = Client  # type: ignore[method-assign] # what it connects to is not the point
        with pytest.raises(IndexUnavailable):
            connection.call(fail)
        assert len(calls) == times


class Client:
    """A connection that is only closed."""

    def close(self) -> None:
        """Nothing is open."""


def test_the_vendor_is_silent() -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    loggers = [logging.getLogger(name) for name in ("pymilvus", "pymilvus.decorators", "pymilvus.milvus_client.x")]
    vendor()
    for logger in loggers:
        logger.addHandler(handler)
        logger.error("noise")
        logger.removeHandler(handler)
    assert heard.getvalue() == ""


def test_a_failing_call_writes_nothing_and_no_env_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KB_PLANTED=1\n")
    program = (
        "import os\nfrom kb.errors import IndexUnavailable\nfrom kb.index.milvus import MilvusServer\n"
        "try:\n    MilvusServer('http://127.0.0.1:1', timeout=0.5).has('x')\nexcept IndexUnavailable:\n    pass\n"
        "assert 'KB_PLANTED' not in os.environ and 'PYTHON_DOTENV_DISABLED' not in os.environ"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_importing_the_adapter_does_not_load_the_vendor() -> None:
    program = "import sys, kb.index.milvus; print({'pymilvus', 'grpc'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
