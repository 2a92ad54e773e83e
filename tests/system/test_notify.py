"""`--notify CMD`: told of what happened, and unable to delay, break or join the run."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.manage.state import read_facts
from holdfast.process.identity import ProcessIdentity
from holdfast.run.inner_runs import InnerRuns
from holdfast.shim.notify import MOST_AT_ONCE, Notifier
from tests.support.features import needs
from tests.support.recovering import kill_shim, shim_is_dead
from tests.support.running import (
    ended,
    events_of,
    info_of,
    is_alive,
    run_of,
    settled,
    stop,
    wait_for,
    workload_pid,
)
from tests.support.waiting import eventually


def notices(path: Path) -> list[dict[str, Any]]:
    """What the notifier was told, as far as whole lines have come."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def told(path: Path, count: int = 1) -> list[dict[str, Any]]:
    eventually(lambda: len(notices(path)) >= count, why=f"{count} notices have come")
    return notices(path)


def log_with(name: str, text: str) -> str:
    """The notifier's log, once the text is in it."""
    eventually(lambda: text in log_of(name), why=f"{text!r} is in the log")
    return log_of(name)


def words_in(path: Path, count: int = 1) -> list[str]:
    """What was written there, once there is enough of it."""
    eventually(lambda: path.exists() and len(path.read_text().split()) >= count)
    return path.read_text().split()


def log_of(name: str) -> str:
    path = Path(run_of(name).directory.path) / "notify.log"
    return path.read_text(errors="replace") if path.exists() else ""


def notices_of(run_id: str) -> list[int]:
    """The processes of a run's notices that live."""
    needle = f"HOLDFAST_NOTICE_OF={run_id}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if needle in path.read_bytes().split(b"\0") and is_alive(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def end_notices(run_id: str) -> None:
    """Holdfast leaves them alone, so the test has to end those that hang."""

    def strike() -> bool:
        for pid in notices_of(run_id):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not notices_of(run_id)

    eventually(strike, why="no notice is left")


def test_the_end_is_told_with_the_run_on_stdin(holdfast, tmp_path):
    told_to = tmp_path / "told"
    notify = f"cat >>{told_to}"
    holdfast("run", "-n", "a", "--notify", notify, "--tag", "k=v", "sh", "-c", "exit 3", expect=0)
    [notice] = told(told_to)
    assert (notice["schema"], notice["event"]) == (1, "ended")
    run = notice["run"]
    assert (run["name"], run["outcome"], run["exit_code"]) == ("a", "failed", 3)
    assert (run["id"], run["tags"]) == (info_of("a").id, {"k": "v"})
    assert run["evidence"] == "root exited 3 (seen by waitid)"


def test_it_runs_where_the_run_does_with_its_environment_but_the_stamp(holdfast, tmp_path):
    (tmp_path / "place").mkdir()
    tells = "pwd; env; holdfast_cannot_be_found_here; cat /proc/self/status"
    options = ["-C", tmp_path / "place", "-e", "MINE=1", "--notify", tells]
    holdfast("run", "-n", "a", *options, "true", expect=0)
    said = log_with("a", "Seccomp")
    assert f"\n{tmp_path / 'place'}\n" in said
    assert "\nMINE=1\n" in said
    assert f"\nHOLDFAST_HOME={tmp_path}\n" in said
    assert "HOLDFAST_RUN_ID" not in said
    assert "not found" in said
    # The shim ignores some signals and blocks none; the command gets them as everybody does.
    masks = dict(line.split(":\t") for line in said.splitlines() if line.startswith("Sig"))
    internal = 0b11 << 31  # 32 and 33 are the C library's own
    assert (int(masks["SigIgn"], 16) & ~internal, int(masks["SigBlk"], 16)) == (0, 0)
    log = Path(run_of("a").directory.path) / "notify.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert said.splitlines()[0].endswith("Z ended")


def test_an_anomaly_is_told_while_the_run_is_live(holdfast, tmp_path):
    told_to = tmp_path / "told"
    command = f"mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; exec sleep 600"
    options = ["--notify", f"cat >>{told_to}", "--sample-interval", "0.05s"]
    holdfast("run", "-n", "a", *options, "sh", "-c", command, expect=0)
    notice = told(told_to)[0]
    assert (notice["event"], notice["anomaly"]["rule"]) == ("anomaly", "deleted_cwd")
    assert notice["run"]["outcome"] is None
    assert info_of("a").is_active
    stop(holdfast, "a")
    assert told(told_to, 2)[-1]["run"]["outcome"] == "stopped"


def test_an_orphan_is_told_by_whoever_takes_it_over(holdfast, tmp_path):
    told_to = tmp_path / "told"
    holdfast("run", "-n", "a", "--notify", f"cat >>{told_to}", "sleep", "600", expect=0)
    kill_shim("a")
    holdfast("recover", expect=0)
    [notice] = told(told_to)
    assert (notice["event"], notice["run"]["name"]) == ("orphan", "a")
    stop(holdfast, "a")
    assert [notice["event"] for notice in told(told_to, 2)] == ["orphan", "ended"]


