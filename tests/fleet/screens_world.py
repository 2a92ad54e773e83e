"""A node behind a real sshd, and a submitter as this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.fleet.live import watching
from holdfast.manage.runs import Runs
from tests.fleet.fleet_world import World
from tests.support.features import needs


@pytest.fixture
def world(shared: Path, monkeypatch):
    """A node behind a real sshd, used by this process."""
    needs("sshd", "ssh")
    made = World(shared, os.geteuid())
    submitter = made.submitter()
    made.node("n1")
    made.configure()
    for name, value in submitter.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(watching, "NODE_SECONDS", 0.5)
    yield made
    made.close()


@pytest.fixture
def runs(world) -> Iterator[Runs]:
    """Of the submitter's home."""
    made = Runs(world.submitters[0].home)
    yield made
    for info in made.list(active=True):
        made.get(info.id).stop(grace=0)
