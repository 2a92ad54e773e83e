"""What this machine can do, each as tried. A test says what it needs; nothing is passed over.

A missing feature skips the test on a developer's machine and fails it in CI, where the machine is
the project's own. Programs that CI may lack are in OPTIONAL.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable

import pytest

from tests.support.cgroups import mount_point

OPTIONAL = frozenset({"npm", "chromium", "uv"})


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


def _has_program(*names: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        return None if any(map(shutil.which, names)) else f"no {' or '.join(names)} in PATH"

    return probe


PROBES: dict[str, Callable[[], str | None]] = {
    "root": _root,
    "pid_namespace": _runs("unshare", "--pid", "--fork", "--mount-proc", "true"),
    "user_namespace": _runs("unshare", "--user", "--map-root-user", "true"),
    "time_namespace": _runs("unshare", "--time", "--boottime", "100", "true"),
    "pids_cgroup": _has_cgroup("pids"),
    "memory_cgroup": _has_cgroup("memory"),
    "freezer_cgroup": _has_cgroup("freezer"),
    "fuse": lambda: None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse",
    "cc": _has_program("cc"),
    "npm": _has_program("npm"),
    "tmux": _has_program("tmux"),
    "chromium": _has_program("chromium", "chromium-browser", "google-chrome"),
    "uv": _has_program("uv"),
}
