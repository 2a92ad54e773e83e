"""Every test has a Holdfast home and a tag of its own, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from holdfast import errors
from holdfast.manage.runs import Runs
from holdfast.pytest_plugin import stop_all
from tests.support.cli import CommandLine
from tests.support.leftovers import TAG_VARIABLE, TestProcesses

# Loaded cores make any deadline per example a lie. Every run tries the same examples, so that a
# failure is about the change; the search for new ones is `HYPOTHESIS_PROFILE=deep`.
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    print_blob=True,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # which measures the machine, too
)
settings.register_profile("deep", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell that starts the suite in the background has it ignore ctrl-c, and `nohup` hang-ups; so
# would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """The seed of the order, also where -q has hidden the header that names it."""
    seed = config.getoption("randomly_seed", None)  # -p no:randomly has none
    if exitstatus and seed is not None and config.getoption("verbose") < 0:
        terminalreporter.write_line(f"--randomly-seed={seed}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with a time limit of their own take long, and come first: none runs last, alone."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


ENDING_SECONDS = 20  # for processes that are about to end by themselves when their test returns


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Autouse fixtures are torn down last: whatever the test's other fixtures end is gone by then.
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(errors, "_names_options", False)  # a test may have been a command line
    processes = TestProcesses(tag=uuid.uuid4().hex)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    monkeypatch.setenv(TAG_VARIABLE, processes.tag)
    yield
    left = processes.left_after(ENDING_SECONDS)
    processes.end()
    if left:
        pytest.fail(f"the test left processes behind: {left}", pytrace=False)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that other users can reach; those of pytest are closed to them.

    To open those would not do: every worker and every other pytest of the machine has them in use.
    """
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="holdfast-test-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def holdfast() -> CommandLine:
    """The command line: `holdfast("check", token).returncode`."""
    return CommandLine()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes config.toml where Holdfast looks for it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def write(text: str) -> Path:
        path = tmp_path / "config" / "holdfast" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """The library, in the test's home; what is still alive at the end is stopped."""
    library = Runs(tmp_path)
    yield library
    assert stop_all(library) == []
