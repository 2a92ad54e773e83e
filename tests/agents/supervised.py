"""Holdfast's command line inside a sealed lab, with a real agent as the run."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.agents.lab import Lab
from tests.support.cli import Finished
from tests.support.waiting import eventually

# Of a turn that went well. gemini may take longer to exit than it is given after its last record.
WELL = dict.fromkeys(("claude", "codex"), ("succeeded",)) | {"gemini": ("succeeded", "completed")}
# The agents retry a failed request for minutes; here once is enough.
IMPATIENT: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "claude": ({"CLAUDE_CODE_MAX_RETRIES": "0"}, ()),
    "codex": (
        {},
        (
            *("-c", "model_providers.stub.request_max_retries=0"),
            *("-c", "model_providers.stub.stream_max_retries=0"),
        ),
    ),
    "gemini": ({}, ()),
}


class Supervised:
    """`held.run("claude", "say hi")`, then `held.info("claude")`, `held("stop", "claude")`."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.env = {**lab.environment(), "HOLDFAST_HOME": os.environ["HOLDFAST_HOME"]}

    def argv(self, *words: object) -> list[str]:
        """The command, for whoever starts it in a way of its own."""
        return [sys.executable, "-m", "holdfast", *map(str, words)]

    def __call__(
        self,
        *words: object,
        expect: int | None = 0,
        env: Mapping[str, str] | None = None,
        timeout: float = 90,
    ) -> Finished:
        """One command to its end."""
        done = self.lab.run(self.argv(*words), {**self.env, **(env or {})}, timeout=timeout)
        finished = Finished(done.args, done.returncode, done.stdout, done.stderr)
        if expect is not None:
            assert finished.returncode == expect, finished
        return finished

    def run(
        self,
        agent: str,
        prompt: str,
        *options: str,
        own: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start one turn as a run with the agent's name; `own` are the agent's options."""
        argv, _ = self.lab.command(agent, prompt, options=own)
        self("run", "-n", agent, *options, "--", *argv, env=env)

    def run_text(self, agent: str, prompt: str, then: str, *options: str) -> None:
        """The same turn in a shell that has more to do afterwards."""
        argv, _ = self.lab.command(agent, prompt)
        text = f"{shlex.join(argv)}; {then}"
        self("run", "-n", agent, "--agent", agent, *options, "--", "sh", "-c", text)

    def info(self, ref: str) -> dict[str, Any]:
        document: dict[str, Any] = self("status", "--json", ref).json
        return document

    def ended(self, ref: str, expect: int = 0) -> dict[str, Any]:
        """The run, once it is over; `expect` is the code of `wait`."""
        self("wait", ref, expect=expect)
        return self.info(ref)

    def asked(self, times: int = 1) -> None:
        """Wait until the agent has asked the model so often."""
        why = "the agent asks the model"
        eventually(lambda: len(self.lab.requests()) >= times, timeout=60, why=why)

    def tree(self, ref: str) -> list[dict[str, Any]]:
        """Everybody in the run's tree."""
        document = self("tree", "--json", ref).json
        return list(_processes(document))

    def seen(self, ref: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first process of the tree that fulfils the condition, once there is one."""
        why = f"a process in the tree of {ref}"
        return eventually(
            lambda: next(filter(condition, self.tree(ref)), None), timeout=60, why=why
        )

    def events(self, ref: str, kind: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self("events", ref).stdout.splitlines())
        return [line for line in lines if line["kind"] == kind]


def _processes(value: object) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        if "token" in value:
            yield value
        for one in value.values():
            yield from _processes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _processes(one)
