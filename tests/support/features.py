"""What this machine can do, each as tried. A test says what it needs; nothing is passed over.

A missing feature skips the test on a developer's machine and fails it in CI, where `.ci/run` has
installed every package of packages.txt.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cgroups import mount_point

TESTS = Path(__file__).parents[1]
OPTIONAL = frozenset(
    {
        "history",  # a shallow clone is no fault of the machine
        "cgroup_v1",  # Slurm's set-up in the tests is made for it
    }
)


def needs(*features: str) -> None:
    """Goes on when this machine has all of them; otherwise skips, or fails in CI."""
    for feature in features:
        why = missing(feature)
        if why is None:
            continue
        if feature not in OPTIONAL and os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"CI must have {feature}: {why}", pytrace=False)
        pytest.skip(f"needs {feature}: {why}")


@functools.cache
def missing(feature: str) -> str | None:
    """Why the feature is not there, or None when it is."""
    return PROBES[feature]()


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"the user id is {os.geteuid()}"


def _runs(*command: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        try:
            tried = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return None if tried.returncode == 0 else f"{' '.join(command)}: {tried.stderr.strip()}"

    return probe


def _has_cgroup(controller: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        point = mount_point(controller)
        if point is None:
            return f"no writable {controller} control group"
        try:
            os.rmdir(tempfile.mkdtemp(prefix="holdfast-probe-", dir=point))
        except OSError as error:
            return str(error)
        return None

    return probe


def _has_cgroup_v1() -> str | None:
    path = "/sys/fs/cgroup/freezer"
    if os.path.ismount(path) and os.access(path, os.W_OK):
        return None
    return f"{path} is no writable cgroup v1 hierarchy"


def _has_program(name: str, package: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        return None if shutil.which(name) else f"no {name} in PATH: apt-get install {package}"

    return probe


def packages() -> dict[str, str]:
    """Each program of packages.txt, and its package."""
    lines = (TESTS / "packages.txt").read_text().splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


PROBES: dict[str, Callable[[], str | None]] = {
    "root": _root,
    "pid_namespace": _runs("unshare", "--pid", "--fork", "--mount-proc", "true"),
    "user_namespace": _runs("unshare", "--user", "--map-root-user", "true"),
    "time_namespace": _runs("unshare", "--time", "--boottime", "100", "true"),
    "pids_cgroup": _has_cgroup("pids"),
    "memory_cgroup": _has_cgroup("memory"),
    "freezer_cgroup": _has_cgroup("freezer"),
    "cgroup_v1": _has_cgroup_v1,
    "fuse": lambda: None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse",
    "history": _runs("git", "-C", str(TESTS), "cat-file", "-e", "7dc4132^{commit}"),
    **{program: _has_program(program, package) for program, package in packages().items()},
}
