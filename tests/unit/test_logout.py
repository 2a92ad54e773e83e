"""Whether a run outlives the login, read from a made-up /etc, /run and /var."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from holdfast.manage.starting.logout import survival, survival_in

SESSION = "/user.slice/user-1000.slice/session-3.scope"
MANAGER = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return tmp_path


def write(root: Path, path: str, *lines: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[Login]\n" + "\n".join(lines) + "\n")


def linger(root: Path) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    write(root, f"var/lib/systemd/linger/{user}")


def survives(root: Path, unit: str) -> bool | None:
    return survival_in(unit, str(root)).survives


def test_without_systemd_nothing_ends_runs_at_logout(tmp_path):
    assert survival(str(tmp_path)).survives is True


def test_a_session_is_killed_only_where_logind_is_told_to(root):
    assert survives(root, SESSION) is None
    for text, expected in (("no", True), ("yes", False), ("1", False), ("off", True)):
        write(root, "etc/systemd/logind.conf", f"KillUserProcesses={text}", "KillExcludeUsers=")
        assert survives(root, SESSION) is expected


def test_who_is_excluded_is_spared(root):
    user = pwd.getpwuid(os.getuid()).pw_name
    kill = "KillUserProcesses=yes"
    write(root, "etc/systemd/logind.conf", kill, f"KillExcludeUsers=other {user}")
    assert survives(root, SESSION) is True
    write(root, "etc/systemd/logind.conf", kill, "KillExcludeUsers=other")
    assert survives(root, SESSION) is False


def test_a_drop_in_has_the_last_word(root):
    exclude = "KillExcludeUsers="
    write(root, "etc/systemd/logind.conf", "KillUserProcesses=no", exclude)
    write(root, "usr/lib/systemd/logind.conf.d/50-kill.conf", "KillUserProcesses=yes")
    assert survives(root, SESSION) is False
    write(root, "etc/systemd/logind.conf.d/90-keep.conf", "KillUserProcesses=no")
    assert survives(root, SESSION) is True
    # The same name in a stronger place replaces the weaker file.
    write(root, "etc/systemd/logind.conf.d/50-kill.conf", "KillUserProcesses=no")
    write(root, "etc/systemd/logind.conf.d/90-keep.conf", "")
    assert survives(root, SESSION) is True


def test_a_session_that_is_killed_comes_with_a_way_out(root):
    write(root, "etc/systemd/logind.conf", "KillUserProcesses=yes", "KillExcludeUsers=")
    fate = survival_in(SESSION, str(root))
    assert "linger is off" in fate.why
    assert fate.fix is not None
    assert "loginctl enable-linger" in fate.fix
    assert "systemd-run --user --scope" in fate.fix
    linger(root)
    # Linger alone does not keep what is in the session's own scope.
    fate = survival_in(SESSION, str(root))
    assert fate.survives is False
    assert fate.fix is not None
    assert "enable-linger" not in fate.fix


def test_below_the_users_manager_linger_decides(root):
    fate = survival_in(MANAGER, str(root))
    assert fate.survives is False
    assert fate.fix == "loginctl enable-linger"
    linger(root)
    assert survives(root, MANAGER) is True


def test_a_service_says_what_ends_with_it(root):
    fate = survival_in("/system.slice/ci-runner.service", str(root))
    assert fate.survives is True
    assert "ci-runner.service" in fate.why
    assert survives(root, "/") is True
