"""What a user adds to an agent's settings, so that it starts the server. Nothing is written."""

from __future__ import annotations

import json
import os
import sys

from holdfast.process.this_host import STAMP, STAMP_HOME
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

AGENTS = ("claude", "codex", "gemini")
_CALL_SECONDS = 60  # no call takes over 50
_PASSED_ON = (STAMP, STAMP_HOME, "HOLDFAST_HOME")


class ClientConfig(Record):
    """The text, and where it belongs."""

    text: str
    where: str


def command(*options: str) -> list[str]:
    """What starts the server. `-P`: no module of the working directory takes the SDK's place."""
    return [sys.executable, "-P", "-m", "holdfast", "mcp", *options]


def client_config(agent: str, options: Sequence[str]) -> ClientConfig:
    """For one of AGENTS, with these options of `holdfast mcp`."""
    program, *arguments = command(*options)
    home = os.environ.get("HOLDFAST_HOME")
    env = {"HOLDFAST_HOME": home} if home else {}
    if agent == "codex":
        return ClientConfig(_toml(program, arguments, env), "~/.codex/config.toml")
    server: dict[str, Any] = {
        "command": program,
        "args": arguments,
        **({"env": env} if env else {}),
    }
    if agent == "claude":
        server["alwaysLoad"] = True  # its first turn waits for the tools, 5 s at most
        return ClientConfig(_json(server), ".mcp.json of a project, or claude --mcp-config FILE")
    server["timeout"] = _CALL_SECONDS * 1000
    return ClientConfig(_json(server), "~/.gemini/settings.json")


def _json(server: dict[str, Any]) -> str:
    return json.dumps({"mcpServers": {"holdfast": server}}, indent=2)


def _toml(program: str, arguments: Sequence[str], env: dict[str, str]) -> str:
    """codex hands a server none of its variables but those that are named."""
    passed = [name for name in _PASSED_ON if name not in env]
    lines = [
        "[mcp_servers.holdfast]",
        f"command = {json.dumps(program)}",
        f"args = {json.dumps(arguments)}",
        f"env_vars = {json.dumps(passed)}",
        f"tool_timeout_sec = {_CALL_SECONDS}",
        "required = true  # its first turn waits for the tools",
    ]
    if env:
        values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
        lines.append(f"env = {{ {values} }}")
    return "\n".join(lines)
