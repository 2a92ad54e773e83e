"""`holdfast resume`, and what is said of an agent's run, with a program that speaks like claude."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import running
from tests.support.pretend_claude import install
from tests.support.running import events_of, info_of, start_all, stop, wait_for
from tests.support.waiting import eventually

ended: Callable[[str], Any] = running.ended  # what is null in it fails a test anyhow
STREAM = ("--output-format", "stream-json", "--verbose")


@pytest.fixture
def claude(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)


def _turn(holdfast, claude, prompt, *options, name="a"):
    holdfast("run", "-n", name, *options, "--", claude, *STREAM, "-p", prompt, expect=0)
    return name


def _in_session(name):
    return wait_for(name, lambda info: info.session, why=f"{name} names its session")


def test_a_session_goes_on_in_a_new_run(holdfast, claude):
    first = ended(_turn(holdfast, claude, "one"))
    assert first.session["transcript"].endswith(f"/{first.session['id']}.jsonl")
    holdfast("resume", "a", "- two", expect=0)
    second = ended("a")
    assert second.resumed_from == first.id
    assert second.session == first.session
    resumed = [claude, *STREAM, "--resume", first.session["id"], "--print", "--", "- two"]
    assert second.command == resumed
    assert holdfast("result", "a", expect=0).stdout == "done: - two\n"
    holdfast("resume", "a", "-", stdin=b"three\n", expect=0)
    third = ended("a")
    assert (third.resumed_from, third.result["text"]) == (second.id, "done: three")


def test_a_resume_that_could_not_start_leaves_the_session_to_the_next(holdfast, claude):
    """A prompt that is too long for the kernel: the name means that run now, and has no session."""
    first = ended(_turn(holdfast, claude, "one"))
    for _ in range(2):
        holdfast("resume", "a", "-", stdin=b"x" * 300_000, expect=126)
    failed = info_of("a")
    assert (failed.outcome, failed.session) == ("never_started", None)
    _turn(holdfast, claude, "hold silent", name="other")  # whose session is not known either
    holdfast("resume", "a", "two", expect=0)
    second = ended("a")
    assert (second.resumed_from, second.session) == (failed.id, first.session)
    assert second.command[-1] == "two"
    stop(holdfast, "other")


def test_a_session_is_never_in_two_runs_at_once(holdfast, claude):
    first = ended(_turn(holdfast, claude, "one"))
    started = start_all(holdfast, [["resume", first.id, f"hold {n}"] for n in range(5)])
    assert sorted(process.returncode for process in started) == [0, 4, 4, 4, 4]
    second = info_of("a")
    assert second.id in holdfast("resume", first.id, "again", expect=4).stderr
    assert "SAME" in holdfast("resume", second.id, "again", expect=4).stderr
    stop(holdfast, "a")
    assert info_of("a").outcome == "stopped"

    by_hand = [claude, *STREAM, "--resume", first.session["id"], "-p", "hold"]
    holdfast("run", "-n", "by-hand", "--", *by_hand, expect=0)
    _in_session("by-hand")
    assert "by-hand" in holdfast("resume", "a", "again", expect=4).stderr
    stop(holdfast, "by-hand")
    holdfast("resume", "a", "again", expect=0)
    assert ended("a").outcome == "succeeded"


def test_what_the_old_run_left_behind_stands_in_the_way(holdfast, claude):
    info = ended(_turn(holdfast, claude, "leave", "--leftovers", "keep"))
    refused = holdfast("resume", "a", "two", expect=4)
    assert "sleep" in refused.stderr
    (pid,) = re.findall(r"(\d+) sleep", refused.stderr)
    token = holdfast("who", pid, expect=0).stdout.split()[-1]
    holdfast("signal", "KILL", token, expect=0)
    eventually(lambda: holdfast("resume", "a", "two").returncode == 0, why="nobody is left")
    assert ended("a").resumed_from == info.id


def test_S7_an_independent_run_started_inside_does_not(holdfast, claude):
    info = ended(_turn(holdfast, claude, "nest"))
    inner = info_of("inner")
    assert (inner.started_in, inner.state) == (info.id, "running")
    holdfast("resume", "a", "two", expect=0)
    assert ended("a").resumed_from == info.id
    stop(holdfast, "inner")


def test_what_can_not_be_resumed_is_refused(holdfast, claude):
    holdfast("run", "-n", "plain", "true", expect=0)
    ended("plain")
    assert "not the run of an agent" in holdfast("resume", "plain", expect=4).stderr
    ended(_turn(holdfast, claude, "hold silent", "--timeout", "1s", name="nameless"))
    assert "no session of claude was seen" in holdfast("resume", "nameless", expect=4).stderr
    text = f"{claude} -p one; true"
    holdfast("run", "-n", "text", "--agent", "claude", "sh", "-c", text, expect=0)
    session = ended("text").session["id"]
    assert session in holdfast("resume", "text", expect=4).stderr


def test_a_proven_failure_fails_with_exit_code_0(holdfast, claude):
    info = ended(_turn(holdfast, claude, "fail"))
    assert (info.outcome, info.exit_code, info.limit) == ("failed", 0, None)
    assert holdfast("wait", "a").returncode == 1
    assert holdfast("result", "a", expect=1).stdout == "sorry\n"
    assert "the agent says that it failed" in holdfast("ls", expect=0).stdout


def test_a_used_up_quota_is_told_apart(holdfast, claude):
    info = ended(_turn(holdfast, claude, "limit"))
    assert (info.outcome, info.limit) == ("failed", {"retry_at": None, "text": "sorry"})
    assert "usage limit" in holdfast("ls", expect=0).stdout
    assert "a quota is used up" in holdfast("status", "a", expect=0).stdout
    assert holdfast("status", "a", "--json", expect=0).json["limit"] == info.limit


def test_C3_a_completed_agent_that_hangs_is_drained(holdfast, claude):
    info = ended(_turn(holdfast, claude, "linger", "--drain", "0.5s"))
    assert (info.outcome, info.ended_by) == ("completed", "holdfast")
    assert info.usage["cost_usd"] == 0.25
    assert events_of("a", "stop_begun")[0]["cause"] == "completion"
    assert holdfast("wait", "a").returncode == 0


def test_figures_that_nobody_measured_are_null(holdfast, claude):
    usage = ended(_turn(holdfast, claude, "one", "--sample-interval", "0")).usage
    assert (usage["tokens_in"], usage["tokens_out"]) == (5, 7)
    assert usage["peak_rss_bytes"] is None or usage["peak_rss_bytes"] > 0
    assert usage["peak_processes"] is None or usage["peak_processes"] > 0
