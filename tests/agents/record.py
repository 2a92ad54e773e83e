#!/usr/bin/env python3
"""Runs the real agents against the stub and keeps what they print, as fixtures for the readers.

    python -m tests.agents.record [AGENT...]        writes tests/agents/recorded/

Each file is one run's stdout (or a transcript), without this machine's paths, ports and long
texts. Run it again when an agent's pinned version changes, and look at the difference.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.agents.lab import (
    AGENTS,
    AGENTS_DIR,
    UNATTENDED,
    Lab,
    descendants,
    executable,
    kill_tree,
)

RECORDED = Path(__file__).with_name("recorded")
LONGEST_TEXT = 300


class Recorder:
    """One lab, and where its agents' output goes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def keep(self, name: str, output: bytes) -> None:
        """Write one recording, cleaned."""
        text = output.decode("utf-8", "replace")
        text = text.replace(str(self.lab.directory), "/lab").replace(str(AGENTS_DIR), "/agents")
        dashed = re.sub(r"[^A-Za-z0-9]", "-", str(self.lab.work_dir))
        text = text.replace(dashed, "-lab-project")
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
        lines = [_shortened_line(line) for line in text.splitlines()]
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / name).write_text("".join(f"{line}\n" for line in lines))
        print(f"{name}: {len(lines)} lines")

    def turn(self, agent: str, prompt: str, *options: str, **environment: str) -> bytes:
        argv, env = self.lab.command(agent, prompt, options=options)
        done = self.lab.run(argv, {**env, **environment})
        print(f"  {agent} {prompt!r}: exit code {done.returncode}")
        return done.stdout

    def transcript(self, pattern: str) -> bytes:
        (found,) = self.lab.home.glob(pattern)
        return found.read_bytes()


