"""Serving: HTTP, MCP and the console's mount over the same store, each request as its key allows."""
