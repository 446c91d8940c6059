"""Attributes as they may leave, and a span under way to put them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb.telemetry.names import CONTENT
from kb.telemetry.redaction import redacted
from kb.telemetry.state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kb.telemetry.names import Attr

Attribute = str | int | float | bool


class Recording:
    """A span under way, to say more about; does nothing while telemetry is off."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:  # noqa: ANN401 - the vendor's span, or None
        self._span = span

    def set(self, attributes: Mapping[Attr, Attribute | None]) -> None:
        """Add attributes; None is left out, and so is content that may not leave."""
        if self._span is not None:
            self._span.set_attributes(shown(attributes))

    def capture(self, name: Attr, content: Callable[[], str]) -> None:
        """Add content where it may leave; else it is not even made."""
        if self._span is not None and STATE.captures:
            self._span.set_attributes(shown({name: content()}))


def shown(attributes: Mapping[Attr, Attribute | None]) -> dict[str, Attribute]:
    """Return attributes as they may leave: no secret, and content only where it is allowed."""
    return {
        name.value: redacted(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None and (STATE.captures or name not in CONTENT)
    }
