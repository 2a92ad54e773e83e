"""A program that is called codex and keeps its hooks as the real one does, for tests without it.

On a terminal each line is a prompt: `ask CMD` asks for permission, anything else is answered. The
hook of a question comes first: only if it decides nothing is there a prompt, which `y` allows and
`n` refuses. A hook that is not trusted by its hash is not run, which is said. It outlives its
terminal.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

SESSION = "01a1ecfd-cb79-7bc3-8633-0239c1ec293b"


def install(directory: Path) -> str:
    """A `codex` in that directory; its path."""
    program = directory / "codex"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return str(program)


class Hooks:
    """The commands of `-c hooks.EVENT=...`, and what they print."""

    def __init__(self, words: list[str]) -> None:
        given = "\n".join(words[at + 1] for at, word in enumerate(words) if word == "-c")
        self._hooks = tomllib.loads(given).get("hooks", {})

    def fire(self, event: str, **report: Any) -> str:
        said = json.dumps({"session_id": SESSION, "hook_event_name": event, **report})
        return "".join(
            subprocess.run(
                hook["command"], shell=True, input=said, stdout=subprocess.PIPE, text=True
            ).stdout
            for group in self._hooks.get(event, ())
            for hook in group["hooks"]
            if self._is_trusted(event, hook)
        )

    def _is_trusted(self, event: str, hook: dict[str, Any]) -> bool:
        name = re.sub("(?<!^)([A-Z])", r"_\1", event).lower()
        known = self._hooks["state"][f"/<session-flags>/config.toml:{name}:0:0"]["trusted_hash"]
        identity = {"event_name": name, "hooks": [{"async": False, **hook}]}
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        if known == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}":
            return True
        print(f"{event} needs review", flush=True)
        return False


def _typed() -> str:
    try:
        return os.read(0, 65536).decode().strip()
    except OSError:  # the terminal is gone
        signal.pause()
        return ""


def _ask(hooks: Hooks, command: str) -> None:
    tool = {"tool_name": "Bash", "tool_input": {"command": command}}
    asked = {**tool, "tool_input": {"command": command, "description": "as asked"}}
    said = hooks.fire("PermissionRequest", **asked)
    if said:
        allowed = json.loads(said)["hookSpecificOutput"]["decision"]["behavior"] == "allow"
    else:
        print(f"may I {command}", flush=True)
        allowed = _typed() == "y"
        if not allowed:
            hooks.fire("Interrupt")
            print("interrupted", flush=True)
            return
    if allowed:
        subprocess.run(command, shell=True)
        hooks.fire("PostToolUse", **tool, tool_response="")
    hooks.fire("Stop", last_assistant_message=f"done: {command}")
    print(f"{'ran' if allowed else 'refused'} {command}", flush=True)


def main() -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hooks = Hooks(sys.argv[1:])
    print("ready", flush=True)
    while True:
        prompt = _typed()
        if prompt in ("", "quit"):
            return 0
        hooks.fire("SessionStart", source="startup")
        hooks.fire("UserPromptSubmit", prompt=prompt)
        word, _, rest = prompt.partition(" ")
        if word == "ask":
            _ask(hooks, rest)
        else:
            hooks.fire("Stop", last_assistant_message=f"done: {prompt}")


if __name__ == "__main__":
    sys.exit(main())
