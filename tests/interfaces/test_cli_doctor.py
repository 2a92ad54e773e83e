"""doctor: each feature as tried here, and what is said where one is missing."""

from __future__ import annotations

import errno
import getpass
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from holdfast.manage.doctor import checks, findings, kernel, machine
from holdfast.manage.starting import logout
from holdfast.process import cgroups, libc, pidfd, procfs, this_host
from tests.support.cli_scenes import command_line
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in

ALL = [
    "identity",
    "signal",
    "exit",
    "handle",
    "ticks",
    "children",
    "subreaper",
    "timer",
    "inotify",
    "namespace",
    "hidepid",
    "state",
    "abandoned",
    "vanished",
    "reserve",
    "logout",
    "cgroup",
]


def test_every_feature_is_tried_and_said(holdfast):
    said = holdfast("doctor")
    assert re.findall(r"^(?:ok|--|FAIL) +(\w+)", said.stdout, re.MULTILINE) == ALL
    assert max(map(len, said.stdout.splitlines())) <= 80
    assert said.stderr == ""
    document = holdfast("doctor", "--json").json
    assert [found["name"] for found in document["findings"]] == ALL
    assert {found["status"] for found in document["findings"]} <= {"ok", "missing", "fail"}
    failed = any(found["status"] == "fail" for found in document["findings"])
    assert (said.returncode, document["ok"]) == (int(failed), not failed)


def test_how_many_inotify_instances_are_left_is_said(holdfast):
    found = {one["name"]: one for one in holdfast("doctor", "--json").json["findings"]}
    assert re.search(r"\d+ of \d+ instances .*\d+ watches", found["inotify"]["says"])


def test_where_no_inotify_instance_is_left_that_is_said(holdfast):
    needs("pid_namespace")
    none = 'echo 0 >/proc/sys/user/max_inotify_instances; exec "$0" "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", none]
    command = [*words, *holdfast.argv("doctor", "--json")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["inotify"]["status"] == "missing"
    assert "of 0 instances" in found["inotify"]["says"]
    assert "max_user_instances" in found["inotify"]["fix"]


def test_a_limit_on_the_size_of_files_is_not_blamed_on_inotify(holdfast):
    words = ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"', *holdfast.argv("doctor", "--json")]
    read, write = os.pipe()
    with subprocess.Popen(words, stdout=write) as process, open(read, "rb") as said:
        os.close(write)
        found = {one["name"]: one for one in json.loads(said.read())["findings"]}
        assert process.wait(60) == 1
    assert found["state"]["status"] == "fail"
    assert "File too large" in found["state"]["says"]
    assert "ulimit -f" in found["state"]["fix"]
    assert "not tried" in found["inotify"]["says"]
    assert found["inotify"]["fix"] is None


def test_quiet_says_only_what_fails(holdfast, tmp_path):
    (tmp_path / "home").mkdir(mode=0o777)
    (tmp_path / "home").chmod(0o777)
    said = holdfast("doctor", "-q", env={"HOLDFAST_HOME": str(tmp_path / "home")}, expect=1)
    assert said.stdout.startswith("FAIL  state")
    assert "fix: chmod 700" in said.stdout


def test_the_state_directory_is_neither_made_nor_dirtied(holdfast, tmp_path):
    home = tmp_path / "not" / "yet"
    said = holdfast("doctor", env={"HOLDFAST_HOME": str(home)})
    assert re.search(r"ok state .* free \(not made yet\)", " ".join(said.stdout.split()))
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_that_cannot_be_used(holdfast, tmp_path):
    (tmp_path / "file").write_text("")
    said = holdfast("doctor", "--json", env={"HOLDFAST_HOME": str(tmp_path / "file")}, expect=1)
    state = next(found for found in said.json["findings"] if found["name"] == "state")
    assert state["status"] == "fail"
    assert state["fix"]


def test_the_portable_backend_says_that_it_proves_less(holdfast):
    document = holdfast("doctor", "--json", env={"HOLDFAST_PROCESS_BACKEND": "portable"}).json
    found = {f["name"]: f["status"] for f in document["findings"]}
    assert found["identity"] == found["signal"] == "missing"


def test_a_proc_of_another_namespace_fails_with_a_fix():
    needs("root", "pid_namespace")
    place = Place(pid_namespace=False)
    seen = run_in(place, doctor_without_its_own_proc)
    namespace = next(found for found in seen["said"]["findings"] if found["name"] == "namespace")
    assert (seen["code"], namespace["status"]) == (1, "fail")
    assert "mount" in namespace["fix"]


def doctor_without_its_own_proc() -> dict[str, object]:
    """A scene: PID 1 of a new PID namespace that still sees the old /proc."""
    import ctypes
    import json

    ctypes.CDLL(None).unshare(0x20000000)  # CLONE_NEWPID, for the next child
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps(command_line(["--json", "doctor"])).encode())
        os._exit(0)
    os.waitpid(child, 0)
    seen: dict[str, object] = json.loads(os.read(reader, 65536))
    return seen


