"""The pytest fixture `holdfast_runs`: runs of a test, which are all over when it ends.

pytest loads this file in every project that has Holdfast installed: the library itself is loaded
by the first test that uses it.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.manage.runs import Runs

GRACE_SECONDS = 2.0  # a test should not wait long for what it forgot to stop


@pytest.fixture
def holdfast_runs(tmp_path: Path) -> Iterator[Runs]:
    """Runs with a state directory of their own; those still alive are stopped at teardown."""
    from holdfast.manage.runs import Runs

    runs = Runs(tmp_path / "holdfast")
    yield runs
    left = stop_all(runs)
    if left:
        pytest.fail(f"could not be stopped: {'; '.join(left)}", pytrace=False)


def stop_all(runs: Runs) -> list[str]:
    """Stop every run that is active, all at once; what could not be stopped, and why."""
    from holdfast.errors import HoldfastError, RunNotFound
    from holdfast.manage.stopping import stop_run, stops_at_once
    from holdfast.manage.together import run_together

    active = [runs.get(run_id) for run_id in runs.home.run_ids(active=True)]
    operations = [stop_run(run.directory, grace_seconds=GRACE_SECONDS) for run in active]
    left = []
    results = run_together(operations, stops_at_once())
    for run, result in zip(active, results, strict=True):
        if isinstance(result, RunNotFound):
            continue  # only its marker was left
        if isinstance(result, HoldfastError):
            left.append(f"{run.id}: {result}")
        elif result.cleanup is not None and result.cleanup.survivors:
            named = ", ".join(f"{one.identity.pid} {one.comm}" for one in result.cleanup.survivors)
            left.append(f"{run.id}: {named} survives")
    return left
