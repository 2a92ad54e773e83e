"""Tokens while a turn of a real agent goes on; budgets that stop or pause it in the middle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.agents.lab import AGENTS, UNATTENDED, executable
from tests.agents.supervised import WELL, Supervised
from tests.support.waiting import eventually

pytestmark = pytest.mark.agents
every_agent = pytest.mark.parametrize("agent", AGENTS)

IN, OUT = 1000, 50
# The n-th time that it is run, it waits for a file go<n>. In a file: gemini runs no `$(...)`.
STEP = """\
n=$(cat n 2>/dev/null || echo 0)
n=$((n + 1))
echo $n > n
until [ -e go$n ]; do sleep 0.1; done
"""


@pytest.fixture(autouse=True)
def _step(held: Supervised) -> None:
    (held.lab.work_dir / "step.sh").write_text(STEP)


def _prompt(steps: int) -> str:
    """A turn of so many requests that end with a step, and one for the answer."""
    return f"go [[run: sh step.sh]] [[times: {steps}]] [[tokens: {IN} {OUT}]]"


def _let_go(held: Supervised, *steps: int) -> None:
    for step in steps:
        (held.lab.work_dir / f"go{step}").touch()


def _tokens(info: Mapping[str, Any]) -> tuple[int | None, int | None]:
    usage = info["usage"] or {}
    return usage.get("tokens_in"), usage.get("tokens_out")


def _used(held: Supervised, agent: str, messages: int) -> dict[str, Any]:
    """The run, once it is known to have used so many messages."""

    def look() -> dict[str, Any] | None:
        info = held.info(agent)
        return info if _tokens(info) == (messages * IN, messages * OUT) else None

    return eventually(look, timeout=60, why=f"{agent} has used {messages} messages")


@every_agent
def test_A5_tokens_grow_during_a_turn_and_agree_with_the_final_record(
    held: Supervised, agent: str
) -> None:
    held.run(agent, _prompt(2), own=UNATTENDED[agent])
    first = _used(held, agent, 1)
    assert first["state"] == "running"
    assert first["usage"]["tokens_source"] == "transcript"
    _let_go(held, 1)
    assert _used(held, agent, 2)["completion"] is None
    _let_go(held, 2)
    last = held.ended(agent)
    assert last["usage"]["tokens_source"] == "final"
    assert _tokens(last) == (3 * IN, 3 * OUT) == _said_by(held, agent)
    assert last["outcome"] in WELL[agent]


def _said_by(held: Supervised, agent: str) -> tuple[int, int]:
    """What the agent itself says at the end of its turn."""
    lines = held("logs", agent).stdout.splitlines()
    records = [json.loads(line) for line in lines if line.startswith("{")]
    last = records[-1]
    if agent == "claude":
        models = last["modelUsage"].values()
        return sum(one["inputTokens"] for one in models), sum(one["outputTokens"] for one in models)
    usage = last["stats"] if agent == "gemini" else last["usage"]
    return usage["input_tokens"], usage["output_tokens"]


def test_A5_what_a_subagent_uses_is_counted_while_it_works(held: Supervised) -> None:
    prompt = f"hi [[task: do it]] [[run: sh step.sh]] [[tokens: {IN} {OUT}]]"
    held.run("claude", prompt, own=UNATTENDED["claude"])
    sum_of_both = (IN + 5, OUT + 7)  # the subagent's prompt says nothing about its tokens

    def look() -> bool:
        return _tokens(held.info("claude")) == sum_of_both

    eventually(look, timeout=60, why="the subagent's tokens are counted")
    assert held.info("claude")["completion"] is None
    _let_go(held, 1)
    last = held.ended("claude")
    assert _tokens(last) == _said_by(held, "claude") == (2 * IN + 5, 2 * OUT + 7)


@every_agent
def test_A6_a_token_budget_ends_a_turn_in_the_middle(held: Supervised, agent: str) -> None:
    held.run(agent, _prompt(9), "--max-tokens", "1500", own=UNATTENDED[agent])
    _used(held, agent, 1)
    _let_go(held, 1)
    told = held("wait", agent, expect=124)
    info = held.info(agent)
    assert (info["outcome"], info["stop_reason"]) == ("over_budget", "tokens")
    assert info["completion"] is None
    assert info["cleanup"]["complete"] is True
    over = 2 * (IN + OUT) - 1500
    assert f"2100 of 1500 tokens ({over} over)" in told.stderr
    assert _tokens(info) == (2 * IN, 2 * OUT)
    assert f"({over} over), stopped" in held("ls").stdout
    assert len([one for one in held.lab.requests() if one["tool_result"]]) == 1


@every_agent
def test_A6_pause_at_a_budget_unpause_refused_adjusted_and_on(held: Supervised, agent: str) -> None:
    words = ("--max-tokens", "1500", "--on-budget", "pause")
    held.run(agent, _prompt(3), *words, own=UNATTENDED[agent])
    _let_go(held, 1)
    eventually(lambda: held.info(agent)["paused"], timeout=60, why="it is paused at its budget")
    refused = held("unpause", agent, expect=4)
    # claude may be stopped before its transcript has what its stdout only begins to tell, of one
    # message or of both.
    used = (2002, 2051, 2100) if agent == "claude" else (2100,)
    said = [f"its budget is used up: {one} of 1500 tokens" in refused.stderr for one in used]
    assert any(said), refused
    assert "--max-tokens" in refused.stderr
    _let_go(held, 2, 3)
    held("adjust", agent, "--max-tokens", "10k")
    held("unpause", agent)
    info = held.ended(agent)
    assert info["outcome"] in WELL[agent]
    assert _tokens(info) == (4 * IN, 4 * OUT)
    assert info["budget"]["max_tokens"] == 10_000


# A message costs $0.00625 with the model that claude 2.1.197 takes by itself, $0.005 with that of
# 2.1.326: the second one goes beyond this.
MOST_COST = 0.008


def test_A6_claude_holds_its_cost_by_its_own_option(held: Supervised) -> None:
    _let_go(held, *range(1, 9))
    held.run("claude", _prompt(8), "--max-cost", str(MOST_COST), own=UNATTENDED["claude"])
    held("wait", "claude", expect=124)
    info = held.info("claude")
    assert (info["outcome"], info["ended_by"], info["exit_code"]) == ("over_budget", "itself", 1)
    assert info["budget"]["reached"]["by"] == "agent"
    assert MOST_COST < info["usage"]["cost_usd"] < 2 * MOST_COST
    assert _tokens(info) == _said_by(held, "claude") == (2 * IN, 2 * OUT)
    assert "--max-budget-usd" not in info["command"]


def test_A6_claude_without_a_readable_stream_holds_its_cost_too(held: Supervised) -> None:
    _let_go(held, *range(1, 9))
    argv = [str(executable("claude")), "-p", _prompt(8), *UNATTENDED["claude"]]
    held("run", "-n", "claude", "--max-cost", str(MOST_COST), "--", *argv)
    info = held.ended("claude", expect=124)
    assert (info["outcome"], info["ended_by"]) == ("over_budget", "itself")


def test_A6_claude_in_many_turns_is_held_between_them(held: Supervised) -> None:
    stream = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
    argv = [str(executable("claude")), "-p", *stream]
    words = ("--stdin", "pipe", "--max-cost", str(MOST_COST), "--on-budget", "pause")
    held("run", "-n", "claude", *words, "--", *argv)

    def say(text: str) -> None:
        message = {"role": "user", "content": f"{text} [[tokens: {IN} {OUT}]]"}
        held("send", "claude", json.dumps({"type": "user", "message": message}))

    say("one")
    eventually(lambda: _tokens(held.info("claude"))[0] == IN, timeout=60, why="one turn is over")
    assert held.info("claude")["paused"] is None
    say("two")
    eventually(lambda: held.info("claude")["paused"], timeout=60, why="it is paused")
    assert "--max-cost" in held("unpause", "claude", expect=4).stderr
    held("adjust", "claude", "--max-cost", "0.05")
    held("unpause", "claude")
    say("three")
    eventually(lambda: _tokens(held.info("claude"))[0] == 3 * IN, timeout=60, why="it goes on")
    held("stop", "claude")


@pytest.mark.parametrize(
    ("agent", "options"), [("codex", ("--max-cost", "1")), ("gemini", ("--max-cost", "1"))]
)
def test_A7_a_cost_that_no_one_tells_is_refused(
    held: Supervised, agent: str, options: tuple[str, ...]
) -> None:
    argv, _ = held.lab.command(agent, "hi")
    refused = held("run", "-n", agent, *options, "--", *argv, expect=4)
    assert "does not say what it costs" in refused.stderr
    assert held("ls", "--all", "--json").json["runs"] == []
