"""How an endpoint is best asked: which form of structure it takes, which parameters it refuses. Learnt, never set."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Form(IntEnum):
    """Forms of asking for structure, the strictest first."""

    SCHEMA = 0  # response_format: json_schema, strict
    TOOL = 1  # a forced tool call
    WORDS = 2  # the schema in the prompt, and a tolerant reader


@dataclass(slots=True)
class Manners:
    """What has been learnt of one model at one endpoint.

    Args:
        form: the strictest form not yet known to fail.
        is_settled: `form` has worked; it is used from now on.
        refused: parameters that are left out.
    """

    form: Form = Form.SCHEMA
    is_settled: bool = False
    refused: set[str] = field(default_factory=set)

    def to_try(self) -> tuple[Form, ...]:
        """Return the forms to try, in order."""
        return (self.form,) if self.is_settled else tuple(form for form in Form if form >= self.form)

    def failed(self, form: Form) -> None:
        """Begin with the next form from now on; after the last, from the first: nothing was learnt."""
        if not self.is_settled:
            self.form = Form(form + 1) if form < Form.WORDS else Form.SCHEMA

    def worked(self, form: Form) -> None:
        """Keep to this form."""
        if not self.is_settled:
            self.form, self.is_settled = form, True


class Known:
    """What this process has learnt, by base URL and model."""

    def __init__(self) -> None:
        self._manners: dict[tuple[str, str], Manners] = {}

    def of(self, url: str, model: str) -> Manners:
        """Return what is known of a model at an endpoint; the same object every time."""
        return self._manners.setdefault((url, model), Manners())
