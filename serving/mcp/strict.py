"""A server of tools that refuses arguments which a tool does not have, and says of wrong ones what a model can mend."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult, InputRequiredResult, Tool

NAMED = 5  # strange arguments that a refusal names
NAME_CHARS = 64  # of one of them


class StrictServer(MCPServer):
    """What was misspelt would else be passed over without a word: a note would lose what it was written from."""

    async def list_tools(self) -> list[Tool]:
        """Return the tools; their schemas say that there are no other arguments."""
        tools = await super().list_tools()
        return [
            t.model_copy(
                update={
                    "description": cleandoc(t.description or ""),
                    "input_schema": {**t.input_schema, "additionalProperties": False},
                }
            )
            for t in tools
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: there is none of this name, an argument is wrong or none of its own, or it refused.
        """
        own = next((list(t.input_schema["properties"]) for t in await super().list_tools() if t.name == name), None)
        if own is not None and (strange := sorted(arguments.keys() - set(own))):
            named = ", ".join(repr(argument[:NAME_CHARS]) for argument in strange[:NAMED])
            raise ToolError(f"{name} has no argument {named}; it takes {', '.join(own)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(f"{name}: {wrong(error.__cause__)}") from error
            raise


def wrong(error: ValidationError) -> str:
    """Return which arguments are wrong and why; nothing of what they held, which may be long."""
    told = (f"{'.'.join(map(str, e['loc']))[:NAME_CHARS]}: {e['msg']}" for e in error.errors()[:NAMED])
    return "; ".join(told)
