"""`--restart`: after which attempts there is another one, how soon, and why."""

from __future__ import annotations

import os
import sys

import pytest

from holdfast.run.facts import ExitFacts
from holdfast.shim.restarts import RestartPolicy
from tests.support.holding import pass_time
from tests.support.running import ended, events_of, info_of, stop, wait_for


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "exit code 3"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("kill -KILL $$", "SIGKILL"),
    ],
)
def test_the_reason_of_a_restart_is_told_in_words(holdfast, script, reason):
    once = (
        f"ulimit -c 0; [ -e $HOLDFAST_HOME/again ] && exit 0; touch $HOLDFAST_HOME/again; {script}"
    )
    holdfast("run", "-n", "a", "--restart", "on-failure:1", "bash", "-c", once, expect=0)
    assert ended("a").outcome == "succeeded"
    [scheduled] = events_of("a", "restart_scheduled")
    assert scheduled["reason"] == reason


def test_always_restarts_what_exited_0_too_until_it_is_stopped(holdfast, tmp_path):
    script = f"echo again; [ -e {tmp_path}/stay ] && exec sleep 600; touch {tmp_path}/stay"
    holdfast("run", "-n", "web", "--restart", "always", "sh", "-c", script, expect=0)
    assert wait_for("web", lambda info: info.attempt == 2 and info.state == "running")
    [scheduled] = events_of("web", "restart_scheduled")
    assert scheduled["reason"] == "exit code 0"
    assert "restart always" in holdfast("status", "web", expect=0).stdout
    holdfast("stop", "--grace", "0", "web", expect=0)
    info = ended("web")
    assert (info.outcome, info.attempt) == ("stopped", 2)


def test_always_n_gives_up_after_n_restarts(holdfast):
    holdfast("run", "-n", "web", "--restart", "always:1", "sh", "-c", "echo up", expect=0)
    info = ended("web")
    assert (info.outcome, info.attempt, info.exit_code) == ("succeeded", 2, 0)
    assert "gave up after 1 restarts" in info.evidence
    assert "exit 0, given up after 2 attempts" in holdfast("ls", expect=0).stdout


def test_what_is_done_is_not_begun_again(holdfast):
    options = ["--restart", "always", "--done-when", "all done", "--drain", "60"]
    holdfast("run", "-n", "job", *options, "sh", "-c", "echo all done", expect=0)
    assert (ended("job").attempt, ended("job").outcome) == (1, "succeeded")


def test_a_proof_of_one_attempt_does_not_stop_the_next(holdfast, tmp_path):
    # It says that it is done, fails all the same, and runs for longer than the drain then.
    script = f"[ -e {tmp_path}/2 ] && exec sleep 600; touch {tmp_path}/2; echo all done; exit 1"
    options = ["--restart", "on-failure:1", "--done-when", "all done", "--drain", "2"]
    holdfast("run", "-n", "a", *options, "sh", "-c", script, expect=0)
    assert wait_for("a", lambda info: info.attempt == 2 and info.state == "running")
    [first, _] = events_of("a", "attempt_started")
    pass_time(first["boottime"] + 2 + 2)  # when the first one's drain would have ended
    assert info_of("a").state == "running"
    stop(holdfast, "a")


@pytest.mark.parametrize("code", [0, 1])
def test_what_ends_at_once_again_and_again_waits_longer_and_is_given_up(code):
    policy = RestartPolicy(None, after_success=True)
    ended_so = ExitFacts(code, None, False, "waitid")
    delays = []
    for attempt in range(1, 20):
        decision = policy.decide(ended_so, attempt, 0.1)
        if decision.delay_seconds is None:
            break
        delays.append(decision.delay_seconds)
    assert delays == sorted(delays)
    assert len(delays) < 10
    assert delays[-1] > delays[0]
    assert "crash loop" in decision.why


def test_always_counted_waits_longer_each_time():
    policy = RestartPolicy(1_000_000, after_success=True)
    ended_so = ExitFacts(0, None, False, "waitid")
    delays = [policy.decide(ended_so, attempt, 0.1).delay_seconds for attempt in range(1, 10)]
    assert delays[-1] == 60


def test_a_policy_that_is_none_is_refused_with_what_there_is(holdfast):
    done = holdfast("run", "--restart", "unless-stopped", "true", expect=2)
    assert "no, on-failure[:N] or always[:N]" in done.stderr


def test_what_the_kernel_counted_for_an_earlier_attempt_is_not_forgotten(holdfast, tmp_path):
    code = f"""if 1:
        import os, sys
        if os.path.exists({str(tmp_path / "again")!r}):
            sys.exit(0)
        open({str(tmp_path / "again")!r}, "w").close()
        kept = bytearray(b"x") * 80_000_000
        sys.exit(1)"""
    command = [os.path.realpath(sys.executable), "-S", "-c", code]
    # Without samples: what is known of the first attempt is what the kernel said at its end.
    options = ["--restart", "on-failure:1", "--sample-interval", "0"]
    holdfast("run", "-n", "a", *options, *command, expect=0)
    info = ended("a")
    assert (info.outcome, info.attempt) == ("succeeded", 2)
    assert (info.usage or {})["peak_rss_bytes"] > 80_000_000
