"""A program that is called claude and speaks like it, for tests without the real one.

Words in its prompt steer it: `hold` waits before the answer, `linger` after it, `fail` and `limit`
end it with an error, `leave` leaves a process behind, `nest` starts a run of its own, `silent`
names no session. A file `quota` in the working directory, as `quota` writes it, says how many of
the next turns end with a used-up quota; each turn then adds its words to `commands`, and to `alive`
which of the processes that were left behind it has met.

`steps=N`: a turn of so many messages, 1000 tokens in and 50 out each; with `wait`, each
but the first waits for a file `go2`, `go3` ... in the working directory; with `helper`, a
subagent sends as many. Its session goes on where --resume says, else it is a new one.

A message costs $0.01, and --max-budget-usd is kept as the real one keeps it: the message that goes
beyond it is the last. With `--input-format stream-json` each line of its input is a turn.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

TOKENS_IN, TOKENS_OUT, COST = 1000, 50, 0.01


def install(directory: Path, python: str = sys.executable) -> str:
    """A `claude` in that directory; its path."""
    program = directory / "claude"
    program.write_text(f'#!/bin/sh\nexec "{python}" "{__file__}" "$@"\n')
    program.chmod(0o755)
    return str(program)


def quota(directory: Path, turns: int, *, seconds: int | None, more: str = "") -> None:
    """So many of the next turns end with a used-up quota, which is back after so many seconds.

    None: that is not said. `more`: `linger` stays after it has said so, `leave` leaves a process.
    """
    content = {"turns": turns, "seconds": seconds, "more": more}
    (directory / "quota").write_text(json.dumps(content))


def _say(**record: object) -> None:
    if "stream-json" in sys.argv or record["type"] == "result":
        print(json.dumps(record), flush=True)


def _transcript(session: str) -> Path:
    project = "".join(char if char.isalnum() else "-" for char in os.getcwd())
    return Path(os.environ["HOME"], ".claude", "projects", project, f"{session}.jsonl")


def _write(path: Path, record: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with path.open("a") as file:
        file.write(json.dumps({**record, "timestamp": now}) + "\n")


class Conversation:
    """One process: its session, and what it has used."""

    def __init__(self, words: list[str]) -> None:
        at = {word: place for place, word in enumerate(words)}
        resumed = words[at["--resume"] + 1] if "--resume" in at else None
        self.session = resumed or f"s{os.getpid()}"
        self.path = _transcript(self.session)
        given = words[at["--max-budget-usd"] + 1] if "--max-budget-usd" in at else None
        self.budget = float(given) if given is not None else float("inf")
        self.messages = 0

    def turn(self, prompt: str) -> int:
        if "silent" not in prompt:
            _say(type="system", subtype="init", session_id=self.session)
        _write(self.path, {"type": "user", "message": prompt})
        if self._has_no_quota():
            return 1
        _act(prompt)
        found = re.search(r"steps=(\d+)", prompt)
        for number in range(1, int(found[1]) + 1 if found else 1):
            if number > 1 and "wait" in prompt:
                _await(f"go{number}")
            self._step("helper" in prompt)
            if self.messages * COST > self.budget:
                self._give_up()
                return 1
        self._answer(prompt)
        return 0

    def _has_no_quota(self) -> bool:
        if not os.path.exists("quota"):
            return False
        with open("commands", "a") as file:
            file.write(json.dumps(sys.argv[1:]) + "\n")
        _note_alive()
        given = json.loads(Path("quota").read_text())
        if not given["turns"]:
            return False
        Path("quota").write_text(json.dumps({**given, "turns": given["turns"] - 1}))
        _act(given["more"])
        if given["seconds"] is not None:
            reset = {"status": "rejected", "resetsAt": int(time.time()) + given["seconds"]}
            _say(type="rate_limit_event", rate_limit_info=reset, session_id=self.session)
        self._end("success", is_error=True, result="limit", api_error_status=429)
        if "linger" in given["more"]:
            time.sleep(600)
        return True

    def _step(self, has_helper: bool) -> None:
        if has_helper:
            helper = self.path.with_suffix("") / "subagents" / "agent-a.jsonl"
            _write(helper, self._message(TOKENS_OUT, isSidechain=True))
        # The transcript first: what stops this process at its word on stdout finds all of it. Of
        # what a message comes to, stdout has what is known when it begins.
        _write(self.path, self._message(TOKENS_OUT))
        _say(**self._message(1, is_same=True, session_id=self.session))

    def _message(self, out: int, *, is_same: bool = False, **more: object) -> dict[str, object]:
        self.messages += not is_same
        usage = {"input_tokens": TOKENS_IN, "output_tokens": out}
        message = {"id": f"{self.session}-{self.messages}", "usage": usage, "stop_reason": None}
        return {"type": "assistant", "message": message, **more}

    def _figures(self) -> dict[str, object]:
        if not self.messages:
            return {"usage": {"input_tokens": 5, "output_tokens": 7}, "total_cost_usd": 0.25}
        tokens = {
            "inputTokens": self.messages * TOKENS_IN,
            "outputTokens": self.messages * TOKENS_OUT,
        }
        return {"modelUsage": {"m": tokens}, "total_cost_usd": self.messages * COST}

    def _give_up(self) -> None:
        self._end("error_max_budget_usd", is_error=True, errors=["Reached maximum budget"])

    def _answer(self, prompt: str) -> None:
        is_error = "fail" in prompt or "limit" in prompt
        text = "sorry" if is_error else f"done: {prompt}"
        status = 429 if "limit" in prompt else None
        self._end("success", is_error=is_error, result=text, api_error_status=status)
        if "linger" in prompt:
            time.sleep(600)

    def _end(self, subtype: str, **more: object) -> None:
        _say(type="result", subtype=subtype, session_id=self.session, **more, **self._figures())


def _act(prompt: str) -> None:
    if "leave" in prompt:
        left = subprocess.Popen(["sleep", "600"], start_new_session=True)
        if os.path.exists("quota"):
            with open("left", "a") as file:
                file.write(f"{left.pid}\n")
    if "nest" in prompt:
        run = [sys.executable, "-m", "holdfast", "run", "-n", "inner", "--independent"]
        subprocess.run([*run, "sleep", "600"], check=True, stdout=subprocess.DEVNULL)
    if "hold" in prompt:
        time.sleep(600)


def _note_alive() -> None:
    """Which of those that earlier turns left behind can be signalled."""
    left = Path("left").read_text().split() if os.path.exists("left") else []
    alive = [pid for pid in left if os.path.exists(f"/proc/{pid}")]
    with open("alive", "a") as file:
        file.write(json.dumps(alive) + "\n")


def _await(name: str) -> None:
    while not os.path.exists(name):
        time.sleep(0.01)


def main() -> int:
    words = sys.argv[1:]
    conversation = Conversation(words)
    if "--input-format" not in words:
        return conversation.turn(words[-1])
    return max([conversation.turn(line.strip()) for line in sys.stdin], default=0)


if __name__ == "__main__":
    sys.exit(main())
