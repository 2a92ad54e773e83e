"""Submitters and nodes, played by root and by an ordinary user."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.fleet.postgres import _TABLES, PostgresLedger
from tests.fleet.fleet_world import Submitter, World
from tests.fleet.postgres_cluster import Database
from tests.support.features import needs
from tests.support.places import USERS, uid_of


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> str:
    """Who submits, and whose runs they are."""
    who: str = request.param
    if who == "ordinary user" and os.geteuid() != 0:
        return who  # we are one
    return who


@pytest.fixture
def world(shared: Path, user: str) -> Iterator[World]:
    """Nodes behind real sshd's, and those who use them."""
    needs("sshd", "ssh")
    uid = uid_of(user)
    made = World(shared, os.geteuid() if uid is None else uid)
    yield made
    made.close()


@pytest.fixture
def submitter(world: World) -> Submitter:
    """A submitter that knows one node, n1."""
    made = world.submitter()
    world.node("n1")
    world.configure()
    return made


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A PostgreSQL that answers."""
    needs("psql")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="holdfast-pg-") as folder:
        Path(folder).chmod(0o755)
        made = Database(Path(folder) / "pg")
        made.start()
        yield made
        made.stop()


@pytest.fixture
def ledger(database: Database) -> Iterator[PostgresLedger]:
    """A ledger in it, of which nothing is left."""
    made = PostgresLedger(database.url)
    yield made
    made._do(f"drop table if exists {', '.join(_TABLES)} cascade")
    made.close()
