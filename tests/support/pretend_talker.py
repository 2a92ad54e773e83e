"""A program that is called claude and keeps its hooks as the real one does, for tests without it.

On a terminal each line is a prompt: `ask CMD;; ask CMD` asks for permission for each at once, and
runs those that are allowed; `fork CMD` asks from a child process; `question TEXT` asks something;
anything else is answered. While it asks, `y` allows what was asked first and `n` cancels all, as at
the real one's prompt: a hook that waits is sent SIGTERM then, and is left alone after `y`. It
ignores SIGHUP. With `-p PROMPT` it prints its answer as text, and nobody is asked.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SESSION = "11111111-2222-4333-8444-555555555555"
Report = dict[str, Any]


def install(directory: Path, python: str = sys.executable) -> str:
    """A `claude` in that directory; its path."""
    program = directory / "claude"
    program.write_text(f'#!/bin/sh\nexec "{python}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return str(program)


class Hooks:
    """The commands of --settings, and what they print."""

    def __init__(self, words: list[str]) -> None:
        given = [words[at + 1] for at, word in enumerate(words) if word == "--settings"]
        text = given[-1] if given else "{}"
        settings = json.loads(text if text.startswith("{") else Path(text).read_text())
        self._commands: dict[str, list[str]] = {
            event: [hook["command"] for one in groups for hook in one["hooks"]]
            for event, groups in settings.get("hooks", {}).items()
        }

    def start(self, event: str, **report: Any) -> list[subprocess.Popen[bytes]]:
        base = {"session_id": SESSION, "cwd": os.getcwd(), "hook_event_name": event}
        said = json.dumps({**base, **report}).encode() + b"\n"
        started = []
        for command in self._commands.get(event, ()):
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                command, shell=True, stdin=pipe, stdout=pipe, start_new_session=True
            )
            assert process.stdin is not None
            process.stdin.write(said)
            process.stdin.close()
            started.append(process)
        return started

    def fire(self, event: str, **report: Any) -> None:
        for process in self.start(event, **report):
            process.wait()


class Asking:
    """Permissions that are asked for at once."""

    def __init__(self, hooks: Hooks, commands: list[str]) -> None:
        self._hooks = hooks
        self._reports: list[Report] = [
            {"tool_name": "Bash", "tool_input": {"command": one}} for one in commands
        ]
        self._hook_of: dict[int, subprocess.Popen[bytes]] = {}
        self._decided: dict[int, bool] = {}

    def ask(self) -> None:
        for number, report in enumerate(self._reports):
            for process in self._hooks.start("PermissionRequest", **report):
                self._hook_of[number] = process
        print(f"asking for {len(self._reports)}", flush=True)
        while len(self._decided) < len(self._reports):
            self._wait()

    def _wait(self) -> None:
        waiting = {
            process.stdout.fileno(): number
            for number, process in self._hook_of.items()
            if process.stdout is not None and not process.stdout.closed
        }
        sources = [*waiting, *([0] if sys.stdin is not None and not sys.stdin.closed else [])]
        for fd in select.select(sources, [], [])[0]:
            if fd == 0:
                self._typed()
            else:
                self._told(waiting[fd])

    def _typed(self) -> None:
        try:
            line = os.read(0, 4096)
        except OSError:  # the terminal is gone
            line = b""
        if not line:
            sys.stdin.close()
            return
        left = [one for one in range(len(self._reports)) if one not in self._decided]
        if line.strip() == b"y":
            self._decide(left[0], allowed=True)
        elif line.strip() == b"n":
            for number in left:
                if number in self._hook_of:
                    os.killpg(self._hook_of[number].pid, signal.SIGTERM)
                self._decide(number, allowed=False, why="cancelled")

    def _told(self, number: int) -> None:
        process = self._hook_of[number]
        assert process.stdout is not None
        said = process.stdout.read()
        process.stdout.close()
        if said and number not in self._decided:
            decision = json.loads(said)["hookSpecificOutput"]["decision"]
            allowed = decision["behavior"] == "allow"
            self._decide(number, allowed=allowed, why=decision.get("message", ""))

    def _decide(self, number: int, *, allowed: bool, why: str = "") -> None:
        self._decided[number] = allowed
        report = self._reports[number]
        command = report["tool_input"]["command"]
        if allowed:
            subprocess.run(command, shell=True)
            self._hooks.fire("PostToolUse", **report, tool_response={"stdout": ""})
        print(f"{'ran' if allowed else 'refused'} {command} {why}".strip(), flush=True)


def _turn(hooks: Hooks, prompt: str) -> None:
    hooks.fire("UserPromptSubmit", prompt=prompt)
    word, _, rest = prompt.partition(" ")
    if word == "ask":
        Asking(hooks, [one.strip().removeprefix("ask ") for one in prompt.split(";;")]).ask()
    elif word == "fork":
        if os.fork() == 0:
            Asking(hooks, [rest]).ask()
            os._exit(0)
        os.wait()
    elif word == "question":
        report = {"tool_name": "AskUserQuestion", "tool_input": {"questions": [{"question": rest}]}}
        hooks.start("PermissionRequest", **report)
        os.read(0, 4096)
        hooks.fire("PostToolUse", **report)
    hooks.fire("Stop", last_assistant_message=f"done: {prompt}")
    print(f"done: {prompt}", flush=True)


def main() -> int:
    words = sys.argv[1:]
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hooks = Hooks(words)
    hooks.fire("SessionStart", source="startup")
    if "-p" in words or "--print" in words:
        hooks.fire("Stop", last_assistant_message=f"done: {words[-1]}")
        print(f"done: {words[-1]}")
    else:
        print("ready", flush=True)
        while True:
            try:
                prompt = os.read(0, 65536).decode().strip()
            except OSError:
                break
            if prompt in ("", "quit"):
                break
            _turn(hooks, prompt)
    hooks.fire("SessionEnd", reason="other")
    return 0


if __name__ == "__main__":
    sys.exit(main())
