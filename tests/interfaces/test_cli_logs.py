"""`holdfast logs`: byte-exact output, followed, cut, stamped, as JSON, made readable."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.records import iso, rewrite_spec
from tests.support.shims import kill_shim
from tests.support.waiting import eventually

RAW = bytes(range(256)) + b"\r\n\xff\xfe half"


def _end(runs, *argv, **options):
    run = runs.start(argv, **options)
    assert run.wait(20).state == "ended"
    return run


def _prints(runs, data: bytes, **options):
    code = f"import sys; sys.stdout.buffer.write({data!r})"
    return _end(runs, sys.executable, "-c", code, **options)


def test_output_is_byte_exact(holdfast, runs):
    _prints(runs, RAW, name="x")
    done = holdfast("logs", "x", expect=0)
    assert done.raw == RAW
    assert done.stderr == ""
    assert holdfast("logs", "-f", "x", expect=0).raw == RAW


def test_a_large_output_is_whole(holdfast, runs):
    _end(runs, "sh", "-c", "seq 200000", name="x")
    expected = "".join(f"{number}\n" for number in range(1, 200001)).encode()
    assert holdfast("logs", "x", expect=0).raw == expected


def test_from_a_byte_and_the_last_lines(holdfast, runs):
    _prints(runs, b"one\ntwo\nthree\nfour", name="x")
    assert holdfast("logs", "--since-byte", "4", "x", expect=0).raw == b"two\nthree\nfour"
    assert holdfast("logs", "--since-byte", "999", "x", expect=0).raw == b""
    assert holdfast("logs", "--tail", "2", "x", expect=0).raw == b"three\nfour"
    assert holdfast("logs", "--tail", "0", "x", expect=0).raw == b""
    assert holdfast("logs", "-f", "--tail", "0", "x", expect=0).raw == b""


@pytest.mark.parametrize(
    "words",
    [
        ("--since-byte", "-1", "x"),
        ("--since-byte", "x", "x"),
        ("--tail", "many", "x"),
        ("--tail", "1", "--since-byte", "1", "x"),
        ("--since", "soon", "x"),
        ("--json", "--pretty", "x"),
        ("--since-byte", "1", "x", "y"),
        ("--stderr", "x"),
        ("x", "--all"),
        (),
    ],
)
def test_wrong_use_is_exit_2(holdfast, runs, words):
    for name in ("x", "y"):
        _end(runs, "true", name=name)
    assert holdfast("logs", *words).returncode == 2


def test_json_lines_have_bytes_and_text(holdfast, runs):
    _prints(runs, b"plain\n\xff raw\n\nlast", name="x")
    lines = holdfast("logs", "--json", "x", expect=0).json_lines
    assert lines == [
        {"at_byte": 0, "text": "plain"},
        {"at_byte": 6, "base64": base64.b64encode(b"\xff raw").decode()},
        {"at_byte": 12, "text": ""},
        {"at_byte": 13, "text": "last", "unfinished": True},
    ]
    assert holdfast("logs", "--json", "--tail", "1", "x").json_lines[0]["at_byte"] == 13


def test_several_runs_are_prefixed(holdfast, runs):
    _prints(runs, b"a\nb", name="one")
    _prints(runs, b"c\n", name="three")
    done = holdfast("logs", "one", "three", expect=0)
    assert done.stdout == "one   | a\none   | b\nthree | c\n"
    named = holdfast("logs", "--json", "one", "three", expect=0).json_lines
    assert [line["name"] for line in named] == ["one", "one", "three"]
    assert holdfast("logs", "one", "one", expect=0).raw == b"a\nb"


def test_selectors_mean_the_active_runs(holdfast, runs):
    _end(runs, "echo", "over", name="over", tags={"a": "b"})
    run = runs.start(["sh", "-c", "echo here; sleep 600"], name="going", tags={"a": "b"})
    eventually(lambda: run.output() == b"here\n")
    assert holdfast("logs", "--tag", "a=b", expect=0).raw == b"here\n"
    assert holdfast("logs", "--outcome", "succeeded", expect=0).raw == b"over\n"
    assert holdfast("logs", "--tag", "a=nobody", expect=0).raw == b""


def test_split_stderr(holdfast, runs):
    _end(runs, "sh", "-c", "echo out; echo err >&2", name="x", split_stderr=True)
    assert holdfast("logs", "x", expect=0).raw == b"out\n"
    assert holdfast("logs", "--stderr", "x", expect=0).raw == b"err\n"


def test_following_shows_output_as_it_comes_and_ends_with_the_run(holdfast, runs, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = runs.start(["sh", "-c", f"echo one; cat {gate}; printf two"], name="x")
    follower = subprocess.Popen(holdfast.argv("logs", "-f", "x"), stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    assert follower.poll() is None
    gate.write_text("gate\n")
    assert follower.stdout.read() == b"gate\ntwo"
    assert follower.wait(20) == 0
    follower.stdout.close()
    assert run.wait(20).outcome == "succeeded"


def test_a_pipe_that_is_followed_into_takes_much_at_once(holdfast, runs):
    runs.start(["sleep", "60"], name="a")
    command = holdfast.argv("logs", "-f", "a")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        fd = follower.stdout.fileno()
        eventually(lambda: fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) >= 1 << 18)
        follower.terminate()


def test_following_several_runs(holdfast, runs):
    runs.start(["sh", "-c", "for i in 1 2 3; do echo a$i; sleep .1; done"], name="a")
    runs.start(["sh", "-c", "for i in 1 2 3; do echo b$i; sleep .1; done"], name="b")
    done = holdfast("logs", "-f", "a", "b", expect=0)
    lines = done.stdout.splitlines()
    for name in "ab":
        own = [line for line in lines if line.startswith(name)]
        assert own == [f"{name} | {name}{number}" for number in (1, 2, 3)]


def test_D1_output_of_an_orphan_is_followed(holdfast, runs, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = runs.start(["sh", "-c", f"cat {gate}; exec sleep 600"], name="x")
    kill_shim(run)
    follower = subprocess.Popen(holdfast.argv("logs", "-f", "x"), stdout=subprocess.PIPE)
    assert follower.stdout is not None
    gate.write_text("still here\n")
    assert follower.stdout.readline() == b"still here\n"
    run.stop(grace=5)
    assert follower.stdout.read() == b""
    assert follower.wait(20) == 0
    follower.stdout.close()


def test_following_costs_no_cpu_while_nothing_happens(holdfast, runs):
    runs.start(["sleep", "600"], name="x")
    follower = subprocess.Popen(holdfast.argv("logs", "-f", "x"), stdout=subprocess.PIPE)
    stat = Path(f"/proc/{follower.pid}/status")

    def switches() -> int:
        return sum(int(line.split()[1]) for line in stat.read_text().splitlines() if "ctxt" in line)

    def calm() -> bool:
        before = switches()
        time.sleep(1)  # the time over which nothing may happen
        return switches() - before <= 2

    eventually(calm, why="a follower that sleeps until something is written")
    follower.terminate()
    follower.wait()
    assert follower.stdout is not None
    follower.stdout.close()


def test_timestamps_tell_arrival_from_what_was_there(holdfast, runs, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = runs.start(["sh", "-c", f"echo early; cat {gate}; echo late"], name="x")
    eventually(lambda: run.output() == b"early\n")
    follower = subprocess.Popen(
        holdfast.argv("logs", "-ft", "--json", "x"), stdout=subprocess.PIPE, text=True
    )
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())
    assert first["text"] == "early"
    assert "at" not in first
    assert first["by"] <= iso(1)
    before = iso(-2)
    gate.write_text("")
    late = json.loads(follower.stdout.readline())
    assert (late["text"], "by" in late) == ("late", False)
    assert before <= late["at"] <= iso(1)
    assert follower.wait(20) == 0
    follower.stdout.close()
    # The file's last change is the time by which all of it was there.
    lines = holdfast("logs", "-t", "x", expect=0).stdout.splitlines()
    assert all(line.startswith("<=2") for line in lines)
    assert lines[-1].endswith(" late")


def test_since_shows_no_less_than_asked(holdfast, runs):
    script = "import time\nfor i in range(12): print(i, flush=True); time.sleep(.25)"
    run = _end(runs, sys.executable, "-c", script, name="x", sample_interval=0.1)
    recent = holdfast("logs", "--since", "1s", "x", expect=0).stdout.split()
    assert recent == [str(number) for number in range(12)][12 - len(recent) :]
    assert holdfast("logs", "--since", "1h", "x", expect=0).raw == run.output()


def test_since_without_samples_says_so(holdfast, runs):
    run = _end(runs, "echo", "hi", name="x", sample_interval=0)
    Path(run.directory.trace_path).unlink(missing_ok=True)
    assert holdfast("logs", "--since", "1h", "x", expect=0).stdout == "hi\n"


def test_a_log_whose_head_was_given_back_says_so(holdfast, runs):
    script = "seq 200000; sleep 600"
    run = runs.start(["sh", "-c", script], name="x", log_max="64K")
    eventually(lambda: run.info().log_bytes == 1288895)

    def trimmed():
        done = holdfast("logs", "x", expect=0)
        return done if len(done.raw) < 600_000 else None

    done = eventually(trimmed, why="a log that was trimmed")
    assert done.raw.endswith(b"\n200000\n")
    assert b"\0" not in done.raw
    assert "given back to the disk" in done.stderr


def test_a_run_that_never_started_has_no_output(holdfast, runs):
    _end(runs, "nonesuch-command", name="x")
    assert holdfast("logs", "x", expect=0).raw == b""
    assert holdfast("logs", "-f", "x", expect=0).raw == b""


def test_the_output_of_a_later_versions_run_can_be_read(holdfast, runs):
    run = _end(runs, "echo", "hi", name="x")
    rewrite_spec(run, schema=99)
    done = holdfast("logs", run.id, expect=0)
    assert done.raw == b"hi\n"
    assert "version 99" in done.stderr


def test_pretty_makes_an_agents_stream_readable(holdfast, runs):
    message = {"role": "assistant", "content": [{"type": "text", "text": "I look around."}]}
    stream = json.dumps({"type": "assistant", "message": message})
    _end(runs, "echo", stream, name="x", agent="claude")
    assert holdfast("logs", "x", expect=0).stdout == stream + "\n"
    assert holdfast("logs", "--pretty", "x", expect=0).stdout == "I look around.\n"
    _end(runs, "echo", "plain", name="y")
    plain = holdfast("logs", "--pretty", "y", expect=0)
    assert plain.stdout == "plain\n"
    assert "not the run of an agent" in plain.stderr


def test_a_reader_that_leaves_ends_it_quietly(holdfast, runs):
    _end(runs, "sh", "-c", "seq 300000", name="x")
    command = shlex.join(holdfast.argv("logs", "x")) + " | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout == b"1\n"
    assert done.stderr == b""


def test_interrupting_a_follower_leaves_the_run_alone(holdfast, runs):
    run = runs.start(["sh", "-c", "echo hi; sleep 600"], name="x")
    follower = subprocess.Popen(holdfast.argv("logs", "-f", "x"), stdout=subprocess.PIPE)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"hi\n"
    follower.send_signal(2)
    assert follower.wait(20) == 130
    follower.stdout.close()
    assert run.info().state == "running"
