"""The recipes of docs/howto.md work as they stand, with stand-ins for agents and services."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
