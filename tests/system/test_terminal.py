"""Runs with a terminal of their own: windows, typing, output to the byte, stops and restarts.

Viewers: test_terminal_viewers.py. The shim's death: test_D1_terminal.py. The command `attach`:
tests/interfaces/test_attach.py.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys

import pytest

from tests.support.running import ended, events_of, info_of, output_of, stop, wait_for_output
from tests.support.terminals import on_screen, viewing
from tests.support.waiting import eventually

# Tells each change of its window, and each key.
WATCHES = """
import os, select, signal, sys, tty
read_end, write_end = os.pipe()
os.set_blocking(write_end, False)
signal.set_wakeup_fd(write_end)
signal.signal(signal.SIGWINCH, lambda *_: None)
end = "\\n"
if "raw" in sys.argv:
    tty.setraw(0)
    end = "\\r\\n"
size = os.get_terminal_size()
print(f"begun {size.lines}x{size.columns}", end=end, flush=True)
while True:
    ready = select.select([0, read_end], [], [])[0]
    if read_end in ready:
        os.read(read_end, 100)
        size = os.get_terminal_size()
        print(f"now {size.lines}x{size.columns}", end=end, flush=True)
    elif 0 in ready:
        print(f"key {os.read(0, 1)!r}", end=end, flush=True)
"""


def python(source: str, *words: str) -> list[str]:
    return [sys.executable, "-c", source, *words]


# --- windows --------------------------------------------------------------------------------


def test_without_a_terminal_the_window_is_the_usual_one(holdfast):
    holdfast("run", "--pty", "-n", "a", "stty", "size", expect=0)
    ended("a")
    assert output_of("a") == b"24 80\r\n"


def test_the_window_begins_as_the_callers(holdfast):
    with on_screen(holdfast.argv("run", "--pty", "-n", "a", "stty", "size"), 33, 111) as screen:
        assert screen.ends() == 0
    ended("a")
    assert output_of("a") == b"33 111\r\n"


def test_it_is_a_terminal_of_its_own_in_every_respect(holdfast):
    told = 'tty <&1; tty <&2; ps -o tpgid= -p $$; echo $$; echo "$TERM.$LINES.$COLUMNS"'
    environment = {"TERM": "", "LINES": "7", "COLUMNS": "8"}
    holdfast("run", "--pty", "-n", "a", "-e", "TERM=vt100", "sh", "-c", told, env=environment)
    ended("a")
    stdout, stderr, group, shell, rest = output_of("a").decode().split()
    assert stdout == stderr
    assert stdout.startswith("/dev/pts/")
    assert group == shell
    assert rest == "vt100.."


def test_a_new_size_reaches_the_workload(holdfast):
    holdfast("run", "--pty", "-n", "a", *python(WATCHES), expect=0)
    wait_for_output("a", b"begun 24x80")
    with viewing("a", rows=40, columns=120) as viewer:
        viewer.read_until(b"now 40x120\r\n")
        viewer.resize(50, 130)
        viewer.read_until(b"now 50x130\r\n")
        for rows, columns in ((0, 0), (-1, 5), (10**9, 5), (5, 65536)):
            viewer.resize(rows, columns)
        viewer.ask(do="resize", rows="x", columns=None)
        viewer.resize(51, 131)
        viewer.read_until(b"now 51x131\r\n")
    assert b"now" not in output_of("a").partition(b"50x130")[2].partition(b"now 51x131")[0]
    stop(holdfast, "a")


def test_the_window_is_that_of_whoever_decided_last_and_is_still_there(holdfast):
    holdfast("run", "--pty", "-n", "a", *python(WATCHES), expect=0)
    wait_for_output("a", b"begun")
    with viewing("a", rows=40, columns=120), viewing("a", rows=20, columns=60) as small:
        small.read_until(b"now 20x60")
        small.close()
        wait_for_output("a", b"now 20x60\r\nnow 40x120")
    assert info_of("a").is_active
    stop(holdfast, "a")


def test_a_program_that_draws_a_screen_is_made_to_draw_it_again(holdfast):
    holdfast("run", "--pty", "-n", "a", *python(WATCHES, "raw"), expect=0)
    wait_for_output("a", b"begun")

    def redrawn() -> bool:
        with viewing("a", rows=24, columns=80) as viewer:
            viewer.read_until(b"now 24x80\r\n")
        return b"now 23x80\r\nnow 24x80\r\n" in output_of("a")

    # On a busy machine it may come to look only when the window is what it was again.
    eventually(redrawn, why="it saw both changes of one of the attachments")
    stop(holdfast, "a")


# --- typing ---------------------------------------------------------------------------------


def test_send_types_a_line(holdfast):
    holdfast("run", "--pty", "-n", "a", "sh", "-c", 'read x; echo "got $x"', expect=0)
    holdfast("send", "a", "hello", expect=0)
    assert ended("a").exit_code == 0
    assert output_of("a") == b"hello\r\ngot hello\r\n"


def test_send_presses_the_enter_key_for_a_program_that_reads_keys(holdfast):
    holdfast("run", "--pty", "-n", "a", *python(WATCHES, "raw"), expect=0)
    wait_for_output("a", b"begun")
    holdfast("send", "a", "x", expect=0)
    wait_for_output("a", b"key b'x'\r\nkey b'\\r'")
    holdfast("send", "--no-newline", "a", "y", expect=0)
    holdfast("send", "--no-newline", "a", "z", expect=0)
    wait_for_output("a", b"key b'y'\r\nkey b'z'")
    stop(holdfast, "a")


def test_ctrl_c_reaches_the_workload_as_a_signal(holdfast):
    holdfast("run", "--pty", "-n", "a", "sh", "-c", "echo ready; exec sleep 600", expect=0)
    with viewing("a") as viewer:
        viewer.read_until(b"ready")
        viewer.type(b"\x03")
    info = ended("a")
    assert (info.outcome, info.signal) == ("killed", signal.SIGINT)


def test_ctrl_d_is_the_end_of_input(holdfast):
    holdfast("run", "--pty", "-n", "a", "cat", expect=0)
    with viewing("a") as viewer:
        viewer.type(b"one\r\x04")
        viewer.read_to_end()
    assert ended("a").exit_code == 0
    assert output_of("a") == b"one\r\none\r\n"


def test_more_than_the_kernel_holds_is_typed_and_nothing_is_lost(holdfast):
    reads = """