BAD = {
    "hangs for ever": "echo $$ >$PIDS; exec sleep 600",
    "floods": "exec yes",
    "fails": "exit 1",
    "does not exist": "/no/such/program",
    "reads nothing": "exec </dev/null; true",
    "is killed": "kill -9 $$",
    "is no shell": "if then ((",
    "closes everything": "exec <&- >&- 2>&-",
    "is empty": "",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_notifier_neither_delays_nor_breaks_the_end(holdfast, tmp_path, kind):
    pids = tmp_path / "pids"
    options = ["-e", f"PIDS={pids}", "--notify", BAD[kind]]
    holdfast("run", "-n", "a", *options, "sh", "-c", "echo said; exit 4", expect=0)
    info = ended("a", timeout=60)  # far less than the notifier takes
    assert (info.outcome, info.exit_code) == ("failed", 4)
    shim_is_dead("a", 60)
    assert holdfast("wait", "a").returncode == 4
    assert events_of("a")[-1]["kind"] == "ended"
    assert events_of("a", "fault") == []
    # The name is free, and the run can be removed, though the notifier may hang.
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")
    holdfast("rm", info.id, expect=0)
    if kind == "hangs for ever":
        assert is_alive(int(words_in(pids)[0]))
        end_notices(info.id)


def test_what_it_prints_is_kept_up_to_a_bound(holdfast):
    holdfast("run", "-n", "a", "--notify", "yes; echo never", "true", expect=0)
    eventually(lambda: len(log_of("a")) >= 65536, why="the flood was cut")
    eventually(lambda: "exit code" not in log_of("a") and len(log_of("a")) < 66_000)


def test_why_it_failed_is_in_its_log(holdfast):
    holdfast("run", "-n", "a", "--notify", "echo trouble >&2; exit 7", "true", expect=0)
    said = log_with("a", "exit code")
    assert said.splitlines()[1:] == ["trouble", "exit code 7"]


def test_a_notice_that_failed_is_seen_where_people_look(holdfast):
    holdfast("run", "-n", "a", "--notify", "echo no route >&2; exit 7", "true", expect=0)
    assert ended("a").outcome == "succeeded"
    assert wait_for("a", lambda info: info.notify_failure) == "ended: exit code 7"
    shown = " ".join(holdfast("status", "a", expect=0).stdout.split())
    assert "the notice failed: ended: exit code 7; what it printed is in notify.log" in shown
    assert "its notice failed" in holdfast("ls", expect=0).stdout
    assert holdfast("ls", "--json", expect=0).json["runs"][0]["notify_failure"]
    assert "no route" in log_of("a")


def test_a_notice_that_came_through_is_not_mentioned(holdfast, tmp_path):
    holdfast("run", "-n", "a", "--notify", f"cat >>{tmp_path}/told", "true", expect=0)
    told(tmp_path / "told")
    assert settled("a").notify_failure is None
    assert "notice failed" not in " ".join(holdfast("status", "a", expect=0).stdout.split())
    assert "notice failed" not in holdfast("ls", expect=0).stdout


@pytest.mark.parametrize(
    ("kinds", "script", "is_told"),
    [
        ("failed", "exit 3", True),
        ("failed", "exit 0", False),
        ("anomaly,orphan", "exit 3", False),
        ("orphan, ended", "exit 0", True),
    ],
)
def test_only_what_was_picked_is_told(holdfast, tmp_path, kinds, script, is_told):
    path = tmp_path / "told"
    options = ["--notify", f"cat >>{path}", "--notify-on", kinds]
    holdfast("run", "-n", "a", *options, "sh", "-c", script, expect=0)
    if is_told:
        assert [one["event"] for one in told(path)] == ["ended"]
    else:
        settled("a")  # its shim is gone, and has started no notice before it went
        assert notices_of(info_of("a").id) == []
        assert not path.exists()


def test_a_stop_that_was_asked_for_is_no_failure(holdfast, tmp_path):
    options = ["--notify", f"cat >>{tmp_path}/told", "--notify-on", "failed"]
    holdfast("run", "-n", "a", *options, "sleep", "600", expect=0)
    stop(holdfast, "a")
    info = settled("a")
    assert notices_of(info.id) == []
    assert not (tmp_path / "told").exists()


@pytest.mark.parametrize("kinds", ["", "all", "failed,", "failed,attention!"])
def test_what_is_no_kind_of_notice_is_refused_with_those_there_are(holdfast, kinds):
    done = holdfast("run", "--notify", "true", "--notify-on", kinds, "true", expect=2)
    assert "ended, failed, anomaly, orphan" in done.stderr


def test_to_pick_notices_for_nobody_is_refused(holdfast, runs, config):
    assert "--notify" in holdfast("run", "--notify-on", "failed", "true", expect=2).stderr
    config('[defaults]\nnotify_on = "failed"\n')
    holdfast("run", "-n", "a", "true", expect=0)  # there for those runs that do notify
    assert runs.start(["true"], notify="true", notify_on=["failed", "orphan"]).info()


def test_it_is_not_of_the_run_nor_is_what_it_leaves_behind(holdfast, tmp_path):
    """A notice in the middle of the run, that hangs, and one that leaves a daemon behind."""
    pids, gone = tmp_path / "pids", tmp_path / "gone"
    notify = (
        f"echo $$ >>{pids}; (setsid sh -c 'echo $$ >>{pids}; exec sleep 600' &) ; "
        f"sh -c 'echo $$ >>{pids}; exec sleep 600' & exit 0"
    )
    command = f"mkdir {gone}; cd {gone}; rmdir {gone}; exec sleep 600"
    options = ["--notify", notify, "--sample-interval", "0.05s"]
    holdfast("run", "-n", "a", *options, "sh", "-c", command, expect=0)
    started = words_in(pids, 3)
    daemons = [int(pid) for pid in started if is_alive(int(pid))]
    assert len(daemons) >= 2
    seen = events_of("a", "members_seen")
    members = {member["token"].split(".")[1] for event in seen for member in event["members"]}
    shown = holdfast("tree", "a", expect=0).stdout
    assert not members & {str(pid) for pid in daemons}
    assert not [pid for pid in daemons if f" {pid} " in shown]
    pids.unlink()
    holdfast("stop", "a", expect=0)
    info = ended("a")
    assert info.cleanup is not None
    assert (info.cleanup["signalled"], info.cleanup["complete"]) == (1, True)
    assert all(map(is_alive, daemons))
    words_in(pids, 3)  # the end is told as well
    end_notices(info.id)


def test_a_notice_is_told_from_a_member_in_the_middle_of_its_exec(holdfast, tmp_path):
    """There the kernel shows an empty environment for a moment: the stamp must not be missed."""
    holdfast("run", "-n", "a", "--notify", "true", "true", expect=0)
    ended("a")
    directory = run_of("a").directory
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n')
    script.chmod(0o755)
    env = {**os.environ, "HOLDFAST_NOTICE_OF": directory.id}
    with subprocess.Popen([str(script)], env=env) as notice:
        try:
            identity = ProcessIdentity.of(notice.pid)
            inner = InnerRuns(directory)
            assert all(inner.owns(identity) for _ in range(2000))
        finally:
            notice.kill()


def test_notices_that_pile_up_are_left_out_and_that_is_noted(holdfast):
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")
    directory = run_of("a").directory
    journal = SimpleNamespace(facts=read_facts(directory))
    shim: Any = SimpleNamespace(spec=directory.read_spec(), journal=journal, directory=directory)
    notifier = Notifier(shim, "exec sleep 600")
    for _ in range(MOST_AT_ONCE + 2):
        notifier.tell("anomaly")
    lines = log_of("a").splitlines()
    assert len([line for line in lines if line.endswith("Z anomaly")]) == MOST_AT_ONCE
    assert lines[-1].endswith("anomaly not told: 8 earlier notices have not ended")
    end_notices(directory.id)
    for _ in range(MOST_AT_ONCE):  # they are children of ours here
        os.wait()
    notifier.tell("anomaly")
    assert log_of("a").endswith("Z anomaly\n")
    end_notices(directory.id)
    os.wait()


def test_a_run_that_a_notifier_starts_is_a_run_of_its_own(holdfast):
    line = shlex.join(holdfast.argv("run", "-n", "next", "sleep", "600"))
    holdfast("run", "-n", "a", "--notify", line, "true", expect=0)
    wait_for("next", lambda info: info.state == "running", why="it runs")
    info = info_of("next")
    assert info.started_in is None
    environment = Path(f"/proc/{workload_pid('next')}/environ").read_bytes()
    assert b"HOLDFAST_NOTICE_OF" not in environment
    assert f"HOLDFAST_RUN_ID={info.id}".encode() in environment
    stop(holdfast, "next")


def test_the_notice_of_an_inner_run_is_not_of_the_outer_one(holdfast, tmp_path):
    pid_path = tmp_path / "pid"
    inner = holdfast.argv("run", "-n", "inner", "--notify", f"echo $$ >{pid_path}; exec sleep 600")
    script = f"{' '.join(map(_quoted, inner))} true; exec sleep 600"
    holdfast("run", "-n", "outer", "sh", "-c", script, expect=0)
    pid = int(words_in(pid_path)[0])
    ended("inner")
    holdfast("stop", "outer", expect=0)
    assert ended("outer").outcome == "stopped"
    assert is_alive(pid)
    end_notices(info_of("inner").id)


def test_in_a_container_the_end_is_told_before_its_first_process_leaves(holdfast, tmp_path):
    needs("root", "pid_namespace")
    told_to = tmp_path / "told"
    options = ["-n", "a", "--notify", f"sleep 0.5; cat >>{told_to}"]
    done = subprocess.run(
        ["unshare", "-pf", "--mount-proc", *holdfast.argv("run", "-F", *options, "echo", "said")],
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, b"said\n")
    assert [notice["event"] for notice in notices(told_to)] == ["ended"]


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
