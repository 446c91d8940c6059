"""The MCP server: tools and resources for agents, over HTTP beside the other endpoints, or over stdio."""

from serving.mcp.faces import mcp_app, stdio

__all__ = ["mcp_app", "stdio"]