import hashlib, os, tty
tty.setraw(0)
print("go", flush=True)
digest, left = hashlib.sha256(), 300_000
while left:
    data = os.read(0, 4096)
    digest.update(data)
    left -= len(data)
print(digest.hexdigest(), end="\\r\\n")
"""
    holdfast("run", "--pty", "-n", "a", *python(reads), expect=0)
    wait_for_output("a", b"go")
    data = os.urandom(300_000)
    with viewing("a") as viewer:
        for at in range(0, len(data), 50_000):
            viewer.type(data[at : at + 50_000])
        viewer.read_to_end()
    assert hashlib.sha256(data).hexdigest().encode() in output_of("a")


def test_a_workload_that_does_not_read_is_told_of_and_goes_on(holdfast):
    silent = "import time, tty; tty.setraw(0); print('go', flush=True); time.sleep(600)"
    holdfast("run", "--pty", "-n", "a", *python(silent), expect=0)
    wait_for_output("a", b"go")
    codes = []
    for _ in range(20):
        codes.append(holdfast("send", "a", "x" * 100_000).returncode)
        if codes[-1]:
            break
    assert codes[-1] == 6
    assert len(codes) > 5
    with viewing("a") as viewer:
        viewer.type(b"y" * 200_000)
        viewer.read_until(b"\a")  # and whoever types there hears it
    assert info_of("a").is_active
    stop(holdfast, "a")


# --- output ---------------------------------------------------------------------------------


def test_output_is_kept_to_the_byte_also_when_it_is_no_text(holdfast, tmp_path):
    data = os.urandom(400_000)
    (tmp_path / "data").write_bytes(data)
    command = f"stty raw -echo; cat {tmp_path}/data"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", command, expect=0)
    ended("a")
    assert output_of("a") == data


def test_the_last_words_before_the_exit_are_kept(holdfast):
    for number in range(5):
        talks = f"import os; os.write(1, b'x' * 4000 + b'last{number}'); os._exit({number})"
        holdfast("run", "--pty", "-n", f"a{number}", *python(talks))
        assert ended(f"a{number}").exit_code == number
        assert output_of(f"a{number}") == b"x" * 4000 + b"last%d" % number


def test_nobody_has_to_watch(holdfast):
    holdfast("run", "--pty", "-n", "a", "sh", "-c", "seq 100000", expect=0)
    assert ended("a").outcome == "succeeded"
    assert output_of("a") == b"".join(b"%d\r\n" % n for n in range(1, 100_001))


def test_a_workload_that_closes_its_files_keeps_its_terminal(holdfast):
    source = """
