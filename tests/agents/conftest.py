"""One sealed lab per test; a machine without the agents says what it lacks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.agents.lab import Lab, missing
from tests.agents.supervised import Supervised
from tests.support.leftovers import TAG_VARIABLE


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    lacks = missing()
    if lacks:
        pytest.skip("; ".join(lacks))
    with Lab(tag={TAG_VARIABLE: os.environ[TAG_VARIABLE]}) as place:
        monkeypatch.chdir(place.work_dir)
        yield place


@pytest.fixture
def held(lab: Lab) -> Supervised:
    """Holdfast's command line in a lab of its own."""
    return Supervised(lab)
