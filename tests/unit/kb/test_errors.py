"""The error tree: who can act, with which exit code, in which words."""

from __future__ import annotations

import pickle
import re
from typing import TYPE_CHECKING

import pytest

from kb import errors
from kb.errors import DocumentError, ExitCode, FailureCode, KbError

if TYPE_CHECKING:
    from collections.abc import Iterator


def tree(root: type[KbError]) -> Iterator[type[KbError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def made(error: type[KbError], message: str = "") -> KbError:
    return DocumentError(FailureCode.EMPTY, message) if issubclass(error, DocumentError) else error(message)


OWN = [error for error in tree(KbError) if error.__module__ == errors.__name__]


def test_exit_codes_are_those_of_the_design() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "DONE": 0,
        "UNEXPECTED": 1,
        "USAGE": 2,
        "PARTIAL": 3,
        "DEPENDENCY": 4,
        "REFUSED": 5,
        "LOCKED": 75,
        "INTERRUPTED": 130,
    }


@pytest.mark.parametrize("error", OWN, ids=lambda e: e.__name__)
def test_every_error_exits_as_the_drawn_tree_says(error: type[KbError]) -> None:
    tail = (errors.__doc__ or "").split(error.__name__, 1)[1]
    drawn = re.search(r"exits? (\d+)", tail.split("\n", 1)[0])
    codes = {base.exit_code for base in error.__mro__ if issubclass(base, KbError) and "exit_code" in vars(base)}
    assert error.exit_code in codes
    if drawn and error is not DocumentError:  # a failing document makes the run exit 3; alone it is the caller's
        assert error.exit_code == int(drawn[1])


def test_every_error_stands_in_the_drawn_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or "")) | {"KbError"}
    assert {error.__name__ for error in OWN} == drawn


def test_no_room_grows_a_root_of_its_own() -> None:
    assert len(OWN) <= 24
    assert all(issubclass(error, KbError) for error in OWN)


@pytest.mark.parametrize("error", OWN, ids=lambda e: e.__name__)
def test_without_words_an_error_speaks_its_docstring(error: type[KbError]) -> None:
    assert str(made(error)) == (error.__doc__ or "").split("\n", 1)[0]
    assert str(made(error)).endswith((".", "again and repeat."))


def test_a_hint_given_replaces_the_class_hint_for_this_error_only() -> None:
    error = errors.Locked("busy", hint="ask Ada")
    assert (str(error), error.hint) == ("busy", "ask Ada")
    assert errors.Locked.hint != "ask Ada"


@pytest.mark.parametrize("code", FailureCode)
def test_a_document_error_crosses_a_pipe_intact(code: FailureCode) -> None:
    sent = DocumentError(code, "页 3 has no text", hint="run OCR")
    received = pickle.loads(pickle.dumps(sent))  # noqa: S301 - our own bytes
    assert isinstance(received, DocumentError)
    assert (received.code, str(received), received.hint) == (code, "页 3 has no text", "run OCR")
