"""`doctor --agents` finds the real programs and says what can be seen of each."""

from __future__ import annotations

import os
import re

import pytest

from tests.agents.lab import AGENTS, executable
from tests.agents.supervised import Supervised
from tests.agents.talking import use_copy

pytestmark = pytest.mark.agents


def test_the_installed_agents_are_listed_with_their_versions(held: Supervised) -> None:
    use_copy(held)  # gemini's hooks need a place where root alone may write
    places = [str(executable(agent).parent) for agent in AGENTS]
    path = os.pathsep.join([*places, held.env["PATH"]])
    done = held("doctor", "--agents", "--json", expect=None, env={"PATH": path})
    found = {one["name"]: one for one in done.json["agents"]}
    for agent in AGENTS:
        assert found[agent]["problem"] is None
        assert found[agent]["path"] == str(executable(agent))
        version = found[agent]["version"]
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert version in (found[agent]["checked_with"], *(found[agent]["also_checked"] or ()))
        assert found[agent]["sees"]["session"] == "stdout, hooks"
        assert found[agent]["sees"]["resume"] == "by session id"
    assert found["claude"]["sees"]["usage"] == "tokens while it works, cost"
    # As the tests of attention found with these programs.
    told = {agent: found[agent]["sees"] for agent in (*AGENTS, "opencode")}
    assert {agent: (sees["attention"], sees["approve"]) for agent, sees in told.items()} == {
        "claude": ("permission, question, turn over", "in a terminal"),
        "codex": ("permission, turn over", "in a terminal"),
        "gemini": ("permission, turn over", None),
        "opencode": (None, None),
    }
    assert {agent: sees["hooks"] for agent, sees in told.items()} == {
        "claude": "--settings",
        "codex": "-c, in a terminal",
        "gemini": "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
        "opencode": None,
    }
    assert "installs packages" in told["opencode"]["why_no_hooks"]