def test_hidden_processes_are_said():
    needs("user_namespace", "root")
    seen = run_in(Place(hidepid=2, uid=65534), command_line, words=["--json", "doctor"])
    found = {f["name"]: f["status"] for f in seen["said"]["findings"]}
    assert found["identity"] == "ok"
    assert found["hidepid"] in ("ok", "missing")  # root of a user namespace sees its own


class TestLessCapableKernels:
    """What would be said where a call is not there; the calls are taken away, not faked."""

    def test_without_inodes(self, monkeypatch):
        monkeypatch.setattr(pidfd, "_has_inodes", False)
        found = kernel.identity(checks.child)
        assert found.status is findings.FindingStatus.MISSING
        assert "start ticks" in found.says
        assert found.fix
        assert kernel.handle(checks.child).status is findings.FindingStatus.MISSING
        assert kernel.gate(checks.child).status is findings.FindingStatus.OK

    def test_without_exit_information(self, monkeypatch):
        monkeypatch.setattr(pidfd, "_INFO_EXIT", 1 << 40)
        found = kernel.exit_status(checks.child)
        assert found.status is findings.FindingStatus.MISSING
        assert "lost" in found.says

    @pytest.mark.parametrize("probe", ["handle", "subreaper", "timer", "reserve"])
    def test_without_a_system_call(self, monkeypatch, probe):
        def absent(*_: object) -> None:
            raise OSError(errno.ENOSYS, "Function not implemented")

        for name in ("pidfd_by_inode", "set_child_subreaper", "boottime_timer", "reserve_room"):
            monkeypatch.setattr(libc, name, absent)
        found = checks.try_one(probe, dict(checks.probes())[probe])
        assert found.status is not findings.FindingStatus.OK
        assert "not implemented" in found.says

    def test_without_children_files(self, monkeypatch):
        monkeypatch.setattr(procfs, "has_children_files", lambda: False)
        assert kernel.children(checks.child).status is findings.FindingStatus.MISSING

    def test_without_a_known_time_namespace(self, monkeypatch):
        place = this_host.place().replace(ticks_offset=None)
        monkeypatch.setattr(this_host, "place", lambda: place)
        assert kernel.ticks(checks.child).status is findings.FindingStatus.MISSING

    def test_where_locks_lie(self, monkeypatch):
        from holdfast.run.locks import HeldLock

        monkeypatch.setattr(
            machine,
            "take_lock",
            lambda path: HeldLock(path, os.open(path, os.O_RDWR | os.O_CREAT)),
        )
        found = machine.state()
        assert found.status is findings.FindingStatus.FAIL
        assert "lock" in found.says


