"""Starting: what fails at once, who wins a name or a key, and where no run may be started."""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.run.facts import State
from tests.support import run_scenes
from tests.support.cgroups import freezer_cgroup
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place, run_in
from tests.support.running import (
    ended,
    events_of,
    info_of,
    is_alive,
    run_of,
    start_all,
    stop,
    wait_for,
    workload_pid,
)
from tests.support.waiting import eventually

STARTERS = 64
OWN_MOUNTS = Place(pid_namespace=False, covers={"/etc/hostname": "x\n"})


# L1


def _script(tmp_path: Path, text: str, mode: int = 0o755) -> Path:
    path = tmp_path / "script"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.usefixtures("runs")
def test_L1_no_signal_is_ignored_or_blocked_whatever_the_launcher_was_started_with():
    internal = 0b11 << 31  # 32 and 33 are the C library's own
    quiet = "import os, signal, sys\n"
    quiet += "for n in signal.valid_signals() - {9, 19, 32, 33}: signal.signal(n, signal.SIG_IGN)\n"
    quiet += "signal.pthread_sigmask(signal.SIG_BLOCK, [10, 15])\n"
    quiet += "os.execv(sys.executable, [sys.executable, '-m', 'holdfast', *sys.argv[1:]])"
    words = ["run", "-n", "a", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    subprocess.run([sys.executable, "-c", quiet, *words], check=True, timeout=60)
    ended("a")
    said = Path(run_of("a").directory.output_path).read_text().splitlines()
    masks = {line.partition(":")[0]: int(line.split()[1], 16) & ~internal for line in said}
    assert masks == {"SigBlk": 0, "SigIgn": 0}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--no-such-option"], 2),
        (["--batch", os.devnull], 0),
        (["--on", "nowhere", "true"], 2),
    ],
)
def test_L1_what_starts_nothing_is_answered_where_ended_children_are_ignored(words, code):
    """SIGCHLD ignored, by a program that calls the command line: there is nothing to reap."""
    deaf = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    deaf += "from holdfast.cli import main; sys.exit(main(['run', *sys.argv[1:]]))"
    done = subprocess.run(
        [sys.executable, "-c", deaf, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr


def test_L1_a_start_that_is_refused_leaves_no_process_with_what_it_was_started_with():
    """Such as a lock of the caller's. The process is the shim that was forked ahead."""
    slowly = "import sys, time\nfrom holdfast.shim import main\n"
    slowly += "main.load_ahead = lambda job_fd: time.sleep(0.5)\n"
    slowly += "from holdfast.cli import main\nsys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", slowly, "run", "--no-such-option"]
    read, write = os.pipe()
    with open(read, "rb"):
        done = subprocess.run(words, check=False, stderr=subprocess.DEVNULL, pass_fds=[write])
        os.close(write)
        assert done.returncode == 2
        assert select.select([read], [], [], 0)[0]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["no-such-program-anywhere"], 127, "not found in PATH"),
        (["/nonexistent/program"], 127, "no such file"),
        (["/etc/passwd"], 126, "ermission denied"),
        (["/etc"], 126, "is a directory"),
        (["-C", "/nonexistent", "true"], 125, "working directory '/nonexistent'"),
        (["-C", "/etc/passwd", "true"], 125, "can't be entered"),
        ([""], 127, "empty"),
    ],
)
def test_L1_what_cannot_start_says_why_with_the_right_code(holdfast, words, code, why):
    done = holdfast("run", "-n", "a", *words, expect=code)
    assert done.stdout == "a\n"
    assert why in done.stderr
    info = info_of("a")
    assert (info.state, info.outcome, info.exit_code) == (State.ENDED, "never_started", code)
    assert why in info.evidence
    assert info.workload is None
    assert "running" not in [event["kind"] for event in events_of("a")]
    assert holdfast("wait", "a").returncode == code
    # The name is free again.
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")


