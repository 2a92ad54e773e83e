"""Too few descriptors for a start: said, and nothing is left. For a tree: members come first."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from holdfast.run.claims import claim_name, read_name
from holdfast.run.home import Home
from holdfast.run.names import new_id
from tests.support.running import ended


@pytest.mark.parametrize("most", range(5, 16))
def test_a_start_without_descriptors_says_so_and_leaves_no_empty_name(holdfast, tmp_path, most):
    done = subprocess.run(
        holdfast.argv("run", "-n", "a", "--key", "k", "true"),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    )
    assert done.returncode in (0, 6, 125)
    assert "Traceback" not in done.stderr
    if done.returncode:
        assert "Too many open files" in done.stderr
    claims = [tmp_path / "names", tmp_path / "keys"]
    left = [os.listdir(place) for place in claims if place.exists()]
    if done.returncode == 6:
        assert not any(left)
        assert holdfast("wait", "a", expect=3).stderr.count("did you mean") == 0
    else:
        assert all(left)
        assert ended("a").outcome in ("succeeded", "never_started")


@pytest.mark.parametrize("most", range(5, 10))
def test_a_foreground_start_without_descriptors_has_the_code_of_one(holdfast, most):
    """Also where not even the shim could be forked ahead: 6 would be the command's own."""
    done = subprocess.run(
        holdfast.argv("run", "-F", "true"),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
    )
    assert done.returncode == 125
    assert "Too many open files" in done.stderr


def test_a_claim_that_nothing_was_made_of_is_forgotten(tmp_path):
    home = Home(str(tmp_path))
    home.prepare()
    claim_name(home, "a").release()
    assert os.listdir(home.names_path) == []
    run_id = new_id()
    with claim_name(home, "a") as claim:
        claim.write(run_id)
    claim_name(home, "a").release()
    assert read_name(home, "a") == run_id


TREE = """\
import os, resource, subprocess
from holdfast.process.identity import ProcessIdentity
from holdfast.process.tree import Tree

def open_files():
    return len(os.listdir("/proc/self/fd")) - 1

before = open_files()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
children = []
try:
    with Tree(reaper=ProcessIdentity.current()) as tree:
        for more in (5, 45, 0):
            children += [subprocess.Popen(["sleep", "600"]) for _ in range(more)]
            members = tree.walk()
            assert tree.saw_all, "a member could not be held"
            assert {m.identity.pid for m in members} == {c.pid for c in children}
            for member in members:
                assert member.comm == "sleep"
                member.keep_for_samples()
            assert open_files() - before == {5: 31, 50: 51}[len(members)]
    assert open_files() == before
finally:
    for child in children:
        child.kill()
        child.wait()
"""


def test_a_tree_gives_its_files_up_for_pidfds():
    done = subprocess.run(
        [sys.executable, "-c", TREE], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
