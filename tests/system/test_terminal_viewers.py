"""Those who are attached to a run: what they see, what they may, and that they can't harm it."""

from __future__ import annotations

import base64
import functools
import os
import re
from pathlib import Path

import pytest

from holdfast.manage.operations import run_steps
from holdfast.manage.shim_client import open_link
from tests.support.cli_scenes import command_line
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place, run_in
from tests.support.recovering import shim_is_dead
from tests.support.running import ended, info_of, output_of, run_of, stop, wait_for_output
from tests.support.terminals import viewing
from tests.system import terminal_scenes

ECHOES = ["sh", "-c", 'stty -echo; echo ready; while read x; do echo "got $x"; done']


@pytest.fixture
def echoes(holdfast):
    """A run that answers each line, and is stopped in the end."""
    holdfast("run", "--pty", "-n", "a", *ECHOES, expect=0)
    wait_for_output("a", b"ready\r\n")
    yield "a"
    stop(holdfast, "a")


@pytest.mark.usefixtures("echoes")
def test_all_see_and_all_may_type():
    with viewing("a") as one, viewing("a") as two:
        one.type(b"first\r")
        two.read_until(b"got first\r\n")
        two.type(b"second\r")
        assert one.read_until(b"got second\r\n") == b"ready\r\ngot first\r\ngot second\r\n"


@pytest.mark.usefixtures("echoes")
def test_who_comes_later_sees_what_was_written_before():
    with viewing("a") as one:
        one.type(b"early\r")
        one.read_until(b"got early\r\n")
    with viewing("a") as two:
        assert two.read_until(b"early\r\n") == b"ready\r\ngot early\r\n"


@pytest.mark.usefixtures("echoes")
def test_read_only_can_neither_type_nor_resize_whatever_it_sends():
    with viewing("a", read_only=True, rows=5, columns=5) as watcher, viewing("a") as other:
        watcher.type(b"forbidden\r")
        watcher.resize(7, 7)
        other.type(b"allowed\r")
        watcher.read_until(b"got allowed\r\n")
        other.type(b"again\r")
        assert b"forbidden" not in watcher.read_until(b"got again\r\n")
    assert _window_of("a") == "24 80"


@pytest.mark.usefixtures("echoes")
def test_who_is_not_attached_types_nothing():
    link = open_link(run_of("a").directory.path)
    assert link is not None
    with link:
        typed = base64.b64encode(b"x\r").decode()
        refused = run_steps(link.ask({"do": "input", "base64": typed}))
        assert refused == {"ok": False, "error": "attach first"}
    with viewing("a") as viewer:
        viewer.type(b"y\r")
        assert b"got x" not in viewer.read_until(b"got y")


@pytest.mark.usefixtures("echoes")
def test_nonsense_costs_a_viewer_its_connection_and_nobody_else_anything():
    with viewing("a") as good, viewing("a") as bad:
        bad.ask(do="input", base64="?")
        bad.read_to_end()
        good.type(b"fine\r")
        good.read_until(b"got fine")


@pytest.fixture
def floods(holdfast, tmp_path):
    """A run that writes 8 MB at our word, and the last line at the next."""
    go = tmp_path / "go"
    os.mkfifo(go)
    talks = f"cat {go} >/dev/null; stty -opost; seq 1000000 1999999; cat {go} >/dev/null; echo end"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", talks, expect=0)
    return go


@functools.cache
def _flood() -> bytes:
    return b"".join(b"%d\n" % number for number in range(1_000_000, 2_000_000))


def test_a_viewer_that_is_behind_misses_some_and_is_told_how_much(floods):
    with viewing("a") as slow:
        floods.write_bytes(b"")
        wait_for_output("a", b"\n1999999\n")
        seen = slow.read_until(b"\n1999999\n")
        floods.write_bytes(b"")
        assert slow.read_to_end().endswith(b"\n1999999\nend\n")
    ended("a")
    before, missed, after = _parts(seen)
    assert _flood().startswith(before)
    assert _flood().endswith(after)
    # It is shown the recent output too, so some of what was left out comes after all.
    assert len(before) + missed >= len(_flood()) - 200_000
    assert 1_000_000 < len(before) < 2_000_000
    assert len(output_of("a")) == len(_flood()) + 4


def test_a_viewer_that_never_reads_holds_up_neither_the_run_nor_its_end(floods):
    with viewing("a") as slow:
        floods.write_bytes(b"")
        wait_for_output("a", b"\n1999999\n")
        floods.write_bytes(b"")
        assert ended("a").outcome == "succeeded"
        shim_is_dead("a", 20)
        # The end of the output is what matters: it is waited with, though not for long.
        assert slow.read_to_end().endswith(b"\n1999999\nend\n")
    assert output_of("a") == _flood() + b"end\n"


