"""A program that is called claude and asks as `claude -p --permission-prompt-tool` does: it starts
the server of --mcp-config, and calls the tool for each word group of its prompt, all at once.

Prints `allowed TEXT` or `refused TEXT WHY` for each; `cancel TEXT` is given up once it was asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO, Any


def install(directory: Path) -> str:
    """A `claude` in that directory; its path."""
    program = directory / "claude"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return str(program)


def _send(pipe: IO[bytes], **message: Any) -> None:
    pipe.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    pipe.flush()


def main() -> None:
    """One turn."""
    words = sys.argv[1:]
    (server,) = json.loads(words[words.index("--mcp-config") + 1])["mcpServers"].values()
    tool = words[words.index("--permission-prompt-tool") + 1].rpartition("__")[2]
    prompt = words[words.index("-p") + 1]
    started = subprocess.Popen(
        [server["command"], *server["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert started.stdin is not None
    assert started.stdout is not None
    asked = prompt.split(";")
    _send(started.stdin, id=100, method="initialize", params={"protocolVersion": "2025-06-18"})
    for number, text in enumerate(asked):
        given = {"tool_name": "Bash", "input": {"command": text}, "tool_use_id": f"t{number}"}
        call = {"name": tool, "arguments": given}
        _send(started.stdin, id=number, method="tools/call", params=call)
    print("asking", flush=True)
    if "cancel" in prompt:
        sys.stdin.readline()
        for number, text in enumerate(asked):
            if text.startswith("cancel"):
                _send(started.stdin, method="notifications/cancelled", params={"requestId": number})
        asked = [text for text in asked if not text.startswith("cancel")]
    left = len(asked)
    while left:
        answer = json.loads(started.stdout.readline())
        if answer["id"] == 100:
            continue
        said = json.loads(answer["result"]["content"][0]["text"])
        text = prompt.split(";")[answer["id"]]
        if said["behavior"] == "allow":
            assert said["updatedInput"] == {"command": text}
            print("allowed", text, flush=True)
        else:
            print("refused", text, said["message"], flush=True)
        left -= 1
    started.stdin.close()
    started.wait()


if __name__ == "__main__":
    main()
