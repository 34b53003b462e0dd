"""The AI SDK's own clients, and those of MCP and A2A, against live servers."""
