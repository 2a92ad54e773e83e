"""Runs for agents: an MCP server. Absolute imports keep the SDK's package `mcp` apart from this."""
