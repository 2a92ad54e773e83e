"""The control groups that /proc/<pid>/cgroup names: v1, v2, and both side by side."""

from __future__ import annotations

import pytest

from holdfast.process.cgroups import V2, ControlGroup, paths_of

UNIFIED = b"0::/user.slice/user-1000.slice/session-3.scope\n"
LEGACY = b"12:pids:/jobs\n7:cpu,cpuacct:/\n4:memory:/jobs/a:b\n1:name=systemd:/init.scope\n"


def test_each_controller_has_its_own_path():
    assert paths_of(UNIFIED) == {V2: "/user.slice/user-1000.slice/session-3.scope"}
    assert paths_of(LEGACY + b"0::/\n") == {
        "pids": "/jobs",
        "cpu": "/",
        "cpuacct": "/",
        "memory": "/jobs/a:b",
        "name=systemd": "/init.scope",
        V2: "/",
    }
    assert paths_of(b"") == {}


@pytest.mark.parametrize("text", [b"", b"0::/nowhere/at/all\n", b"4:memory:/nowhere/at/all\n"])
def test_a_group_that_no_mount_shows_has_no_figures(text):
    assert ControlGroup.of(text) is None
