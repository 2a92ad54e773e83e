"""Real agents on a terminal of their own: how they are started, what they ask, how one answers."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import holdfast
from tests.agents.lab import executable
from tests.agents.supervised import Supervised
from tests.support.waiting import eventually

# What stands on the screen while each asks, and the key that allows it.
PROMPTS = {
    "claude": (b"proceed?", "\r"),
    "codex": (b"following command", "y"),
    "gemini": (b"Allow execution", "\r"),
}


def talk(
    held: Supervised, agent: str, prompt: str, *options: str, own: tuple[str, ...] = ()
) -> None:
    """Start the agent as run `a`, with a first prompt, in a directory that it trusts."""
    _trust(held, agent)
    words = {
        # 2.1.326 starts in a mode in which it seldom asks.
        "claude": ("--permission-mode", "default", *own, "--", prompt),
        "codex": (*own, prompt),
        "gemini": ("-m", "gemini-2.5-flash", *own, "-i", prompt),
    }
    held("run", "-n", "a", "--pty", *options, "--", executable(agent), *words[agent])


def _trust(held: Supervised, agent: str) -> None:
    """What each asks a person the first time it has a terminal."""
    if agent == "claude":
        project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
            "projects": {str(held.lab.work_dir): project},
        }
        (held.lab.home / ".claude.json").write_text(json.dumps(known))
    elif agent == "codex":
        with (held.lab.home / ".codex/config.toml").open("a") as file:
            file.write(f'[projects."{held.lab.work_dir}"]\ntrust_level = "trusted"\n')
    elif agent == "gemini":
        use_copy(held)


def use_copy(held: Supervised) -> None:
    """Run Holdfast from a copy beside the lab: gemini reads no settings from where others write."""
    library = held.lab.directory / "library"
    shutil.copytree(Path(holdfast.__file__).parent, library / "holdfast")
    held.env["PYTHONPATH"] = str(library)


def asked(held: Supervised, count: int = 1, kind: str = "permission") -> list[dict[str, Any]]:
    """What the run asks, once it asks so many things of that kind."""

    def look() -> list[dict[str, Any]] | None:
        waits = held.info("a")["attention"]
        found = [] if waits is None else [waits, *waits["others"]]
        found = [one for one in found if one["kind"] == kind]
        return found if len(found) == count else None

    return eventually(look, timeout=90, why=f"it asks {count} times for {kind}")


def prompt_shown(held: Supervised, agent: str) -> float:
    """When the agent's own prompt was first seen on its screen."""
    (log,) = Path(held.env["HOLDFAST_HOME"]).glob("runs/*/output.log")
    words = PROMPTS[agent][0]
    eventually(lambda: words in log.read_bytes(), timeout=90, why=f"{agent} shows its prompt")
    return time.time()


def answer_at_the_prompt(held: Supervised, agent: str, made: Path) -> None:
    """Press the key until the tool has run: a screen that is just drawn may miss one."""

    def press() -> bool:
        held("send", "a", "--no-newline", PROMPTS[agent][1], expect=None)
        until = time.monotonic() + 5
        while not made.exists() and time.monotonic() < until:
            time.sleep(0.02)
        return made.exists()

    eventually(press, timeout=90, why="the tool has run")


def wall_time(event: dict[str, Any]) -> float:
    """When it was recorded, as `time.time()` says it."""
    from datetime import datetime

    return datetime.fromisoformat(event["at"]).timestamp()