def _shortened_line(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return json.dumps(_shortened(value), ensure_ascii=False, separators=(",", ":"))


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "…"
    if isinstance(value, list):
        return [_shortened(one) for one in value[:8]]
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return value


def record_claude(lab: Recorder) -> None:
    free = UNATTENDED["claude"]
    transcripts = ".claude/projects/*/*.jsonl"
    first = lab.turn("claude", "hi")
    lab.keep("claude-success.jsonl", first)
    lab.keep("claude-transcript-first.jsonl", lab.transcript(transcripts))
    session = json.loads(first.splitlines()[0])["session_id"]
    lab.keep("claude-resumed.jsonl", lab.turn("claude", "more", "--resume", session))
    lab.keep("claude-transcript-resumed.jsonl", lab.transcript(transcripts))
    lab.keep("claude-failed.jsonl", failed := lab.turn("claude", "hi [[fail: 400]]"))
    failed_session = json.loads(failed.splitlines()[0])["session_id"]
    lab.keep(
        "claude-transcript-failed.jsonl",
        lab.transcript(f".claude/projects/*/{failed_session}.jsonl"),
    )
    lab.keep("claude-tool.jsonl", lab.turn("claude", "hi [[run: echo tool-output]]", *free))
    turns = ("--max-turns", "1")
    lab.keep("claude-max-turns.jsonl", lab.turn("claude", "hi [[run: true]]", *turns, *free))
    lab.keep("claude-limit-key.jsonl", lab.turn("claude", "hi [[limit: 7200]]"))
    token = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy"}
    lab.keep("claude-limit.jsonl", lab.turn("claude", "hi [[limit: 7200]]", **token))
    _record_claude_forms(lab)


def _record_claude_forms(lab: Recorder) -> None:
    """The other forms of its output, and several turns in one process."""
    program, env = str(executable("claude")), lab.lab.environment()
    for name, options in {
        "claude-text.txt": [],
        "claude-json.jsonl": ["--output-format", "json"],
        "claude-json-verbose.jsonl": ["--output-format", "json", "--verbose"],
    }.items():
        lab.keep(name, lab.lab.run([program, "-p", "hi", *options], env).stdout)
    stream = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
    said = [{"role": "user", "content": text} for text in ("one", "two")]
    asked = "".join(json.dumps({"type": "user", "message": message}) + "\n" for message in said)
    done = subprocess.run(
        lab.lab.inside([program, "-p", *stream]),
        input=asked.encode(),
        env=env,
        cwd=lab.lab.work_dir,
        capture_output=True,
        timeout=90,
    )
    lab.keep("claude-many-turns.jsonl", done.stdout)


def record_codex(lab: Recorder) -> None:
    transcripts = ".codex/sessions/*/*/*/*{}.jsonl"
    first = lab.turn("codex", "hi")
    lab.keep("codex-success.jsonl", first)
    session = json.loads(first.splitlines()[0])["thread_id"]
    lab.keep("codex-transcript-first.jsonl", lab.transcript(transcripts.format(session)))
    lab.keep("codex-resumed.jsonl", lab.turn("codex", "more", "resume", session))
    lab.keep("codex-transcript-resumed.jsonl", lab.transcript(transcripts.format(session)))
    failed = lab.turn("codex", "hi [[fail: 400]]")
    lab.keep("codex-failed.jsonl", failed)
    failed_session = json.loads(failed.splitlines()[0])["thread_id"]
    lab.keep("codex-transcript-failed.jsonl", lab.transcript(transcripts.format(failed_session)))
    free = UNATTENDED["codex"]
    lab.keep("codex-tool.jsonl", lab.turn("codex", "hi [[run: echo tool-output]]", *free))
    lab.keep("codex-limit.jsonl", lab.turn("codex", "hi [[limit: 7200]]"))
    argv = [str(executable("codex")), "exec", "--skip-git-repo-check", "hi"]
    done = lab.lab.run(argv, lab.lab.environment())
    lab.keep("codex-text.txt", done.stderr + done.stdout)


def record_gemini(lab: Recorder) -> None:
    first = lab.turn("gemini", "hi")
    lab.keep("gemini-success.jsonl", first)
    lab.keep("gemini-transcript-first.jsonl", lab.transcript(".gemini/tmp/*/chats/*.jsonl"))
    session = json.loads(first.splitlines()[0])["session_id"]
    lab.keep("gemini-resumed.jsonl", lab.turn("gemini", "more", "--resume", session))
    lab.keep("gemini-failed.jsonl", lab.turn("gemini", "hi [[fail: 400]]"))
    free = UNATTENDED["gemini"]
    lab.keep("gemini-tool.jsonl", lab.turn("gemini", "hi [[run: echo tool-output]]", *free))
    lab.keep("gemini-limit.jsonl", lab.turn("gemini", "hi [[limit: 7200]]"))


def record_opencode(lab: Recorder) -> None:
    first = lab.turn("opencode", "hi")
    lab.keep("opencode-success.jsonl", first)
    session = json.loads(first.splitlines()[0])["sessionID"]
    lab.keep("opencode-resumed.jsonl", lab.turn("opencode", "more", "--session", session))
    lab.keep("opencode-failed.jsonl", lab.turn("opencode", "hi [[fail: 400]]"))
    free = UNATTENDED["opencode"]
    lab.keep("opencode-tool.jsonl", lab.turn("opencode", "hi [[run: echo tool-output]]", *free))


RECORDERS: dict[str, Callable[[Recorder], None]] = {
    "claude": record_claude,
    "codex": record_codex,
    "gemini": record_gemini,
    "opencode": record_opencode,
}


def record_tree(recorder: Recorder, agent: str) -> None:
    """What the processes of a working agent look like."""
    lab = recorder.lab
    argv, env = lab.command(agent, "hi [[hang]]")
    before = len(lab.requests())
    process = lab.start(argv, env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while len(lab.requests()) == before and time.monotonic() < deadline:
        time.sleep(0.1)
    members = [process.pid, *descendants(process.pid)]
    listed = ["ps", "-o", "pid,ppid,comm,args", "--forest", "-p", ",".join(map(str, members))]
    tree = subprocess.run(listed, capture_output=True).stdout
    kill_tree(process.pid)
    process.wait()
    recorder.keep(f"{agent}-tree.txt", tree)


def main() -> None:
    for agent in sys.argv[1:] or AGENTS:
        with Lab() as lab:
            RECORDERS[agent](Recorder(lab))
            record_tree(Recorder(lab), agent)


if __name__ == "__main__":
    main()
