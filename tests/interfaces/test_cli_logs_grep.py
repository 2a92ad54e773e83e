"""`holdfast logs --grep`: which lines, where they are, what is around them, and exit codes."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.records import iso, rewrite_events
from tests.support.waiting import eventually

TEXT = b"start\nan error here\nfine\nfine too\nERROR again\nover"


def _writes(runs, data: bytes, name: str = "x", **options):
    """A run that has ended, with this output."""
    run = runs.start(["true"], name=name, **options)
    assert run.wait(20).state == "ended"
    Path(run.directory.output_path).write_bytes(data)
    return run


def _following(holdfast, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(holdfast.argv("logs", *words), stdout=subprocess.PIPE)


def test_each_hit_has_the_byte_at_which_its_line_begins(holdfast, runs):
    _writes(runs, TEXT)
    assert holdfast("logs", "--grep", "error", "x", expect=0).raw == b"6:an error here\n"
    found = holdfast("logs", "--grep", "(?i)error|over$", "x", expect=0)
    assert found.raw == b"6:an error here\n34:ERROR again\n46:over\n"
    assert found.stderr == ""
    assert holdfast("logs", "--since-byte", "34", "x").raw.startswith(b"ERROR again\n")


def test_nothing_found_is_exit_1_and_a_bad_pattern_exit_2(holdfast, runs):
    _writes(runs, TEXT)
    nothing = holdfast("logs", "--grep", "nonesuch", "x", expect=1)
    assert (nothing.raw, nothing.stderr) == (b"", "")
    bad = holdfast("logs", "--grep", "a(b", "x", expect=2)
    assert bad.raw == b""
    assert "'a(b' is not a regular expression" in bad.stderr
    assert "at character 2" in bad.stderr
    assert "hint" in bad.stderr
    document = holdfast("logs", "--json", "--grep", "a(b", "x", expect=2).json
    assert document["error"]["code"] == "invalid-option"


@pytest.mark.parametrize(
    "words",
    [
        ("-i", "x"),
        ("-C", "1", "x"),
        ("--grep", "a", "-C", "many", "x"),
        ("--grep", "a", "--pretty", "x"),
        ("--grep", "a\nb", "x"),
        ("--pretty", "--raw", "x"),
        ("--grep", "a"),
    ],
)
def test_wrong_use_is_exit_2(holdfast, runs, words):
    _writes(runs, TEXT)
    assert holdfast("logs", *words).returncode == 2


def test_case_and_context(holdfast, runs):
    _writes(runs, b"0\n1 Hit\n2\n3\n4\n5\n6 hit\n7 HIT\n8\n")
    assert holdfast("logs", "-i", "--grep", "hit", "x").stdout.split("\n")[2] == "22:7 HIT"
    found = holdfast("logs", "-i", "-C", "1", "--grep", "hit", "x", expect=0).stdout
    assert found == "0-0\n2:1 Hit\n8-2\n--\n14-5\n16:6 hit\n22:7 HIT\n28-8\n"
    assert "--" not in holdfast("logs", "-i", "-C", "2", "--grep", "hit", "x").stdout
    assert "--" not in holdfast("logs", "-i", "-C", "0", "--grep", "hit", "x").stdout


def test_several_runs_have_their_names(holdfast, runs):
    _writes(runs, b"no\nhit 1\nyes\n", "one")
    _writes(runs, b"hit 2", "three")
    _writes(runs, b"nothing\n", "four")
    names = ("one", "three", "four")
    found = holdfast("logs", "--grep", "hit", *names, expect=0)
    assert found.stdout == "one   | 3:hit 1\nthree | 0:hit 2\n"
    around = holdfast("logs", "--grep", "hit", "-C", "1", *names, expect=0).stdout
    assert around == "one   | 0-no\none   | 3:hit 1\none   | 9-yes\n--\nthree | 0:hit 2\n"
    selected = holdfast("logs", "--grep", "hit", "--state", "ended", expect=0).stdout
    assert selected.count("hit") == 2
    assert holdfast("logs", "--grep", "nonesuch", *names).returncode == 1
    assert holdfast("logs", "--grep", "hit", "--tag", "a=nobody").returncode == 1


def test_json_lines_say_what_is_context(holdfast, runs):
    _writes(runs, b"before\n\xff hit\nlast")
    lines = holdfast("logs", "--json", "--grep", "hit", "-C", "1", "x", expect=0).json_lines
    assert lines == [
        {"at_byte": 0, "text": "before", "context": True},
        {"at_byte": 7, "base64": base64.b64encode(b"\xff hit").decode()},
        {"at_byte": 13, "text": "last", "context": True, "unfinished": True},
    ]


def test_lines_are_printed_byte_for_byte(holdfast, runs):
    line = bytes(value for value in range(256) if value != 10) + b" hit"
    _writes(runs, line + b"\r\nno\n\x00hit\n")
    assert holdfast("logs", "--grep", "hit$", "x", expect=0).raw == (
        b"0:" + line + b"\r\n" + b"%d:\x00hit\n" % (len(line) + 5)
    )


def test_the_last_hits(holdfast, runs):
    _writes(runs, b"".join(b"%d %s\n" % (n, b"hit" if n % 3 == 0 else b"") for n in range(10)))
    hits = holdfast("logs", "--grep", "hit", "x").stdout.splitlines()
    assert len(hits) == 4
    for count in (1, 2, 4, 100):
        assert (
            holdfast("logs", "-n", count, "--grep", "hit", "x").stdout.splitlines()
            == (hits[-count:])
        )
    assert holdfast("logs", "--tail", "0", "--grep", "hit", "x", expect=1).raw == b""
    # Context may be what would have been a hit.
    near = holdfast("logs", "--tail", "1", "--grep", "hit", "-C", "3", "x", expect=0).stdout
    assert [line.split()[0] for line in near.splitlines()] == ["24-6", "30-7", "33-8", "36:9"]


def test_hits_of_stderr_with_times(holdfast, runs):
    run = _writes(runs, b"hit of stdout\n", split_stderr=True)
    Path(run.directory.stderr_path).write_bytes(b"no\nhit of stderr\n")
    found = holdfast("logs", "--stderr", "-t", "--grep", "hit", "x", expect=0).stdout
    assert found.startswith("<=2")
    assert found.endswith(" 3:hit of stderr\n")
    assert found.count("\n") == 1


@pytest.fixture
def written_before(runs):
    """A run of which 22 bytes, half of line 5, were there an hour ago, as it recorded."""
    run = _writes(runs, b"".join(b"%dth\n" % number for number in range(10)))
    Path(run.directory.trace_path).unlink(missing_ok=True)

    def long_ago(event):
        known = {"at": iso(-3600), "log_bytes": 22} if event["kind"] == "running" else {}
        return {**event, **known}

    rewrite_events(run, long_ago)
    return run


@pytest.mark.usefixtures("written_before")
def test_since_and_the_last_of_that(holdfast):
    since = ("--since", "30m", "x")
    assert holdfast("logs", *since, expect=0).stdout == "h\n6th\n7th\n8th\n9th\n"
    assert holdfast("logs", "-n", "2", *since, expect=0).stdout == "8th\n9th\n"
    assert holdfast("logs", "--tail", "100", *since, expect=0).stdout.startswith("h\n6th")
    # A hit is a whole line, also where it was half written at that time.
    found = holdfast("logs", "--grep", "th", *since, expect=0).stdout
    assert found == "20:5th\n24:6th\n28:7th\n32:8th\n36:9th\n"
    last = holdfast("logs", "--grep", "[0-6]", "-n", "5", *since, expect=0).stdout
    assert last == "20:5th\n24:6th\n"
    assert holdfast("logs", "--grep", "[0-4]", *since).returncode == 1


def test_a_hole_at_the_head_is_not_read(holdfast, runs):
    run = _writes(runs, b"")
    with open(run.directory.output_path, "r+b") as log:
        log.seek(1 << 40)  # to read a terabyte of zeros takes longer than the test may
        log.write(b"rest\nhit 1\nhit 2\n")
    found = holdfast("logs", "--grep", "hit", "x", expect=0)
    assert found.stdout == f"{(1 << 40) + 5}:hit 1\n{(1 << 40) + 11}:hit 2\n"
    assert "given back to the disk" in found.stderr
    last = holdfast("logs", "--grep", "hit", "-n", "1", "x", expect=0).stdout
    assert last == f"{(1 << 40) + 11}:hit 2\n"


def test_a_line_that_is_too_long_is_searched_in_pieces_and_that_is_said(holdfast, runs):
    length = 40 << 20
    _writes(runs, b"x" * length + b"needle" + b"x" * 1000 + b"\nneedle\n")
    found = holdfast("logs", "--grep", "needle", "x", expect=0)
    assert "longer than 16 MiB" in found.stderr
    first, last, _ = found.raw.split(b"\n")
    assert last == b"%d:needle" % (length + 1007)
    assert len(first) < 20 << 20
    at_byte = int(first.partition(b":")[0])
    assert at_byte + first.partition(b":")[2].index(b"needle") == length
    assert holdfast("logs", "--grep", "nonesuch", "x", expect=1).raw == b""


def test_following_shows_hits_as_they_come(holdfast, runs, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    os.mkfifo(first)
    os.mkfifo(second)
    script = f"echo hit 1; echo no; cat {first}; cat {second}; printf 'hit 4'"
    runs.start(["sh", "-c", script], name="x")
    with _following(holdfast, "-f", "--grep", "hit", "x") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"0:hit 1\n"
        first.write_text("no\nhi")
        second.write_text("t 2\nno\nhit 3\n")
        assert follower.stdout.readline() == b"12:hit 2\n"
        assert follower.stdout.readline() == b"21:hit 3\n"
        assert follower.stdout.read() == b"27:hit 4\n"
        assert follower.wait(20) == 0


def test_following_without_a_hit_is_exit_1(holdfast, runs):
    runs.start(["sh", "-c", "echo no"], name="x")
    with _following(holdfast, "-f", "--grep", "hit", "x") as follower:
        assert follower.stdout is not None
        assert follower.stdout.read() == b""
        assert follower.wait(20) == 1


def test_following_the_last_hits_of_several_runs_with_times(holdfast, runs, tmp_path):
    gate = tmp_path / "gate"
    script = f"echo hit 1; echo hit 2; until [ -e {gate} ]; do sleep 0.05; done; echo hit 3"
    started = [runs.start(["sh", "-c", script], name=name) for name in ("a", "b")]
    eventually(lambda: all(run.output().count(b"hit") == 2 for run in started))
    words = ("-ft", "-n", "1", "--json", "--grep", "hit", "a", "b")
    with _following(holdfast, *words) as follower:
        assert follower.stdout is not None
        first = [json.loads(follower.stdout.readline()) for _ in started]
        gate.touch()
        rest = [json.loads(line) for line in follower.stdout]
        assert follower.wait(20) == 0
    assert [(line["name"], line["text"], "by" in line) for line in first] == [
        ("a", "hit 2", True),
        ("b", "hit 2", True),
    ]
    assert sorted((line["name"], line["text"]) for line in rest) == [("a", "hit 3"), ("b", "hit 3")]
    assert all(line["at"] <= iso(1) for line in rest)


@pytest.mark.parametrize("words", [(), ("-n", "1")])
@pytest.mark.parametrize("pattern", [r"(\w+\s?)+DONE", "x*y"])
def test_a_pattern_that_takes_for_ever_ends_with_ctrl_c(holdfast, runs, pattern, words):
    _writes(runs, b"x" * (1 << 20) + b"\n")
    # Either of two texts: so that no text is known without which the line need not be tried.
    with _following(holdfast, *words, "--grep", f"{pattern}|zz", "x") as searching:
        eventually(lambda: _cpu_seconds(searching.pid) > 1, 60, "a search that goes on")
        searching.send_signal(signal.SIGINT)
        assert searching.wait(20) == -signal.SIGINT


def test_ctrl_c_that_the_shell_had_ignored_stays_ignored(holdfast, runs):
    runs.start(["sh", "-c", "echo hit; sleep 600"], name="x")
    argv = [
        "sh",
        "-c",
        "trap '' INT; exec \"$@\"",
        "sh",
        *holdfast.argv("logs", "-f", "--grep", "hit", "x"),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"0:hit\n"
        follower.send_signal(signal.SIGINT)
        holdfast("stop", "x", expect=0)
        assert follower.stdout.read() == b""
        assert follower.wait(20) == 0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