import os
for fd in (0, 1, 2):
    os.close(fd)
os.read(os.open(os.environ["GO"], os.O_RDONLY), 1)
os.write(os.open("/dev/tty", os.O_RDWR), b"back again")
"""
    go = os.path.join(os.environ["HOLDFAST_HOME"], "go")
    os.mkfifo(go)
    holdfast("run", "--pty", "-n", "a", "-e", f"GO={go}", *python(source), expect=0)
    with open(go, "wb"):  # it has closed its files when it opens this
        pass
    info = ended("a")
    assert (info.outcome, info.exit_code) == ("succeeded", 0)
    assert output_of("a") == b"back again"


def test_a_line_proves_completion_and_the_log_is_bounded_as_without_a_terminal(holdfast):
    talks = "seq 30000; echo done; sleep 600"
    options = ["--done-when", "done", "--drain", "0", "--log-max", "64K"]
    holdfast("run", "--pty", "-n", "a", *options, "sh", "-c", talks, expect=0)
    info = ended("a")
    assert info.outcome == "completed"
    assert output_of("a").endswith(b"30000\r\ndone\r\n")
    assert info.log_bytes == sum(len(str(n)) + 2 for n in range(1, 30_001)) + 6
    with open(os.path.join(os.environ["HOLDFAST_HOME"], "runs", info.id, "output.log"), "rb") as f:
        assert os.fstat(f.fileno()).st_blocks * 512 < 150_000


# --- ends -----------------------------------------------------------------------------------


def test_restarts_have_a_terminal_each_and_viewers_stay(holdfast):
    fails = 'stty size; read x; echo "attempt $x"; exit 3'
    holdfast("run", "--pty", "-n", "a", "--restart", "on-failure:2", "sh", "-c", fails, expect=0)
    with viewing("a", rows=44, columns=99) as viewer:
        for number in (1, 2, 3):
            eventually(lambda n=number: info_of("a").attempt == n, why=f"attempt {number}")  # type: ignore[misc]
            viewer.type(b"%d\r" % number)
            viewer.read_until(b"attempt %d\r\n" % number)
        viewer.read_to_end()
    info = ended("a")
    assert (info.outcome, info.exit_code, info.attempt) == ("failed", 3, 3)
    assert output_of("a").count(b"44 99") >= 2


def test_stop_ends_the_tree_on_the_terminal(holdfast):
    tree = "trap '' HUP; sleep 600 & setsid sleep 600 & echo ready; wait"
    holdfast("run", "--pty", "-n", "a", "sh", "-c", tree, expect=0)
    wait_for_output("a", b"ready")
    holdfast("stop", "a", expect=0)
    info = ended("a")
    assert info.outcome == "stopped"
    assert info.cleanup is not None
    assert info.cleanup["complete"] is True


def test_an_interactive_shell_ignores_sigterm_but_not_the_signal_of_terminals(holdfast):
    options = ["--pty", "--stop-signal", "HUP", "--grace", "60"]
    holdfast("run", "-n", "a", *options, "bash", "--norc", "-i", expect=0)
    wait_for_output("a", b"$ " if os.getuid() else b"# ")
    holdfast("stop", "a", expect=0)
    info = ended("a")
    assert (info.outcome, info.signal) == ("stopped", signal.SIGHUP)


def test_leftovers_that_never_stop_talking_do_not_hold_up_the_end(holdfast):
    talks = "trap '' HUP; yes & sleep 0.2; exit 5"
    holdfast("run", "--pty", "-n", "a", "--leftovers", "keep", "sh", "-c", talks, expect=0)
    assert ended("a").exit_code == 5  # and `yes` gets EIO once the terminal is gone


@pytest.mark.parametrize("command", [["/no/such/program"], ["sh", "-c", "exit 9"]])
def test_a_short_life_on_a_terminal(holdfast, command):
    holdfast("run", "--pty", "-n", "a", *command)
    info = ended("a")
    expected = ("never_started", 127) if "/no" in command[0] else ("failed", 9)
    assert (info.outcome, info.exit_code) == expected
    assert events_of("a", "fault") == []
