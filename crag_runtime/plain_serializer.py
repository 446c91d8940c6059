"""The serializer of checkpoints: a checkpoint that somebody has tampered with can name no type to be imported."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from kb.errors import IntegrityError

READ = frozenset({"null", "bytes", "bytearray", "msgpack"})


class PlainSerializer(JsonPlusSerializer):
    """Writes msgpack; reads msgpack of plain values and of the graph library's own types only."""

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:  # noqa: ANN401 - the state's own values
        """Return the value.

        Raises:
            IntegrityError: it is in a form that is never written here.
        """
        if data[0] not in READ:
            raise IntegrityError(f"a checkpoint is written as {data[0]!r}, which this version never writes")
        return super().loads_typed(data)