def test_limits_of_control_groups_are_shown(monkeypatch, tmp_path):
    for place in ("memory/a", "a"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "cgroup.procs").touch()
    (tmp_path / "memory" / "a" / "memory.limit_in_bytes").write_text(str(2 << 30))
    (tmp_path / "a" / "pids.max").write_text("300\n")
    (tmp_path / "a" / "memory.max").write_text("max\n")
    monkeypatch.setattr(cgroups, "_USUAL_MOUNT", str(tmp_path))
    monkeypatch.setattr(procfs, "read", lambda *_: b"4:memory:/a\n0::/a\n")
    found = machine.control_groups()
    assert found.says == "v1 and v2: at most 2G memory, at most 300 processes"
    monkeypatch.setattr(procfs, "read", lambda *_: b"0::/a\n")
    assert machine.control_groups().says == "v2: at most 300 processes"


SESSION = "/user.slice/user-1000.slice/session-3.scope"
MANAGER = "/user.slice/user-1000.slice/user@1000.service/app.slice/tmux.scope"


class TestLogout:
    """logind's rules, over a directory that looks like its own."""

    def machine(self, root: Path, config: str = "", linger: bool = False, **drop_ins: str) -> str:
        (root / "run/systemd/system").mkdir(parents=True)
        (root / "etc/systemd/logind.conf.d").mkdir(parents=True)
        (root / "etc/systemd/logind.conf").write_text(config)
        for name, text in drop_ins.items():
            (root / f"etc/systemd/logind.conf.d/{name}.conf").write_text(text)
        if linger:
            (root / "var/lib/systemd/linger").mkdir(parents=True)
            (root / f"var/lib/systemd/linger/{getpass.getuser()}").touch()
        return str(root)

    def test_without_systemd_nothing_ends(self, tmp_path):
        assert logout.survival(str(tmp_path)).survives is True

    def test_outside_of_a_session(self, tmp_path):
        root = self.machine(tmp_path)
        assert logout.survival_in("/", root).survives is True
        service = logout.survival_in("/system.slice/ci.service", root)
        assert service.survives is True
        assert "ci.service" in service.why

    @pytest.mark.parametrize("value", ["yes", "1", "true", "on"])
    def test_a_session_that_is_killed(self, tmp_path, value):
        root = self.machine(tmp_path, f"[Login]\nKillUserProcesses={value}\nKillExcludeUsers=\n")
        fate = logout.survival_in(SESSION, root)
        assert fate.survives is False
        assert fate.fix
        assert "enable-linger" in fate.fix
        assert "systemd-run --user --scope" in fate.fix

    def test_a_session_that_is_left_alone(self, tmp_path):
        for number, text in enumerate(("KillUserProcesses=no", "#KillUserProcesses=no")):
            root = self.machine(tmp_path / str(number), f"[Login]\n{text}\n")
            assert logout.survival_in(SESSION, root).survives is True

    def test_the_shipped_default_is_read_from_its_comment(self, tmp_path):
        root = self.machine(tmp_path, "[Login]\n#KillUserProcesses=yes\n#KillExcludeUsers=x\n")
        assert logout.survival_in(SESSION, root).survives is False

    def test_drop_ins_win_in_the_order_of_their_names(self, tmp_path):
        root = self.machine(
            tmp_path,
            "KillUserProcesses=no\nKillExcludeUsers=\n",
            a="KillUserProcesses=no\n",
            b="KillUserProcesses=yes\n# KillUserProcesses=no\n",
        )
        assert logout.survival_in(SESSION, root).survives is False

    def test_root_is_spared_by_default(self, tmp_path):
        needs("root")
        root = self.machine(tmp_path, "KillUserProcesses=yes\n")
        assert logout.survival_in(SESSION, root).survives is True

    def test_nothing_says_it(self, tmp_path):
        assert logout.survival_in(SESSION, self.machine(tmp_path)).survives is None

    def test_the_users_manager_stays_only_with_linger(self, tmp_path):
        without = logout.survival_in(MANAGER, self.machine(tmp_path / "a"))
        assert (without.survives, without.fix) == (False, "loginctl enable-linger")
        with_it = logout.survival_in(MANAGER, self.machine(tmp_path / "b", linger=True))
        assert with_it.survives is True
