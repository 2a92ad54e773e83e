"""D6, L10: a copy of a live run is not believed: nobody is signalled, fed or doubled on its word."""

from __future__ import annotations

import os
import shutil

import pytest

from holdfast.errors import IdentityUnproven
from holdfast.manage.runs import Runs
from holdfast.run.facts import State
from holdfast.run.names import new_id
from tests.support.recovering import known
from tests.support.running import run_of, stop, wait_for_output


@pytest.fixture
def copied_home(tmp_path):
    """Copies the test's home; its path."""
    copy = tmp_path.parent / f"{tmp_path.name}-copy"

    def make():
        shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("control", "stdin"))
        return str(copy)

    yield make
    shutil.rmtree(copy, ignore_errors=True)


def test_D6_signal_and_send_refuse_a_copied_home(holdfast, tmp_path, copied_home):
    holdfast("run", "-n", "a", "--stdin", "pipe", "sleep", "600", expect=0)
    elsewhere = {"HOLDFAST_HOME": copied_home()}
    for words in (("signal", "TERM", "a"), ("send", "a", "text"), ("stop", "a")):
        refused = holdfast(*words, env=elsewhere, expect=4)
        assert f"copy of the run in {tmp_path}" in refused.stdout + refused.stderr
        assert f"HOLDFAST_HOME={tmp_path} holdfast status" in refused.stderr
        assert "other-namespaces-gone" not in refused.stderr
    with pytest.raises(IdentityUnproven):
        Runs(elsewhere["HOLDFAST_HOME"]).get("a").send(b"text\n")
    for home in (Runs(), Runs(elsewhere["HOLDFAST_HOME"])):
        assert home.get("a").directory.read_signals() == []
    assert known("a").state is State.RUNNING
    assert known("a").workload["verdict"] == "SAME"
    stop(holdfast, "a")


def test_D6_a_copy_of_hard_links_inside_the_home_is_not_fed(holdfast):
    """Lock and socket are those of the live run: only the spec tells that it is a copy."""
    holdfast("run", "-n", "a", "--stdin", "pipe", "cat", expect=0)
    directory = run_of("a").directory
    holdfast("send", "a", "first", expect=0)
    wait_for_output("a", b"first\n")
    copy = directory.sibling(new_id())
    os.mkdir(copy.path)
    for name in ("spec.json", "lock", "control", "events.jsonl"):
        os.link(f"{directory.path}/{name}", f"{copy.path}/{name}")
    holdfast("send", copy.id, "second", expect=4)
    holdfast("signal", "TERM", copy.id, expect=4)
    holdfast("send", "a", "third", expect=0)
    assert wait_for_output("a", b"third\n") == b"first\nthird\n"
    stop(holdfast, "a")
