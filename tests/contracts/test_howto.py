"""The recipes of docs/howto.md work as they stand, with stand-ins for agents and services."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.manage.runs import Runs
from tests.support.features import needs
from tests.support.repositories import Repository

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto.md").read_text()
RECIPES = [
    (PAGE[: found.start()].count("\n") + 2, found[1])
    for found in re.finditer(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
# Programs that a machine may lack, or that would reach out of the test.
STAND_INS = {
    "claude": """\
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"fixed"}'""",
    "make": "echo made",
    "curl": 'cat >>"$HOME/told"',
    "notify-send": 'echo "$@" >>"$HOME/told"',
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A home of its own with the page's configuration, a repository to stand in, and stand-ins."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (programs / "holdfast").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    (programs / "holdfast").chmod(0o755)
    config = tmp_path / ".config" / "holdfast" / "config.toml"
    config.parent.mkdir(parents=True)
    toml = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert toml is not None
    config.write_text(toml[1])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Repository.with_commit(tmp_path / "repo").path


@pytest.mark.parametrize(("line", "recipe"), RECIPES, ids=[f"line {line}" for line, _ in RECIPES])
def test_a_recipe_works(holdfast, machine, line, recipe):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", recipe],
        capture_output=True,
        text=True,
        cwd=machine,
        timeout=60,
    )
    holdfast("stop", "--all", "--grace", "0")
    assert done.returncode == 0, f"docs/howto.md:{line}: {done.stdout}{done.stderr}"


def test_the_recipes_were_found_and_so_were_the_headings_that_are_linked():
    assert len(RECIPES) >= 15
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) == anchors


def _unit() -> str:
    found = re.search(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def booted(machine, tmp_path):
    """The files that the unit of the page names, below a home directory."""
    (tmp_path / ".local" / "bin").mkdir(parents=True)
    (tmp_path / ".local" / "bin" / "holdfast").symlink_to(tmp_path / "programs" / "holdfast")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "web").write_text("#!/bin/sh\necho serving\nexec sleep 600\n")
    (tmp_path / "bin" / "web").chmod(0o755)
    assert machine.is_dir()
    return tmp_path


def test_systemd_takes_the_unit_of_the_service_that_starts_at_boot(booted):
    needs("systemd-analyze")
    unit = booted / "web.service"
    # Of the service alone: the rest of a user's units is not the page's.
    unit.write_text(_unit().replace("%h", str(booted)))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "web.service" not in done.stderr
    unit.write_text(unit.read_text().replace("Type=oneshot", "Type=sometimes"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "sometimes" in done.stderr, "it would have said so"


def test_what_the_unit_starts_and_stops_is_the_service(booted):
    words = dict(re.findall(r"^(Exec\w+)=(.*)$", _unit().replace("%h", str(booted)), re.MULTILINE))
    # As systemd does: no shell, hardly any environment.
    environment = {"HOME": str(booted), "PATH": "/usr/bin:/bin"}

    def run(key: str) -> None:
        subprocess.run(words[key].split(), env=environment, timeout=60, check=True)

    run("ExecStart")
    runs = Runs(booted / ".local" / "state" / "holdfast")
    info = runs.get("web").info()
    assert (info.state, info.command) == ("running", [f"{booted}/bin/web"])
    run("ExecStop")
    assert runs.get("web").info().outcome == "stopped"
    run("ExecStart")
    run("ExecStop")