def test_L1_scripts_that_the_kernel_refuses(holdfast, tmp_path):
    for text, why in (("echo no first line\n", "#!"), ("#!/nonexistent/sh\n", "interpreter")):
        script = _script(tmp_path, text)
        done = holdfast("run", "-n", "a", script, expect=126)
        assert why in done.stderr


def test_L1_too_many_arguments_for_the_kernel(holdfast, tmp_path):
    file = tmp_path / "vars"
    file.write_text("BIG=" + "x" * 200_000)
    done = holdfast("run", "-n", "a", "--env-file", file, "true", expect=126)
    assert "too large" in done.stderr
    assert info_of("a").outcome == "never_started"


@pytest.mark.parametrize(("script", "outcome"), [("exit 0", "succeeded"), ("exit 3", "failed")])
def test_L1_a_command_that_exits_at_once_is_never_running_again(holdfast, script, outcome):
    holdfast("run", "-n", "a", "sh", "-c", script, expect=0)
    first = info_of("a")
    # At first look it runs, or has ended rightly; whatever is seen after an end stays.
    assert first.outcome in (None, outcome)
    info = ended("a")
    assert (info.outcome, info.exit_code) == (outcome, int(script[-1]))
    kinds = [event["kind"] for event in events_of("a")]
    assert kinds[-1] == "ended"
    assert kinds.index("running") < kinds.index("root_exited")
    for _ in range(20):
        assert info_of("a").state is State.ENDED


def test_L1_a_shim_that_dies_at_once_is_a_start_that_failed(holdfast):
    done = holdfast("run", "-n", "a", "true", env={"HOLDFAST_CRASH_AT": "shim.supervised"})
    assert done.returncode == 125
    assert "before the command was started" in done.stderr
    info = info_of("a")
    assert (info.state, info.outcome) == (State.ENDED, "never_started")
    holdfast("run", "-n", "a", "true", expect=0)
    ended("a")


# L2


def test_L2_of_64_starts_of_one_name_one_wins_and_the_others_name_it(holdfast, tmp_path):
    words = ["run", "-n", "one", "sh", "-c", f"echo $$ >>{tmp_path}/started; exec sleep 600"]
    done = start_all(holdfast, [words] * STARTERS)
    winners = [process for process in done if process.returncode == 0]
    losers = [process for process in done if process.returncode != 0]
    assert len(winners) == 1
    assert {process.returncode for process in losers} == {4}
    info = info_of("one")
    for process in losers:
        said = process.complained  # type: ignore[attr-defined]
        assert info.id in said
        assert f" {workload_pid('one')}, " in said or "no workload yet" in said
    assert len(os.listdir(tmp_path / "runs")) == 1
    started = tmp_path / "started"
    eventually(lambda: started.exists() and started.read_text(), why="the winner has started")
    assert started.read_text().split() == [str(workload_pid("one"))]
    stop(holdfast, "one")


def test_L2_names_differ_by_more_than_case(holdfast):
    holdfast("run", "-n", "Build", "sleep", "60", expect=0)
    assert holdfast("run", "-n", "build", "true").returncode == 4
    stop(holdfast, "BUILD")


def test_many_short_runs_at_once_all_end_well(holdfast, tmp_path):
    for first in range(0, 60, 8):
        batch = [["run", "-n", f"n{number}", "true"] for number in range(first, min(first + 8, 60))]
        done = start_all(holdfast, batch)
        assert [process.returncode for process in done] == [0] * len(batch)
    infos = [ended(f"n{number}") for number in range(60)]
    assert {info.outcome for info in infos} == {"succeeded"}
    eventually(lambda: os.listdir(tmp_path / "active") == [], why="nobody is marked active")


# L6


