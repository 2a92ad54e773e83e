"""`doctor --agents` finds the real programs and says what can be seen of each."""

from __future__ import annotations

import os
import re

import pytest

from tests.agents.lab import AGENTS, executable
from tests.agents.supervised import Supervised

pytestmark = pytest.mark.agents


def test_the_installed_agents_are_listed_with_their_versions(held: Supervised) -> None:
    places = [str(executable(agent).parent) for agent in AGENTS]
    path = os.pathsep.join([*places, held.env["PATH"]])
    done = held("doctor", "--agents", "--json", expect=None, env={"PATH": path})
    found = {one["name"]: one for one in done.json["agents"]}
    for agent in AGENTS:
        assert found[agent]["problem"] is None
        assert found[agent]["path"] == str(executable(agent))
        assert re.fullmatch(r"\d+\.\d+\.\d+", found[agent]["version"])
        hooks = ", hooks" if agent == "claude" else ""
        assert found[agent]["sees"]["session"] == f"stdout{hooks}"
        assert bool(found[agent]["sees"]["attention"]) == bool(hooks)
        assert found[agent]["sees"]["resume"] == "by session id"
    assert found["claude"]["sees"]["usage"] == "tokens while it works, cost"
