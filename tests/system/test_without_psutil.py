"""Linux needs nothing but Python: what works where psutil is not installed, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import sleeper


@pytest.fixture
def without_psutil(tmp_path: Path) -> dict[str, str]:
    """An environment in which psutil can't be imported."""
    directory = tmp_path / "modules"
    directory.mkdir()
    (directory / "psutil.py").write_text("raise ImportError('not installed')\n")
    return {"PYTHONPATH": str(directory)}


def test_a_run_is_started_listed_and_stopped(holdfast, without_psutil):
    holdfast("run", "--name", "a", "-F", "true", expect=0, env=without_psutil)
    holdfast("run", "--name", "b", "sleep", "600", expect=0, env=without_psutil)
    listed = holdfast("ls", "--all", "--json", expect=0, env=without_psutil).json["runs"]
    assert {run["name"]: run["state"] for run in listed} == {"a": "ended", "b": "running"}
    holdfast("stop", "b", expect=0, env=without_psutil)


def test_a_creation_time_in_a_pid_file_is_compared(holdfast, without_psutil, tmp_path):
    path = tmp_path / "x.pid"
    with sleeper() as process:
        who = holdfast("who", process.pid, "--json", env=_portable({}), expect=0).json
        created = int(who["token"].split(".")[2]) / 1_000_000  # as psutil tells it
        for recorded, verdict in ((created, "SAME"), (created - 3600.37, "RECYCLED")):
            path.write_text(f"{process.pid} {recorded:.2f}\n")
            found = holdfast("check", path, "--json", env=without_psutil).json
            assert found["verdict"] == verdict


def test_the_portable_backend_says_what_to_install(holdfast, without_psutil):
    refused = holdfast("who", 1, env=_portable(without_psutil), expect=6)
    assert "psutil is not installed" in refused.stderr
    assert "pip install psutil" in refused.stderr
    assert "HOLDFAST_PROCESS_BACKEND" in refused.stderr
    assert "Traceback" not in refused.stderr


def _portable(env: dict[str, str]) -> dict[str, str]:
    return {**env, "HOLDFAST_PROCESS_BACKEND": "portable"}