def test_L6_replace_stops_the_live_run_first_and_names_it(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    first, pid = info_of("a").id, workload_pid("a")
    done = holdfast("run", "-n", "a", "--replace", "sleep", "601", expect=0)
    assert done.stdout == "a\n"
    assert first in done.stderr
    assert str(pid) in done.stderr
    assert "stopped" in done.stderr
    assert not is_alive(pid)
    replaced = run_of(first).info()
    assert (replaced.outcome, replaced.signal) == ("stopped", signal.SIGTERM)
    assert info_of("a").command == ["sleep", "601"]
    stop(holdfast, "a")
    # Over an ended one it just starts.
    assert holdfast("run", "-n", "a", "--replace", "true", expect=0).stderr == ""
    ended("a")


def test_L6_replace_is_refused_when_the_old_run_cannot_be_proven_stopped(holdfast, tmp_path):
    needs("root", "freezer_cgroup")
    with freezer_cgroup() as group:
        script = f"echo $$ >{group.path}/cgroup.procs; exec sleep 600"
        holdfast("run", "-n", "a", "--grace", "0", "sh", "-c", script, expect=0)
        eventually(lambda: workload_pid("a") in group.pids())
        pid = workload_pid("a")
        group.freeze()
        done = holdfast("run", "-n", "a", "--replace", "--grace", "0", "sleep", "601", expect=4)
        assert "can't be proven stopped" in done.stderr
        assert is_alive(pid)
        assert len(os.listdir(tmp_path / "runs")) == 1
    # Thawed, the SIGKILL takes effect, and the run ends by it.
    assert ended("a").outcome == "stopped"


def test_L6_replace_over_an_orphan(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    info, pid = info_of("a"), workload_pid("a")
    assert info.shim is not None
    os.kill(info.shim["pid"], signal.SIGKILL)
    wait_for("a", lambda info: info.state is State.ORPHANED)
    assert holdfast("run", "-n", "a", "sleep", "601").returncode == 4
    done = holdfast("run", "-n", "a", "--replace", "sleep", "601", expect=0)
    assert str(pid) in done.stderr
    assert not is_alive(pid)
    stop(holdfast, "a")


# L7


def test_L7_a_run_inherits_no_session_of_an_agent_and_its_own_stamp(holdfast):
    from holdfast.agents.recognition_table import SESSION_VARIABLES

    assert SESSION_VARIABLES
    outside = dict.fromkeys(SESSION_VARIABLES, "of another session")
    outside["HOLDFAST_RUN_ID"] = "0" * 20
    words = [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"]
    holdfast("run", "-n", "a", *words, env=outside, expect=0)
    info = ended("a")
    found = json.loads(run_of("a").output())
    assert SESSION_VARIABLES.isdisjoint(found)
    assert found["HOLDFAST_RUN_ID"] == info.id
    assert found["PATH"] == os.environ["PATH"]


# L12


def test_L12_the_same_key_is_one_run_also_at_once_and_after_the_end(holdfast, tmp_path):
    words = ["run", "--key", "job 1/2", "sh", "-c", f"echo x >>{tmp_path}/started; sleep 0.5"]
    done = start_all(holdfast, [words] * 8)
    assert {process.returncode for process in done} == {0}
    (name,) = {process.said for process in done}  # type: ignore[attr-defined]
    first = ended(name.strip())
    other_words = ["run", "--key", "job 1/2", "sh", "-c", "echo y"]
    again = holdfast("--json", *other_words, expect=0)
    assert (again.json["id"], again.json["outcome"]) == (first.id, "succeeded")
    said = f"key job 1/2: {first.name} ({first.id}) was started before, and is the one given"
    assert f"{said}; its command is another" in again.stderr
    assert f"{said}\n" in holdfast(*words, expect=0).stderr
    assert said in holdfast("run", "-F", *words[1:], expect=0).stderr
    assert holdfast("-q", *other_words, expect=0).stderr == ""
    assert (tmp_path / "started").read_text() == "x\n"
    other = holdfast("--json", "run", "--key", "job 2/2", "true", expect=0).json
    unset = holdfast("run", "--key", "", "true", expect=2)
    assert "it is empty" in unset.stderr
    assert "it is empty" in holdfast("run", "--key", "", "--batch", "-", expect=2).stderr
    assert other["id"] != first.id
    ended(other["name"])


# L13


def _refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    assert done.returncode == 6, done
    assert why in done.stderr
    assert "hint: " in done.stderr


def test_L13_a_home_of_another_user_is_refused(holdfast, tmp_path):
    needs("root")
    home = tmp_path / "theirs"
    home.mkdir()
    os.chown(home, OTHER_UID, OTHER_UID)
    done = holdfast("run", "true", env={"HOLDFAST_HOME": str(home)})
    _refused(done, f"belongs to another user (uid {OTHER_UID})")
    assert list(home.iterdir()) == []


def test_L13_a_home_that_everybody_can_write_to_is_refused(holdfast, tmp_path):
    home = tmp_path / "open"
    home.mkdir()
    home.chmod(0o777)
    _refused(holdfast("run", "true", env={"HOLDFAST_HOME": str(home)}), "by everybody")


@pytest.mark.parametrize("place", ["/proc/holdfast", "/dev/null/holdfast", "/dev/null"])
def test_L13_a_home_that_cannot_be_made_is_refused(holdfast, place):
    _refused(holdfast("run", "true", env={"HOLDFAST_HOME": place}), place)


def test_L13_an_unwritable_home_is_refused(shared):
    needs("root")
    home = shared / "read-only"
    home.mkdir()
    os.chown(home, OTHER_UID, OTHER_UID)
    home.chmod(0o500)
    # As an ordinary user: root may write anywhere.
    place = Place(pid_namespace=False, uid=OTHER_UID)
    code, said = run_in(place, run_scenes.start_a_run, home=str(home))
    assert code == 6, said
    assert f"the state directory {home} can't be" in said
    assert "hint: " in said


@pytest.mark.parametrize("kind", ["fuse", "fuse.sshfs"])
def test_L13_a_file_system_whose_locks_may_lie_is_refused(tmp_path, kind):
    needs("root", "fuse")
    refused, allowed = run_in(OWN_MOUNTS, run_scenes.starts_on_fuse, path=str(tmp_path), kind=kind)
    assert refused[0] == 6
    assert f"is on {kind}, where two processes may hold the same lock" in refused[1]
    assert "HOLDFAST_ALLOW_REMOTE=1" in refused[1]
    # This one can't store anything, which is another matter.
    assert allowed[0] == 6
    assert "the same lock" not in allowed[1]


def test_L13_a_tmpfs_is_fine(tmp_path):
    needs("root")
    assert run_in(OWN_MOUNTS, run_scenes.runs_on_tmpfs, path=str(tmp_path)) == [[0, ""], [0, ""]]


def test_L13_run_as_pid_1_is_refused_without_foreground(holdfast, tmp_path):
    needs("root", "pid_namespace")
    done = subprocess.run(
        ["unshare", "-pf", "--mount-proc", *holdfast.argv("run", "true")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 4
    assert "hint: use run -F" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_run_that_ends_at_logout_is_warned_of(tmp_path):
    needs("root")
    systemd = Path("/sys/fs/cgroup/systemd")
    if not os.access(systemd / "cgroup.procs", os.W_OK):
        pytest.skip("systemd's own control groups are not mounted as v1 here")
    group = systemd / f"holdfast-test-{os.getpid()}"
    group.mkdir()
    try:
        started, _, quiet, _ = run_in(
            OWN_MOUNTS, run_scenes.start_in_a_login_session, home=str(tmp_path), group=str(group)
        )
    finally:
        for path in (group / "user.slice/session-3.scope", group / "user.slice", group):
            eventually(functools.partial(_removed, path), why=f"{path} is empty")
    assert started[0] == 0
    assert "warning: this run ends at logout: logind kills" in started[1]
    assert "hint: loginctl enable-linger" in started[1]
    assert quiet == [0, ""]


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # whoever was in it is ending
        return False
    return True
