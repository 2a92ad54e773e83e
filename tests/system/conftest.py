"""What several tests of this folder use."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.manage.runs import Runs
from tests.support.pretend_talker import install


@pytest.fixture
def talker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: Runs) -> str:
    """A program called claude that talks on a terminal; what is alive at the end is stopped."""
    assert runs.list(active=True) == []
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)
