"""Q11: `--on-limit`: one attempt per limit, staggered, capped; the old tree is gone first."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidOption, Refused
from holdfast.manage.runs import Runs
from holdfast.options import Wanted
from holdfast.process.clock import seconds_of
from holdfast.shim.waiting.usage_limit import wait_seconds
from tests.support import running
from tests.support.neighbours import wait_until_watched
from tests.support.pretend_claude import install, quota
from tests.support.recovering import gated, kill_shim, known, recovered, shim_is_dead
from tests.support.running import events_of, stop, wait_for, wait_for_events
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually

ended: Any = running.ended  # what is null in it fails a test anyhow
STREAM = ("--output-format", "stream-json", "--verbose")
PROMPT = "Continue where you left off."
SOON = ("--limit-margin", "0", "--limit-spread", "0", "--limit-waits", "0")
FAR = 3600


@pytest.fixture
def claude(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)


def start(holdfast, claude, *options, name="a", policy="resume", delays=SOON, prompt="one"):
    words = ("--on-limit", policy, *delays, *options, "--", claude, *STREAM, "-p", prompt)
    holdfast("run", "-n", name, *words, expect=0)
    return name


def waits(name: str = "a", attempt: int = 1) -> Any:
    """The run, once it waits for its quota after so many attempts."""

    def look(info: Any) -> Any:
        reason = (info.queue or {}).get("waits_for") or {}
        is_there = info.attempt == attempt and reason.get("kind") == "limit"
        return info if is_there else None

    return wait_for(name, look, why=f"{name} waits for its quota")


def commands(directory: Path) -> list[list[str]]:
    """What the pretended agent was started with, each time."""
    return [json.loads(line) for line in (directory / "commands").read_text().splitlines()]


def test_Q11_it_goes_on_once_by_itself_and_each_attempt_has_its_command(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=2)
    start(holdfast, claude)
    info = ended("a")
    assert (info.outcome, info.attempt, info.limit) == ("succeeded", 2, None)
    session = info.session["id"]
    first, second = info.attempts
    assert first["command"] == info.command == [claude, *STREAM, "-p", "one"]
    assert second["command"] == [claude, *STREAM, "--resume", session, "--print", "--", PROMPT]
    assert commands(tmp_path) == [first["command"][1:], second["command"][1:]]
    assert (first["outcome"], first["exit_code"]) == ("failed", 1)
    assert (second["outcome"], second["limit"]) == ("succeeded", None)
    [scheduled] = events_of("a", "restart_scheduled")
    assert scheduled["reason"] == "usage limit"
    assert scheduled["limit"]["until"] == first["limit"]["retry_at"]
    assert seconds_of(second["started_at"]) >= seconds_of(first["limit"]["retry_at"])


def test_Q11_while_it_waits_it_says_so_and_stop_ends_it(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=FAR)
    start(holdfast, claude, delays=())
    info = waits()
    assert info.state == "starting"
    reason = info.queue["waits_for"]
    assert reason["detail"].startswith("usage limit until ")
    later = seconds_of(reason["until"]) - seconds_of(info.limit["retry_at"])
    assert 60 <= later <= 60 + 120 + 1
    [row] = [line for line in holdfast("ls", expect=0).stdout.splitlines() if " starting " in line]
    assert reason["detail"] in row
    assert "completion" not in row
    assert "goes on at" in holdfast("status", "a", expect=0).stdout
    holdfast("stop", "a", expect=0)
    info = ended("a")
    assert (info.outcome, info.stop_reason, len(info.attempts)) == ("stopped", "user", 1)
    assert info.queue is None
    assert len(commands(tmp_path)) == 1


def test_Q11_the_number_of_times_is_capped(holdfast, claude, tmp_path):
    quota(tmp_path, 9, seconds=None)
    start(holdfast, claude, policy="resume:2")
    info = ended("a")
    assert (info.outcome, info.exit_code, info.attempt) == ("failed", 1, 3)
    assert "2 times was the most" in info.evidence
    assert [one["limit"]["retry_at"] for one in info.attempts] == [None, None, None]
    assert len(commands(tmp_path)) == 3
    assert "usage limit" in holdfast("ls", expect=0).stdout


def test_Q11_without_the_option_nothing_is_resumed(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=1)
    holdfast("run", "-n", "a", "--", claude, *STREAM, "-p", "one", expect=0)
    info = ended("a")
    assert (info.outcome, info.attempt) == ("failed", 1)


def test_Q11_what_fails_for_another_reason_is_not_resumed(holdfast, claude):
    start(holdfast, claude, prompt="fail")
    info = ended("a")
    assert (info.outcome, info.attempt) == ("failed", 1)


def test_Q11_a_turn_that_succeeds_in_spite_of_a_limit_is_not_resumed(holdfast, tmp_path):
    """Such as one that goes on with another model."""
    records = [
        {"type": "system", "subtype": "init", "session_id": "s1"},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "done"},
    ]
    script = "; ".join(f"echo '{json.dumps(one)}'" for one in records)
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    start(holdfast, str(program))
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 1)
    assert info.limit is not None


def test_Q11_one_that_says_so_and_does_not_end_is_stopped_and_goes_on(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=1, more="linger")
    start(holdfast, claude, "--drain", "0.5s")
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    [stopped] = events_of("a", "stop_begun")
    assert stopped["cause"] == "completion"
    assert info.stop_reason is None


def test_Q11_nothing_of_the_old_tree_is_alive_when_the_next_attempt_begins(
    holdfast, claude, tmp_path
):
    quota(tmp_path, 2, seconds=None, more="leave")
    start(holdfast, claude)
    assert ended("a").attempt == 3
    left = (tmp_path / "left").read_text().split()
    assert len(left) == 2
    met = [json.loads(line) for line in (tmp_path / "alive").read_text().splitlines()]
    assert met == [[], [], []]


def test_Q11_while_a_process_of_the_old_tree_can_not_be_ended_the_next_one_waits(
    holdfast, claude, tmp_path
):
    quota(tmp_path, 1, seconds=None, more="leave linger")
    start(holdfast, claude, "--grace", "0", "--drain", "3600")
    wait_for("a", lambda info: info.completion)
    left = int((tmp_path / "left").read_text())
    with held_at_exit(left):
        os.kill(running.root_pid("a"), signal.SIGKILL)
        [fault] = [
            one
            for one in wait_for_events("a", "fault", why="the attempt is put off")
            if one["where"] == "restart"
        ]
        assert f"{left} may be alive" in fault["error"]
        assert len(events_of("a", "attempt_started")) == 1
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)


def test_Q11_its_shim_is_killed_while_it_waits_and_an_adopter_keeps_the_schedule(
    holdfast, claude, tmp_path
):
    quota(tmp_path, 1, seconds=6)
    start(holdfast, claude)
    until = waits().queue["waits_for"]["until"]
    kill_shim("a")
    info = known("a")
    assert (info.state, info.queue["waits_for"]["kind"]) == ("starting", "shim")
    assert "holdfast recover sets a waiting again" in holdfast("ls", expect=0).stderr
    told = recovered(holdfast)["a"]
    assert told["action"] == "waiting again"
    again = known("a").queue["waits_for"]
    assert (again["kind"], again["until"]) == ("limit", until)
    assert not recovered(holdfast)
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    assert seconds_of(info.attempts[1]["started_at"]) >= seconds_of(until) - 0.01
    assert info.attempts[1]["command"][-1] == PROMPT
    assert len(events_of("a", "restart_scheduled")) == 1
    assert len(events_of("a", "limit_hit")) == 1


def test_Q11_with_a_neighbour_no_command_is_needed(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=4)
    holdfast("run", "-n", "b", *gated(tmp_path / "gate", "exit 0"), expect=0)
    start(holdfast, claude)
    before = waits().shim
    wait_until_watched("a", "b")
    kill_shim("a")
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    assert info.shim["pid"] != before["pid"]
    stop(holdfast, "b")


def test_Q11_stop_cancels_it_when_its_shim_is_gone_too(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=FAR)
    start(holdfast, claude)
    waits()
    kill_shim("a")
    holdfast("stop", "a", expect=0)
    info = ended("a")
    assert (info.outcome, info.stop_reason, info.attempt) == ("stopped", "user", 1)
    assert len(commands(tmp_path)) == 1


def test_Q11_a_shim_that_dies_as_it_schedules_has_scheduled_once(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=1)
    crash = {"HOLDFAST_CRASH_AT": "shim.restart-scheduled@shim"}
    words = ("--on-limit", "resume", *SOON, "--", claude, *STREAM, "-p", "one")
    holdfast("run", "-n", "a", *words, env=crash)
    shim_is_dead("a")
    holdfast("wait", "a", expect=0)
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    assert len(commands(tmp_path)) == 2


def test_Q11_an_adopted_agent_that_meets_its_limit_goes_on_too(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=None, more="leave linger")
    start(holdfast, claude, "--drain", "3600")
    wait_for("a", lambda info: info.completion)
    kill_shim("a")
    assert recovered(holdfast)["a"]["action"] == "adopted"
    left = int((tmp_path / "left").read_text())
    wait_for_events("a", "supervised", 2)
    os.kill(running.root_pid("a"), signal.SIGKILL)
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    assert not running.is_alive(left)


def test_Q11_it_keeps_its_slot(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=FAR)
    start(holdfast, claude, "-Q", "main")
    waits()
    holdfast("run", "-n", "b", "-Q", "main", "true", expect=0)
    assert known("b").state == "queued"
    queue = known("a").queue
    assert (queue["name"], queue["waits_for"]["kind"]) == ("main", "limit")
    [told] = holdfast("queue", "--json", expect=0).json["queues"]
    [active] = told["active"]
    assert (active["name"], active["waits_for"]["kind"]) == ("a", "limit")
    assert "active   a: usage limit until" in holdfast("queue", expect=0).stdout
    kill_shim("a")
    holdfast("run", "-n", "c", "-Q", "main", "true", expect=0)
    assert {known(name).state for name in ("b", "c")} == {"queued"}
    holdfast("stop", "a", expect=0)
    assert {ended(name).outcome for name in ("b", "c")} == {"succeeded"}


def test_Q11_idle_time_does_not_count_while_it_waits(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=4)
    start(holdfast, claude, "--idle-timeout", "1", "--silence-timeout", "1")
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)


def test_Q11_the_timeout_of_the_run_counts_while_it_waits_also_after_an_adoption(
    holdfast, claude, tmp_path
):
    quota(tmp_path, 1, seconds=FAR)
    start(holdfast, claude, "--timeout", "5")
    waits()
    kill_shim("a")
    assert recovered(holdfast)["a"]["action"] == "waiting again"
    info = ended("a")
    assert (info.outcome, info.attempt) == ("timed_out", 1)


def test_Q11_a_limit_is_no_restart_and_each_counts_for_itself(holdfast, claude, tmp_path):
    quota(tmp_path, 2, seconds=None)
    start(holdfast, claude, "--restart", "on-failure:1", prompt="one")
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 3)
    assert info.anomaly_count == 0
    assert [one["reason"] for one in events_of("a", "restart_scheduled")] == ["usage limit"] * 2


def test_Q11_a_budget_goes_with_it(holdfast, claude, tmp_path):
    quota(tmp_path, 1, seconds=None)
    start(holdfast, claude, "--max-cost", "3")
    assert ended("a").attempt == 2
    budgets = [one[one.index("--max-budget-usd") + 1] for one in commands(tmp_path)]
    assert (float(budgets[0]), float(budgets[1])) == (3.0, 2.75)  # the first turn cost $0.25


def test_Q11_from_a_program(claude, tmp_path):
    quota(tmp_path, 1, seconds=None)
    options: dict[str, Any] = {"limit_margin": 0, "limit_spread": 0, "limit_waits": [0, "1m"]}
    words = [claude, *STREAM, "-p", "one"]
    run = Runs().start(words, name="a", on_limit="resume:3", **options)
    info = run.wait()
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    assert (info.wanted or {})["on_limit"] == "resume:3"
    with pytest.raises(InvalidOption, match=r"off, resume or resume:N"):
        Runs().start(words, name="b", on_limit="wait")


def test_Q11_what_can_not_go_on_is_refused_at_the_start_with_the_reason(claude):
    def refused(*words: str, **options: Any) -> str:
        with pytest.raises(Refused) as error:
            Runs().start(words, on_limit="resume", **options)
        return str(error.value)

    assert "no agent is recognised" in refused("true")
    assert "aider has no sessions" in refused("aider", "--message", "x").lower()
    told = refused(claude, "-p", "one")
    assert "tells its session only with --output-format stream-json --verbose" in told
    assert "it waits for input" in refused(claude, pty=True)
    many = refused(claude, *STREAM, "--input-format", "stream-json", "-p", stdin="pipe")
    assert "it waits for input" in many
    assert "beside what was left" in refused(claude, *STREAM, "-p", "x", leftovers="keep")
    text = f"{claude} {' '.join(STREAM)} -p one; true"
    assert "can't be told" in refused("sh", "-c", text, agent="claude")


def test_Q11_a_default_is_for_agents_alone(holdfast, claude, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    config = tmp_path / "config" / "holdfast" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[defaults]\non-limit = "resume"\nlimit-waits = "0"\nlimit-spread = 0\n')
    holdfast("run", "-n", "plain", "true", expect=0)
    assert ended("plain").wanted["on_limit"] == "off"
    quota(tmp_path, 1, seconds=None)
    holdfast("run", "-n", "a", "--", claude, *STREAM, "-p", "one", expect=0)
    assert ended("a").attempt == 2
    holdfast("run", "-n", "b", "--on-limit", "off", claude, "-p", "one", expect=0)
    assert ended("b").outcome == "succeeded"


def test_Q11_many_do_not_come_back_at_once():
    wanted = Wanted(on_limit="resume")
    at = "2026-11-18T16:00:00Z"
    now = seconds_of(at) - 100
    assert wait_seconds(wanted, at, 0, now, 0.0) == 160
    assert wait_seconds(wanted, at, 0, now, 1.0) == 280
    assert wait_seconds(wanted, at, 3, now + 500, 0.5) == 120  # it is over: by the margin alone
    untimed = [wait_seconds(wanted, None, before, now, 0.0) for before in range(5)]
    assert untimed == [900, 1800, 3600, 3600, 3600]


def test_Q11_several_that_meet_one_limit_have_times_of_their_own(holdfast, claude, tmp_path):
    quota(tmp_path, 4, seconds=FAR)
    names = ["a", "b", "c", "d"]
    for name in names:
        start(holdfast, claude, name=name, delays=("--limit-spread", "1h"))
        waits(name)
    times = {known(name).queue["waits_for"]["until"] for name in names}
    assert len(times) == 4
    stop(holdfast, *names)
    eventually(lambda: len(commands(tmp_path)) == 4)
