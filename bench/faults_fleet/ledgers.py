"""The ledger in PostgreSQL, for those submitters that use one."""

from __future__ import annotations

from pathlib import Path

from tests.fleet.fleet_world import Submitter
from tests.fleet.postgres_cluster import Database

HOME, POSTGRES = "home", "PostgreSQL"


def make_database(folder: Path) -> Database:
    """One that runs."""
    made = Database(folder / "pg")
    made.start()
    return made


def use_ledger(submitter: Submitter, database: Database | None) -> None:
    """Add it to the submitter's config."""
    if database is not None:
        text = submitter.config.read_text()
        submitter.config.write_text(f'[fleet]\nledger = "{database.url}"\n{text}')
