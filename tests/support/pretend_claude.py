"""A program that is called claude and speaks like it, for tests without the real one.

Words in its prompt steer it: `hold` waits before the answer, `linger` after it, `fail` and `limit`
end it with an error, `leave` leaves a process behind, `nest` starts a run of its own, `silent`
names no session. Its session goes on where --resume says, else it is a new one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def install(directory: Path) -> str:
    """A `claude` in that directory; its path."""
    program = directory / "claude"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return str(program)


def _say(**record: object) -> None:
    print(json.dumps(record), flush=True)


def _transcript(session: str) -> Path:
    project = "".join(char if char.isalnum() else "-" for char in os.getcwd())
    return Path(os.environ["HOME"], ".claude", "projects", project, f"{session}.jsonl")


def main() -> int:
    words = sys.argv[1:]
    prompt = words[-1]
    session = words[words.index("--resume") + 1] if "--resume" in words else f"s{os.getpid()}"
    if "silent" not in prompt:
        _say(type="system", subtype="init", session_id=session)
    path = _transcript(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps({"type": "user", "message": prompt}) + "\n")
    if "leave" in prompt:
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    if "nest" in prompt:
        run = [sys.executable, "-m", "holdfast", "run", "-n", "inner", "--independent"]
        subprocess.run([*run, "sleep", "600"], check=True, stdout=subprocess.DEVNULL)
    if "hold" in prompt:
        time.sleep(600)
    return _answer(prompt, session)


def _answer(prompt: str, session: str) -> int:
    is_error = "fail" in prompt or "limit" in prompt
    usage = {"input_tokens": 5, "output_tokens": 7}
    _say(
        type="result",
        subtype="success",
        is_error=is_error,
        session_id=session,
        result="sorry" if is_error else f"done: {prompt}",
        api_error_status=429 if "limit" in prompt else None,
        usage=usage,
        total_cost_usd=0.25,
    )
    if "linger" in prompt:
        time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
