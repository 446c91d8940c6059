"""How a question is shown while it is worked on, and at its end: for people, or as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_cli import render
from kb_cli.answers import as_lines, waiting_lines
from kb_cli.search import ADVICE

if TYPE_CHECKING:
    from crag_runtime.result import Answer, Waiting
    from crag_runtime.runtime import Event
    from kb.model import Json

WITHDRAWN = "(withdrawn: it did not pass the check)"


class Show:
    """Shows one question. What was streamed and is not the answer is withdrawn, never left standing.

    Args:
        as_json: objects on stdout.
        is_streaming: the answer as it is written, and every step; with `as_json` one object a line.
    """

    def __init__(self, *, as_json: bool, is_streaming: bool) -> None:
        self.as_json = as_json
        self._is_streaming = is_streaming
        self._streamed = ""
        self._is_mid_line = False

    def event(self, event: Event) -> None:
        """Show what happens on the way."""
        if not self._is_streaming or event.result is not None:
            return
        if event.kind == "void":
            self._withdraw()
        elif event.kind == "token":
            self._token(event.token)
        elif event.step is not None:
            self._step(event.step["node"], event.step["why"])

    def answer(self, answer: Answer) -> None:
        """Show the answer."""
        from crag_runtime.result import as_json

        if self._streamed != answer.text:
            self._withdraw()
        if self.as_json:
            shown = as_json(answer)
            render.emit_json({"event": "answer", **shown} if self._is_streaming else shown)
            return
        self._end_line()
        render.say(*as_lines(answer, advice=ADVICE, with_text=not self._streamed))

    def waiting(self, waiting: Waiting, go_on: str) -> None:
        """Show the search that waits for a person; `go_on` is the command that decides, "" where nothing is kept."""
        if self.as_json:
            from crag_runtime.objects import waiting_json

            shown = waiting_json(waiting, is_kept=bool(go_on))
            render.emit_json({"event": "waiting", **shown} if self._is_streaming else shown)
        else:
            render.say(*waiting_lines(waiting, go_on))
        if not go_on:
            render.tell("nothing is kept of it: set checkpointer under [ask], or ask again with --approve always")

    def _token(self, token: str) -> None:
        self._streamed += token
        self._is_mid_line = not self.as_json
        if self.as_json:
            render.emit_json({"event": "token", "token": token})
        else:
            render.write(token)

    def _step(self, node: Json, why: Json) -> None:
        if self.as_json:
            render.emit_json({"event": "step", "node": node, "why": why})
        else:
            self._end_line()
            render.tell(f"   {node}: {why}")

    def _withdraw(self) -> None:
        if not self._streamed:
            return
        if self.as_json:
            render.emit_json({"event": "void"})
        else:
            self._end_line()
            render.say(WITHDRAWN)
        self._streamed = ""

    def _end_line(self) -> None:
        if self._is_mid_line:
            render.say("")
            self._is_mid_line = False
