"""A6: a budget ends a run in the middle of a turn, or pauses it until it is raised."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Refused
from holdfast.manage.runs import Runs
from tests.support import running
from tests.support.pretend_claude import install
from tests.support.recovering import kill_shim, recovered
from tests.support.running import events_of, info_of, run_of, wait_for, wait_for_events
from tests.support.spending import STREAM, let_go, start_turn, tokens, used, wait_for_tokens

ended: Any = running.ended  # what is null in it fails a test anyhow


@pytest.fixture
def claude(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)


def _is_paused(name: str = "a") -> Any:
    return wait_for(name, lambda info: info if info.paused else None, why=f"{name} is paused")


def test_A6_a_turn_is_ended_in_the_middle_and_the_overshoot_is_told(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=9 wait", "--max-tokens", "1500")
    wait_for_tokens(1)
    let_go(tmp_path, 2)
    code = holdfast("wait", "a", expect=124)
    assert "2100 of 1500 tokens (600 over)" in code.stderr
    info = ended("a")
    assert (info.outcome, info.ended_by, info.stop_reason) == ("over_budget", "holdfast", "tokens")
    assert info.stop_figure in (2051, 2100)  # by stdout, or by the transcript
    assert used(info) == tokens(2)
    assert info.completion is None
    reached = info.budget["reached"]
    assert (reached["limit"], reached["most"]) == ("max_tokens", 1500)
    assert reached["used"] == info.stop_figure
    assert info.budget["max_tokens"] == 1500
    assert "2100 of 1500 tokens (600 over), stopped" in holdfast("ls", expect=0).stdout
    page = holdfast("status", "a", expect=0).stdout
    assert "it used more than it was given" in page
    assert "budget used up" in page


def test_A6_within_its_budget_a_turn_is_left_alone(holdfast, claude):
    start_turn(holdfast, claude, "steps=2", "--max-tokens", "2100")
    info = ended("a")
    assert (info.outcome, used(info)) == ("succeeded", tokens(2))
    assert info.budget["reached"] is None


def test_A6_what_is_done_is_not_called_over_budget_and_the_overshoot_is_told(holdfast, claude):
    """All its messages may be read at once: then the turn is over before anybody could act."""
    holdfast("run", "-n", "a", "--max-tokens", "100", claude, *STREAM, "-p", "one", expect=0)
    assert ended("a").outcome == "succeeded"
    final = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
    figures = {"usage": {"input_tokens": 900, "output_tokens": 50}}
    script = f"echo '{json.dumps({**final, **figures})}'"
    words = ("--agent", "claude", "--max-tokens", "100", "--", "sh", "-c", script)
    told = holdfast("run", "-n", "b", *words, expect=0)
    assert "holds only if this command prints" in told.stderr
    info = ended("b")
    assert info.outcome == "succeeded"
    assert info.budget["reached"]["used"] == 950
    assert "over budget: 950 of 100 tokens (850 over)" in holdfast("ls", expect=0).stdout


def test_A6_pause_holds_it_and_unpause_goes_on_once_the_budget_is_raised(
    holdfast, claude, tmp_path
):
    notice = tmp_path / "told"
    words = ("--max-tokens", "1500", "--on-budget", "pause", "--notify", f"cat >> {notice}")
    start_turn(holdfast, claude, "steps=4 wait", *words)
    let_go(tmp_path, 2)
    info = _is_paused()
    assert info.paused["by"] == {"budget": "max_tokens"}
    assert info.state == "running"
    wait_for("a", lambda _: notice.exists() and notice.read_text(), why="it is told")
    assert json.loads(notice.read_text().splitlines()[0])["event"] == "budget"
    wait_for_tokens(2)  # stdout alone says less; the transcript is read while it is paused, too
    assert "over budget: 2100 of 1500 tokens (600 over)" in holdfast("ls", expect=0).stdout
    assert "holdfast adjust a --max-tokens N" in holdfast("status", "a", expect=0).stdout

    refused = holdfast("unpause", "a", expect=4)
    assert "its budget is used up: 2100 of 1500 tokens" in refused.stderr
    with pytest.raises(Refused, match="used up") as caught:
        run_of("a").unpause()
    assert caught.value.hint == "holdfast adjust a --max-tokens N raises it"
    passed = holdfast("adjust", "a", "--max-tokens", "2000", expect=4)
    assert "it has used 2100 of 2000 tokens (100 over) already" in passed.stderr
    said = holdfast("adjust", "a", "--max-tokens", "5k", expect=0).stdout
    assert said == "a  --max-tokens 1500 -> 5000\n"
    assert info_of("a").paused is not None
    assert "over budget" not in holdfast("ls", expect=0).stdout
    holdfast("unpause", "a", expect=0)
    let_go(tmp_path, 3, 4)
    last = ended("a")
    assert "over budget" not in holdfast("ls", expect=0).stdout  # 5000 is what it was given
    assert (last.outcome, used(last)) == ("succeeded", tokens(4))
    assert last.budget["max_tokens"] == 5000
    (adjusted,) = events_of("a", "adjusted")
    assert (adjusted["changes"], adjusted["before"]) == ({"max_tokens": 5000}, {"max_tokens": 1500})
    assert set(adjusted["by"]) == {"pid", "uid", "gid"}


def test_A6_a_pause_at_a_budget_and_its_raise_survive_the_shim(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=5 wait", "--max-tokens", "1500", "--on-budget", "pause")
    let_go(tmp_path, 2)
    _is_paused()
    kill_shim("a")
    recovered(holdfast)
    assert info_of("a").paused is not None
    assert "used up" in holdfast("unpause", "a", expect=4).stderr
    holdfast("adjust", "a", "--max-tokens", "3500", expect=0)
    kill_shim("a")
    recovered(holdfast)
    holdfast("unpause", "a", expect=0)
    let_go(tmp_path, 3, 4)
    assert _is_paused().budget["reached"]["most"] == 3500
    assert len(events_of("a", "budget_reached")) == 2
    holdfast("stop", "a", expect=0)
    assert ended("a").outcome == "stopped"


@pytest.mark.parametrize("on_budget", ["stop", "pause"])
def test_A6_a_shim_that_dies_between_the_record_and_the_act_is_made_up_for(
    holdfast, claude, tmp_path, on_budget
):
    words = ("--max-tokens", "1500", "--on-budget", on_budget)
    die = {"HOLDFAST_CRASH_AT": "shim.budget-reached@shim"}
    start_turn(holdfast, claude, "steps=9 wait", *words, env=die)
    let_go(tmp_path, 2)
    wait_for("a", lambda info: info.state == "orphaned", why="its shim dies")
    recovered(holdfast)
    if on_budget == "stop":
        assert ended("a").outcome == "over_budget"
    else:
        _is_paused()
        holdfast("stop", "a", expect=0)
    assert len(events_of("a", "budget_reached")) == 1


def test_A6_a_shim_that_dies_once_it_has_recorded_a_change_hands_it_on(holdfast, tmp_path):
    gate = tmp_path / "gate"
    words = ("sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done")
    die = {"HOLDFAST_CRASH_AT": "shim.adjusted@shim"}
    holdfast("run", "-n", "a", *words, expect=0, env=die)
    holdfast("adjust", "a", "--timeout", "600", expect=6)
    recovered(holdfast)
    info = info_of("a")
    assert info.wanted is not None
    assert info.wanted["timeout_seconds"] == 600
    assert info.deadline_at is not None
    gate.touch()
    assert ended("a").outcome == "succeeded"


def test_A6_the_budget_is_of_all_attempts_and_over_it_none_is_started(holdfast, claude, tmp_path):
    program = tmp_path / "failing"
    program.write_text(f'#!/bin/sh\n"{claude}" "$@"\nexit 1\n')
    program.chmod(0o755)
    words = ("--agent", "claude", "--restart", "on-failure", "--max-tokens", "3000")
    holdfast("run", "-n", "a", *words, "--", program, *STREAM, "-p", "steps=2", expect=0)
    info = ended("a")
    assert len(info.attempts) == 2
    assert used(info) == tokens(4)
    # It is stopped for it, or has just ended by itself and is not started again.
    assert (info.outcome, info.stop_reason) == ("over_budget", "tokens")


# --- the cost --------------------------------------------------------------------------


def test_A6_the_agents_own_option_holds_its_cost(holdfast, claude):
    start_turn(holdfast, claude, "steps=9", "--max-cost", "0.025")
    holdfast("wait", "a", expect=124)
    info = ended("a")
    assert (info.outcome, info.ended_by, info.exit_code) == ("over_budget", "itself", 1)
    assert info.command == [claude, *STREAM, "-p", "steps=9"]
    assert info.usage["cost_usd"] == pytest.approx(0.03)
    assert info.budget["reached"]["by"] == "agent"
    said = "$0.03 of $0.025 ($0.005 over), the agent gave up"
    assert said in holdfast("ls", expect=0).stdout
    assert "the agent gave up at its budget" in holdfast("status", "a", expect=0).stdout
    assert run_of("a").directory.read_spec().argv[:3] == (claude, "--max-budget-usd", "0.025")
    # What was added is added anew, and not taken for the user's own.
    again = Runs().get("a").rerun(max_cost=1)
    assert again.directory.read_spec().argv[:3] == (claude, "--max-budget-usd", "1")
    assert again.wait(60).outcome == "succeeded"


def test_A6_an_attempt_is_told_what_is_left_and_after_giving_up_none_follows(
    holdfast, claude, tmp_path
):
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> words\n"{claude}" "$@"\nexit 1\n')
    program.chmod(0o755)
    words = ("--restart", "on-failure", "--max-cost", "0.035", "--", program, *STREAM)
    holdfast("run", "-n", "a", *words, "-p", "steps=2", expect=0)
    info = ended("a")
    given = [line.split()[1] for line in (tmp_path / "words").read_text().splitlines()]
    assert given == ["0.035", "0.015"]
    assert info.outcome == "over_budget"
    assert info.usage["cost_usd"] == pytest.approx(0.04)


def test_A6_between_turns_the_shim_holds_the_cost(holdfast, claude):
    many = (*STREAM, "--input-format", "stream-json")
    words = ("--stdin", "pipe", "--max-cost", "0.025", "--on-budget", "pause")
    holdfast("run", "-n", "a", *words, "--", claude, *many, "-p", expect=0)
    added = run_of("a").directory.read_spec().added
    assert "--max-budget-usd" not in (added or {}).get(
        "words", ()
    )  # at its own limit it ends itself
    holdfast("send", "a", "steps=2", expect=0)
    wait_for("a", lambda info: used(info) == tokens(2), why="the first turn is over")
    assert info_of("a").paused is None
    holdfast("send", "a", "steps=1", expect=0)
    info = _is_paused()
    assert info.budget["reached"]["limit"] == "max_cost_usd"
    assert "--max-cost N raises it" in holdfast("unpause", "a", expect=4).stderr
    holdfast("adjust", "a", "--max-cost", "0.05", "--on-budget", "stop", expect=0)
    holdfast("unpause", "a", expect=0)
    holdfast("send", "a", "steps=3", expect=0)
    last = ended("a")
    assert (last.outcome, last.stop_reason) == ("over_budget", "cost")
    assert last.usage["cost_usd"] == pytest.approx(0.06)


# --- what can't hold is refused ----------------------------------------------------------

PLAIN = ("-p", "hi")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--max-tokens", "5", "true"), "no agent is recognised"),
        (("--max-cost", "5", "true"), "no agent is recognised"),
        (("--max-tokens", "5", "claude", *PLAIN), "only with --output-format stream-json"),
        (("--max-tokens", "5", "gemini", *PLAIN), "only with --output-format stream-json"),
        (("--max-tokens", "5", "aider", "--message", "x"), "does not say how many tokens"),
        (("--max-cost", "5", "codex", "exec", "x"), "Codex does not say what it costs"),
        (("--max-cost", "5", "gemini", *PLAIN), "Gemini CLI does not say what it costs"),
        (("--max-cost", "5", "--pty", "claude"), "only with --output-format stream-json"),
        (
            ("--max-cost", "5", "--on-budget", "pause", "claude", *PLAIN, *STREAM),
            "when its turn is over",
        ),
        (("--max-cost", "5", "claude", *PLAIN, "--max-budget-usd", "6"), "which is more"),
        (("--max-tokens", "5", "--split-stderr", "codex", "exec", "x"), "only with --json"),
        (("--max-cost", "5", "--agent", "claude", "sh", "-c", "claude -p hi"), "by a text"),
    ],
)
def test_A6_what_can_not_hold_is_refused_with_the_reason(holdfast, words, why):
    refused = holdfast("run", "-n", "a", *words, expect=4)
    assert why in refused.stderr
    assert "hint: " in refused.stderr
    assert holdfast("ls", "--all", "--json").json["runs"] == []


@pytest.mark.parametrize(
    ("words", "added"),
    [
        (("--max-cost", "5", "claude", *PLAIN), ["--max-budget-usd", "5"]),
        (("--max-cost", "0.1", "timeout", "60", "claude", *PLAIN), ["--max-budget-usd", "0.1"]),
        (("--max-cost", "$5.50", "claude", *PLAIN), ["--max-budget-usd", "5.5"]),
        (("--max-cost", "5", "claude", *PLAIN, "--max-budget-usd=2"), None),
        (("--max-tokens", "5k", "codex", "exec", "x"), None),
        (("--max-tokens", "5k", "sh", "-c", "codex exec x"), None),
        (("--max-cost", "5", "opencode", "run", "--format", "json", "x"), None),
    ],
)
def test_A6_what_holds_is_started(holdfast, words, added, tmp_path, monkeypatch):
    for agent in ("claude", "codex", "opencode"):
        (tmp_path / agent).write_text("#!/bin/sh\n")
        (tmp_path / agent).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert holdfast("run", "-n", "a", *words, expect=0).stderr == ""
    spec = run_of("a").directory.read_spec()
    ended("a")
    words = (spec.added or {}).get("words") or []
    assert [word for word in words if word != "--settings" and "hooks" not in word] == (added or [])
    if added is not None:
        at = spec.argv.index("--max-budget-usd")
        assert spec.argv[at - 1] == "claude"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--max-tokens", "0"), ("--max-tokens", "1.5"), ("--max-cost", "-1"), ("--max-cost", "nan")],
)
def test_A6_what_is_no_budget_is_wrong_use(holdfast, option, value):
    assert f"{option}: " in holdfast("run", option, value, "claude", "-p", "x", expect=2).stderr


def test_A6_presets_set_budgets_and_defaults_are_for_agents_alone(
    holdfast, claude, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config = tmp_path / "holdfast" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        '[defaults]\nmax_tokens = "1k"\n[preset.dear]\nmax-tokens = 9000\non_budget = "pause"\n'
    )
    holdfast("run", "-n", "plain", "true", expect=0)
    info = ended("plain")
    assert (info.budget, info.given_by) == (None, None)
    start_turn(holdfast, claude, "steps=9 wait")
    assert ended("a").outcome == "over_budget"
    start_turn(holdfast, claude, "steps=2", "-P", "dear", name="b")
    info = ended("b")
    assert (info.outcome, info.budget["max_tokens"]) == ("succeeded", 9000)
    assert info.budget["on_budget"] == "pause"
    assert info.given_by == {"max_tokens": "preset dear", "on_budget": "preset dear"}
    refused = holdfast("run", "-P", "dear", "true", expect=4)
    assert "no agent is recognised" in refused.stderr


def test_A6_resume_goes_on_with_a_budget_of_its_own(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=9 wait", "--max-tokens", "1500")
    let_go(tmp_path, 2)
    first = ended("a")
    assert first.outcome == "over_budget"
    for file in tmp_path.glob("go*"):
        file.unlink()
    holdfast("resume", "a", "steps=9 wait", expect=0)
    wait_for_tokens(1)
    let_go(tmp_path, 2)
    second = ended("a")
    assert (second.outcome, used(second)) == ("over_budget", tokens(2))
    assert second.resumed_from == first.id


def test_A6_a_budget_that_is_reached_while_nobody_looks_is_found_by_whoever_comes(
    holdfast, claude, tmp_path
):
    start_turn(holdfast, claude, "steps=9 wait", "--max-tokens", "2500")
    wait_for_tokens(1)
    kill_shim("a")
    let_go(tmp_path, 2, 3)
    transcript = Path(str(info_of("a").session["transcript"]))  # type: ignore[index]
    wait_for("a", lambda _: transcript.read_text().count("assistant") == 3, why="it goes on")
    recovered(holdfast)
    info = ended("a")
    assert (info.outcome, used(info)) == ("over_budget", tokens(3))


def test_A6_a_member_that_ignores_the_stop_at_a_budget_is_killed(holdfast, tmp_path):
    record = {"type": "assistant", "message": {"id": "m", "usage": {"input_tokens": 999}}}
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\ntrap '' TERM\necho '{json.dumps(record)}'\nsleep 600 &\nwait\n")
    program.chmod(0o755)
    words = ("--max-tokens", "10", "--grace", "0.2s", "--", program, *STREAM, "-p", "x")
    holdfast("run", "-n", "a", *words, expect=0)
    info = ended("a")
    assert (info.outcome, info.signal) == ("over_budget", signal.SIGKILL)
    assert info.cleanup["complete"] is True


def test_A6_the_wait_for_more_is_not_held_against_it(holdfast, claude, tmp_path):
    """While it is paused at its budget it is silent by design."""
    words = ("--max-tokens", "500", "--on-budget", "pause", "--idle-timeout", "0.5s")
    start_turn(holdfast, claude, "steps=2 wait", *words)
    _is_paused()
    wait_for_events("a", "paused", 2)
    holdfast("adjust", "a", "--max-tokens", "none", "--idle-timeout", "none", expect=0)
    holdfast("unpause", "a", expect=0)
    let_go(tmp_path, 2)
    info = ended("a")
    assert (info.outcome, info.budget["max_tokens"]) == ("succeeded", None)
