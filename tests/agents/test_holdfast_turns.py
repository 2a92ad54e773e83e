"""One turn of each real agent as a run: what Holdfast says about it, and how it goes on."""

from __future__ import annotations

import shlex

import pytest

from tests.agents.lab import AGENTS, UNATTENDED, executable
from tests.agents.stub_model import ANSWER
from tests.agents.supervised import WELL, Supervised
from tests.support.waiting import eventually

pytestmark = pytest.mark.agents
every_agent = pytest.mark.parametrize("agent", AGENTS)

# The agent's own process, and the wrappers above it.
SHAPES = {
    "claude": ("claude", []),
    "codex": ("codex", ["node"]),
    "gemini": ("node", ["node"]),
}


@every_agent
def test_C3_W2_a_turn_with_a_tool_and_its_session_resumed(held: Supervised, agent: str) -> None:
    prompt = "the first words [[run: printf tool-%d 42]]"
    held.run(agent, prompt, own=UNATTENDED[agent])
    first = held.ended(agent)
    _is_a_whole_turn(held, first, tokens=(10, 14))
    _is_of_the_agent(first, agent)
    _is_readable(held, agent)

    # The slow answer leaves time for the old transcript's marks to be mistaken for this turn's.
    asked = len(held.lab.requests())
    go_on = held.lab.directory / "go-on"
    held("resume", agent, f"-the second words [[until: {go_on}]]")
    held.asked(asked + 1)
    eventually(lambda: held.info(agent)["session"], why="the session is seen")
    _is_measured(held, agent)
    under_way = held.info(agent)
    assert under_way["state"] == "running"
    assert under_way["completion"] is None
    again = held("resume", first["id"], "a third time", expect=4)
    assert under_way["id"] in again.stderr
    go_on.touch()
    second = held.ended(agent)

    _is_a_whole_turn(held, second, tokens=(5, 7))
    assert second["id"] != first["id"]
    assert second["resumed_from"] == first["id"]
    assert second["session"] == first["session"]
    prompts = "\n".join(held.lab.requests()[-1]["prompts"])
    assert "the first words" in prompts
    assert "-the second words" in prompts
    _adds_up(held, first, second)


def _is_a_whole_turn(held: Supervised, info: dict, tokens: tuple[int, int]) -> None:
    assert info["state"] == "ended"
    assert info["outcome"] in WELL[info["agent"]]
    # Of one that was stopped after its last record the exit code is its own affair.
    assert info["outcome"] == "completed" or info["exit_code"] == 0
    assert info["session"]["transcript"].startswith(str(held.lab.home))
    assert info["session"]["id"][:8] in info["session"]["transcript"]
    assert info["completion"]["source"] == "stdout"
    assert info["completion"]["is_error"] is False
    assert info["result"] == {"text": ANSWER, "is_error": False}
    assert info["limit"] is None
    assert held("result", info["id"]).stdout == f"{ANSWER}\n"
    assert (info["usage"]["tokens_in"], info["usage"]["tokens_out"]) == tokens
    cost = info["usage"]["cost_usd"]
    assert 0 < cost < 0.01 if info["agent"] == "claude" else cost is None
    assert held.events(info["id"], "fault") == []


def _is_of_the_agent(info: dict, agent: str) -> None:
    assert info["agent"] == agent
    comm, wrappers = SHAPES[agent]
    assert info["workload"]["comm"] == comm
    assert [one["comm"] for one in info["wrappers"]] == wrappers
    assert info["workload_resolution"] == ("resolved" if wrappers else "direct")
    assert info["workload"]["pid"] not in [one["pid"] for one in info["wrappers"]]


def _is_measured(held: Supervised, agent: str) -> None:
    """Its memory while a turn goes on: of one that ends between two samples less may be known."""
    why = f"the memory of {agent} itself is measured"
    grown = lambda: (held.info(agent)["usage"]["peak_rss_bytes"] or 0) > 30_000_000  # noqa: E731
    eventually(grown, timeout=60, why=why)


def _is_readable(held: Supervised, agent: str) -> None:
    shown = held("logs", "--pretty", agent).stdout
    assert "tool-42" in shown
    assert "printf tool-" in shown
    assert ANSWER in shown
    assert '{"type"' not in shown


def _adds_up(held: Supervised, first: dict, second: dict) -> None:
    total = held("usage", "--json", "--by", "agent").json
    assert total["total"] == total["by"]["agent"][first["agent"]]
    assert (total["total"]["tokens_in"], total["total"]["tokens_out"]) == (15, 21)
    costs = [info["usage"]["cost_usd"] for info in (first, second)]
    if None in costs:
        assert total["total"]["cost_usd"] is None
    else:
        assert total["total"]["cost_usd"] == pytest.approx(sum(costs))
        assert "<$0.01" in held("ls").stdout


def test_W2_an_agent_behind_npx(held: Supervised) -> None:
    """Four processes: npm, its shell, node and, at last, the agent."""
    (held.lab.work_dir / "node_modules").symlink_to(executable("codex").parents[1])
    (_, *arguments), _ = held.lab.command("codex", "hi [[hang]]")
    held("run", "-n", "npx", "--", "npx", "codex", *arguments)
    held.asked()
    workload = held.seen("npx", lambda process: process["role"] == "workload")
    assert workload["comm"] == "codex"
    info = held.info("npx")
    assert info["agent"] == "codex"
    assert [one["comm"] for one in info["wrappers"]][1:] == ["sh", "node"]
    assert "npm exec codex exec --json" in held("tree", "npx").stdout
    held("stop", "npx")
    tree = [workload, *info["wrappers"]]
    assert [held("check", one["token"], expect=None).returncode for one in tree] == [10] * 4


def test_W1_an_agent_in_a_terminal_of_script(held: Supervised) -> None:
    argv, _ = held.lab.command("claude", "hi")
    held("run", "-n", "tty", "--", "script", "-qefc", shlex.join(argv), "/dev/null")
    info = held.ended("tty")
    assert (info["agent"], info["workload"]["comm"]) == ("claude", "claude")
    assert info["wrappers"][0]["comm"] == "script"
    assert info["result"] == {"text": ANSWER, "is_error": False}
