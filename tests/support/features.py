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


@functools.cache
def cgroup_parent(controller: str) -> str | None:
    """A directory in which a test can make a cgroup with that controller: v1, else v2."""
    v2 = [
        root
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
        # cgroup.freeze is in every v2 cgroup; the others must be enabled for children.
        if controller == "freezer" or controller in _words(f"{root}/cgroup.subtree_control")
    ]
    return next(filter(_can_make_cgroup, [f"/sys/fs/cgroup/{controller}", *v2]), None)


def _can_make_cgroup(parent: str) -> bool:
    if not os.path.exists(f"{parent}/cgroup.procs"):
        return False
    try:
        os.rmdir(tempfile.mkdtemp(prefix="holdfast-probe-", dir=parent))
    except OSError:
        return False
    return True


def _words(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []


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
        return None if cgroup_parent(controller) else f"no writable {controller} cgroup"

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
    "npm": _has_program("npm"),
    "tmux": _has_program("tmux"),
    "chromium": _has_program("chromium", "chromium-browser", "google-chrome"),
    "uv": _has_program("uv"),
}
