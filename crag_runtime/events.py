"""What a reader sees while a question is worked on, taken from the graph's stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_runtime.state import NodeName, RunState, Update, distinct, summed_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crag_runtime.result import Answer, Waiting
    from kb.model import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened while a question was worked on.

    Args:
        kind: step, token, void (what was streamed so far is not the answer), answer or waiting.
        step: for steps: node and why.
        token: for tokens: a piece of the text.
        result: for answer and waiting.
    """

    kind: str
    step: Mapping[str, Json] | None = None
    token: str = ""
    result: Answer | Waiting | None = None


class Seen:
    """What one run has shown so far.

    Attributes:
        state: as the last finished step left it.
        asked: what a person is asked, where the run waits for one.
    """

    def __init__(self) -> None:
        self.state: RunState = {}
        self.asked: Mapping[str, Any] | None = None
        self._last: Update | None = None

    def end(self) -> RunState | None:
        """Return the state after the last node, which the graph does not give out when it fails to keep it.

        None when the last node has not run.
        """
        if self._last is None:
            return None
        if self.state["path"][-1]["node"] == NodeName.WRITE_BACK:
            return self.state
        return {
            **self.state,
            "path": self.state["path"] + self._last["path"],
            "degraded": distinct(self.state["degraded"], self._last.get("degraded", [])),
            "usage": summed_usage(self.state["usage"], self._last.get("usage", {})),
        }

    def events(self, mode: str, data: Any) -> Iterator[Event]:  # noqa: ANN401 - the graph's own parts
        """Take in a part of the graph's stream; yield what a reader sees of it."""
        if mode == "values":
            self.state = data
        elif mode == "custom":
            yield Event(kind="void") if data.get("void") else Event(kind="token", token=data["token"])
        elif "__interrupt__" in data:
            self.asked = data["__interrupt__"][0].value
        else:
            self._last = data.get(NodeName.WRITE_BACK, self._last)
            yield from (Event(kind="step", step=step) for step in _steps(data))


def _steps(update: Mapping[str, Any]) -> list[Mapping[str, Json]]:
    """Return the steps of the path that nodes have just added."""
    paths = [part.get("path") for part in update.values() if isinstance(part, dict)]
    return [step for path in paths for step in (getattr(path, "value", path) or [])]
