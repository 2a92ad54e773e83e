"""`--log-max`: what is kept, what is shown of it, and what is left of it in a copy."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile

import pytest

from holdfast.run.home import Home
from tests.support.running import ended, events_of, run_of

FLOOD = """\
import os
data = b"".join(b"%07d\\n" % number for number in range(1 << 17))
for _ in range(20):
    os.write(1, data)
os.write(1, b"fin\\n")
"""
SLACK = 64 << 10


def test_a_log_is_trimmed_once_more_after_the_last_burst(holdfast):
    holdfast("run", "-n", "a", "--log-max", "1M", sys.executable, "-c", FLOOD, expect=0)
    info = ended("a", timeout=120)
    log = os.stat(run_of("a").directory.output_path)
    assert info.log_bytes == log.st_size > 20 << 20
    assert log.st_blocks * 512 <= (1 << 20) + SLACK
    first = events_of("a", "output_trimmed")[-1]["first_byte"]
    assert log.st_size - first <= (1 << 20) + SLACK
    shown = holdfast("logs", "a").raw
    assert shown.endswith(b"fin\n")
    assert b"\0" not in shown


def _flooded(holdfast) -> bytes:
    holdfast("run", "-n", "a", "--log-max", "256K", sys.executable, "-c", FLOOD, expect=0)
    ended("a", timeout=120)
    shown: bytes = holdfast("logs", "a", expect=0).raw
    assert shown.endswith(b"fin\n")
    assert b"\0" not in shown
    return shown


@pytest.mark.parametrize("program", ["tar", "python"])
def test_an_archived_log_comes_back_without_what_was_trimmed(holdfast, program):
    shown = _flooded(holdfast)
    path = holdfast("archive", "--json", "a", expect=0).json["runs"][0]["path"]
    target = Home.locate().runs_path
    if program == "tar":
        subprocess.run(["tar", "-xzf", path, "-C", target], check=True)
    else:
        with tarfile.open(path) as archive:
            archive.extractall(target, filter="data")
    assert holdfast("logs", "a", expect=0).raw == shown
    assert holdfast("logs", "--tail", "2", "a", expect=0).stdout == "0131071\nfin\n"
    assert run_of("a").output() == shown
    with os.scandir(target) as found:
        log = next(one.path for one in found) + "/output.log"
    assert os.stat(log).st_blocks * 512 <= (256 << 10) + SLACK, "and the disk is not filled again"


def test_a_copy_of_a_trimmed_log_shows_no_zeros(holdfast):
    shown = _flooded(holdfast)
    path = run_of("a").directory.output_path
    with open(path, "rb") as file:
        content = file.read()
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(content)  # zeros and all, as many a copy is
    assert holdfast("logs", "a", expect=0).raw == shown
    assert holdfast("logs", "-f", "a", expect=0).raw == shown
    assert b"".join(chunk.data for chunk in run_of("a").follow()) == shown
    assert run_of("a").output() == shown
    assert run_of("a").output(tail=10**6) == shown