def _parts(seen: bytes) -> tuple[bytes, int, bytes]:
    """Before the gap, how much was left out, and after it."""
    found = re.search(rb"\x18\x1b\[0m\r\n\[holdfast: (\d+) bytes were left out.*\]\r\n", seen)
    assert found is not None, seen[-500:]
    after = re.sub(rb"^\x1b\[<16u\x1b\[>4m\x1b>", b"", seen[found.end() :])
    return seen[: found.start()], int(found[1]), after


def test_a_late_viewer_gets_the_modes_of_a_program_that_talks_for_long(holdfast):
    draws = r"printf '\033[?1049h\033[?25l'; seq 50000; printf 'now\033[6n'; exec sleep 600"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", draws, expect=0)
    wait_for_output("a", b"now")
    with viewing("a", read_only=True) as viewer:
        seen = viewer.read_until(b"now")
        assert seen.startswith(b"\x1b[?1049h\x1b[?25l")
        assert 60_000 < len(seen) < 140_000
        assert b"\x1b[6n" not in seen  # it would be answered into the workload
    assert b"\x1b[6n" in output_of("a")
    stop(holdfast, "a")


def test_a_run_of_another_user_is_refused(holdfast, shared, monkeypatch):
    needs("root")
    home = shared / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    holdfast("run", "--pty", "-n", "a", *ECHOES, expect=0)
    directory = Path(run_of("a").directory.path)
    # Even where all file permissions are open.
    open_up = [directory / "control", directory, *directory.parents]
    before = [(path, path.stat().st_mode) for path in open_up if path.is_relative_to(home)]
    other = Place(pid_namespace=False, uid=OTHER_UID, env={"HOLDFAST_HOME": str(home)})
    try:
        for path, mode in before:
            path.chmod(mode | 0o055 | (0o022 if path == directory / "control" else 0))
        said = run_in(other, command_line, words=["--json", "status", "a"])
        assert (said["code"], said["said"]["error"]["code"]) == (6, "home-unusable")
        assert "belongs to another user" in said["said"]["error"]["message"]
        # Past the command line: the kernel tells the shim who calls, and it hangs up.
        assert run_in(other, terminal_scenes.attach_by_hand, path=str(directory)) == "hung up"
    finally:
        for path, mode in before:
            path.chmod(mode)
    with viewing("a") as viewer:  # of our own
        viewer.read_until(b"ready")
    stop(holdfast, "a")


def test_a_full_disk_takes_output_from_the_log_but_not_from_viewers_nor_the_run(tmp_path: Path):
    needs("root", "pid_namespace")
    seen = run_in(Place(), terminal_scenes.talk_on_a_full_disk, path=str(tmp_path))
    assert seen["viewer_saw_all"]
    assert seen["state_while_full"] == "running"
    assert seen["outcome"] == "succeeded"
    assert seen["faults"] == ["output.log: OSError: [Errno 28] No space left on device"]
    assert seen["log_is_whole"]


def test_output_beyond_what_can_wait_is_counted_as_lost(tmp_path: Path):
    needs("root", "pid_namespace")
    seen = run_in(Place(), terminal_scenes.flood_a_full_disk, path=str(tmp_path))
    assert seen["outcome"] == "succeeded"
    assert seen["faults"][0] == "output.log: OSError: [Errno 28] No space left on device"
    lost, kept = seen["lost"], seen["kept"]
    assert 0 < lost < seen["written"]
    assert kept + lost == seen["written"]


def test_a_client_that_hangs_up_in_the_middle_of_everything(holdfast, echoes):
    path = run_of(echoes).directory.path
    for request in (b"", b'{"do":"attach"', b'{"do":"attach"}\n', b'{"do":"attach"}\n{"do":"inp'):
        link = open_link(path)
        assert link is not None
        link.send(request)
        link.__exit__()
    with viewing(echoes) as viewer:
        viewer.type(b"on\r")
        viewer.read_until(b"got on")
    assert holdfast("ls", "--json", expect=0).json["runs"][0]["state"] == "running"


def _window_of(name: str) -> str:
    workload = info_of(name).workload
    assert workload is not None
    with open(f"/proc/{workload['pid']}/fd/0") as terminal:
        size = os.get_terminal_size(terminal.fileno())
    return f"{size.lines} {size.columns}"
