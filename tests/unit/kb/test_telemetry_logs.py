"""Lines of the log: where they were written, for which request, and nothing that is secret."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from kb import log, telemetry
from kb.log import get_logger
from kb.telemetry import Span, span
from tests.tracing import logged, one, recorded
from tests.unit.kb.test_telemetry import HIDDEN_PARTS, SECRETS

if TYPE_CHECKING:
    import io
    from collections.abc import Callable


@pytest.fixture
def failure() -> Callable[[str], None]:
    """Raises what it is told."""

    def fail(words: str) -> None:
        raise ValueError(words)

    return fail


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_inside_a_span_names_it_and_its_request_and_one_outside_does_not() -> None:
    with logged() as written:
        with recorded() as spans:
            with log.request("r1"), span(Span.ASK):
                get_logger().info("inside", documents=2)
                logging.getLogger("some.library").warning("library %s", "speaks")
            get_logger().info("outside")
        inside, library, outside = lines(written)
        context = one(spans, Span.ASK).context
        place = {"trace_id": format(context.trace_id, "032x"), "span_id": format(context.span_id, "016x")}
        assert {
            **place,
            "request_id": "r1",
            "documents": 2,
            "event": "inside",
            "level": "info",
        }.items() <= inside.items()
        assert {
            **place,
            "request_id": "r1",
            "event": "library speaks",
            "logger": "some.library",
        }.items() <= library.items()
        assert not {"trace_id", "span_id", "request_id"} & outside.keys()


def test_without_telemetry_a_line_has_its_request_alone() -> None:
    with logged() as written:
        assert not telemetry.is_traced()
        with log.request("r2"):
            get_logger().warning("line")
        (line,) = lines(written)
        assert line["request_id"] == "r2"
        assert "trace_id" not in line


def test_one_handler_however_often_it_is_configured() -> None:
    with logged() as written:
        log.configure("info")
        log.configure("info")
        logging.getLogger("library").warning("once")
        assert len(lines(written)) == 1


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_written_by_name_by_looks_in_an_error_or_by_a_library(
    failure: Callable[[str], None], secret: str
) -> None:
    with logged() as written:
        try:
            failure(f"could not reach {secret}")
        except ValueError as error:
            named = {"token": "hunter22", "nested": {"secret": [secret]}}
            get_logger().error("failed", problem=str(error), **named, exc_info=error)
            logging.getLogger("library").exception("with %s", secret)
        text = written.getvalue()
        for hidden in HIDDEN_PARTS:
            assert hidden not in text
        assert len(lines(written)) == 2
