"""The command line as such: help, wrong use, odd words, closed streams, and our own faults."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import termios
from array import array
from pathlib import Path
from typing import Any

import pytest

import holdfast as package
from holdfast import cli
from holdfast.cli import COMMANDS, available
from holdfast.cli.arguments.parser import Parser
from holdfast.cli.text import streams
from holdfast.errors import Bug, WrongUse
from tests.support.waiting import eventually

ODD_WORDS = [
    "\udcff",
    "日本",
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "",
    " ",
    "%s %(x)s {y}",
    "x" * 10_000,
    "-",
    "/",
    "\udc80/\n",
]


def test_help_lists_the_commands_without_importing_them():
    code = (
        "import sys; from holdfast.cli import main; code = main(['--help'])\n"
        "loaded = [m for m in sys.modules if m.startswith('holdfast.cli.')]\n"
        "print(sorted(loaded), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    rooms = ["holdfast.cli.arguments", "holdfast.cli.text"]
    loaded = [*rooms, "holdfast.cli.arguments.fast_args", "holdfast.cli.text.streams"]
    assert done.stderr.strip() == repr(sorted(loaded))
    for verb in available():
        assert f"\n  {verb} " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_only_the_chosen_command_is_imported():
    code = (
        "import sys; from holdfast.cli import COMMANDS, main; main(['check', 'x'])\n"
        "print([verb for verb in COMMANDS if 'holdfast.cli.' + COMMANDS[verb][0] in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['check']"


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_goes_to_stdout(holdfast, words):
    said = holdfast(*words, expect=0)
    assert "usage: holdfast" in said.stdout
    assert said.stderr == ""


@pytest.mark.parametrize("words", [["who", "--help"], ["help", "who"], ["who", "-h"]])
def test_help_of_one_command(holdfast, words):
    said = holdfast(*words, expect=0)
    assert said.stdout.startswith("usage: holdfast who [options] PID\n")


def test_nothing_asked_is_wrong_use_with_the_overview_on_stderr(holdfast):
    said = holdfast(expect=2)
    assert said.stdout == ""
    assert "usage: holdfast" in said.stderr


@pytest.mark.parametrize("words", [["--json"], ["-q", "--json"]], ids=" ".join)
def test_nothing_asked_in_json_is_a_json_error(holdfast, words):
    said = holdfast(*words, expect=2)
    assert said.json["error"]["code"] == "wrong-use"
    assert "--help" in said.json["error"]["hint"]
    assert said.stderr == ""


def test_version(holdfast):
    assert holdfast("--version", expect=0).stdout == f"holdfast {package.__version__}\n"
    assert holdfast("--json", "--version", expect=0).json["version"] == package.__version__


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["chek", "x"], "unknown command 'chek'", "did you mean check?"),
        (["whois", "1"], "unknown command", "holdfast who"),
        (["stauts", "x"], "unknown command 'stauts'", "did you mean status?"),
        (["wiat", "x"], "unknown command 'wiat'", "did you mean wait?"),
        (["zzzz"], "unknown command", "--help"),
        (["bogus"], "unknown command 'bogus'", "`holdfast --help` lists them"),
        (["--bogus"], "unknown option '--bogus'", "`holdfast --help` lists them"),
        (["run", "--zzzz", "true"], "'--zzzz'", "`holdfast run --help` lists them"),
        (["run", "--timout", "1", "true"], "'--timout'", "did you mean --timeout?"),
        (["--jsn", "who", "1"], "unknown option '--jsn'", "did you mean --json?"),
        (["who", "1", "--jso"], "unknown option '--jso'", "did you mean --json?"),
        (["signal", "TERM", "x", "--trustpid"], "'--trustpid'", "did you mean --trust-pid?"),
        (["guard", "--nope", "p", "c"], "unknown option '--nope'", "holdfast guard --help"),
        (["guard", "-z", "p", "c"], "unknown option '-z'", "holdfast guard --help"),
        (["who"], "who: missing: PID", "usage: holdfast who"),
        (["who", "1", "2"], "unexpected word '2'", "usage: holdfast who"),
        (["guard"], "guard: missing: PIDFILE", "usage: holdfast guard"),
        (["guard", "x.pid"], "guard: CMD is missing", "usage: holdfast guard"),
        (["guard", "x.pid", "--"], "guard: CMD is missing", "usage: holdfast guard"),
        (["completion", "tcsh"], "invalid choice", "usage"),
        (["signal", "TERM"], "missing: TOKEN|PIDFILE|RUN", "usage"),
        (["signal", "NOPE", "x"], "'NOPE' is not a signal", "TERM"),
    ],
)
def test_wrong_use_is_exit_2_with_a_hint(holdfast, tmp_path, words, message, hint):
    said = holdfast(*words, expect=2, cwd=tmp_path)
    assert said.stdout == ""
    assert said.stderr.startswith("holdfast: ")
    assert message in said.stderr
    assert f"\n  hint: {hint}" in said.stderr or hint in said.stderr
    assert "Traceback" not in said.stderr
    as_json = holdfast("--json", *words, expect=2, cwd=tmp_path)
    assert as_json.stderr == ""
    assert set(as_json.json) == {"schema", "error"}
    assert set(as_json.json["error"]) == {"code", "message", "hint"}


def test_json_before_and_after_the_command(holdfast):
    me = str(os.getpid())
    before, after = holdfast("--json", "who", me, expect=0), holdfast("who", me, "--json", expect=0)
    assert before.json["token"] == after.json["token"]
    assert before.stdout.count("\n") == 1


def test_quiet_and_verbose_before_and_after(holdfast):
    token = holdfast("who", os.getpid(), expect=0).stdout.strip()
    for words in (["-q", "check", token], ["check", "-q", token], ["-qv", "check", token]):
        assert holdfast(*words, expect=0).stdout == "SAME\n"


def test_json_in_the_commands_own_words_is_not_ours(holdfast, tmp_path):
    said = holdfast("guard", tmp_path / "x", "no-such-command", "--json", expect=127)
    assert said.stdout == ""
    assert "no-such-command" in said.stderr


@pytest.mark.parametrize("word", ODD_WORDS, ids=ascii)
def test_odd_words_never_end_in_a_traceback(holdfast, word, tmp_path):
    for words in (["check", word], ["signal", "TERM", word], ["who", word]):
        encoding = "ascii" if words[0] == "who" else "utf-8"
        env = {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
        said = holdfast(*words, env=env, cwd=tmp_path)
        assert said.returncode in (2, 3, 4), said
        assert "Traceback" not in said.stderr
        assert "\x1b" not in said.stderr
    as_json = holdfast("--json", word, "x", cwd=tmp_path, expect=2)
    assert as_json.json["error"]["message"]


def run_in_shell(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, **options
    )


def test_a_closed_stdout_is_no_traceback(holdfast):
    who = shlex.join(holdfast.argv("who", os.getpid()))
    for closed in (">&-", ">&- 2>&-", ">&- 2>&- <&-"):
        done = run_in_shell(f"{who} {closed}; echo $?; {who} --json {closed}; echo $?")
        assert done.stdout.split() == ["0", "0"]
        assert done.stderr == ""


def test_a_full_disk_behind_stdout_is_said(holdfast):
    who = shlex.join(holdfast.argv("who", os.getpid()))
    done = run_in_shell(f"{who} >/dev/full; echo $?")
    assert done.stdout.split() == ["1"]
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("logs", "x"), ("logs", "-f", "x"), ("--json", "status", "x")])
def test_output_that_is_cut_off_is_said_where_python_does_not_buffer(holdfast, tmp_path, words):
    holdfast("run", "-F", "-n", "x", "sh", "-c", "yes | head -c 20000", expect=0)
    command = shlex.join(holdfast.argv(*words))
    limit = "ulimit -f 1"  # of 1024 bytes, or 512
    done = run_in_shell(f"{limit}; PYTHONUNBUFFERED=1 {command} >{tmp_path}/out; echo $?")
    assert done.stdout.split() == ["1"]
    assert "File too large" in done.stderr
    whole = run_in_shell(f"PYTHONUNBUFFERED=1 {shlex.join(holdfast.argv('logs', 'x'))} | wc -c")
    assert whole.stdout.split() == ["20000"]


def test_help_that_is_cut_off_is_said_too(holdfast):
    for words in (("--help",), ("run", "--help")):
        command = shlex.join(holdfast.argv(*words))
        done = run_in_shell(f"PYTHONUNBUFFERED=1 {command} >/dev/full; echo $?")
        assert done.stdout.split() == ["1"]
        assert "No space left" in done.stderr


class SlowPipe:
    """A pipe of 4 KiB, which is read when the test says so."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        self._room = fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)
        self._waiting = array("i", [0])

    def is_full(self) -> bool:
        fcntl.ioctl(self.reader, termios.FIONREAD, self._waiting)
        return self._waiting[0] > self._room - 512  # a line that does not fit is not begun

    def rest(self) -> bytes:
        os.close(self.writer)
        with open(self.reader, "rb") as pipe:
            return pipe.read()


@pytest.mark.parametrize("buffers", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", [("logs", "x"), ("logs", "-f", "x"), ("logs", "--json", "x")])
@pytest.mark.parametrize("is_set_later", [False, True], ids=["before", "later"])
def test_a_stdout_that_does_not_wait_loses_nothing(
    holdfast, words, buffers, is_set_later, monkeypatch
):
    """Whoever shares it may set O_NONBLOCK, at any time, and a reader may be slow."""
    monkeypatch.setenv("PYTHONUNBUFFERED", buffers)
    holdfast("run", "-F", "-n", "x", "sh", "-c", "yes | head -c 30000", expect=0)
    wanted = holdfast(*words, expect=0).raw
    pipe = SlowPipe()
    os.set_blocking(pipe.writer, is_set_later)
    process = subprocess.Popen(holdfast.argv(*words), stdout=pipe.writer, stderr=subprocess.PIPE)
    eventually(pipe.is_full)
    os.set_blocking(pipe.writer, False)
    first = os.read(pipe.reader, 4096)
    eventually(pipe.is_full)
    assert first + pipe.rest() == wanted
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


@pytest.mark.parametrize("buffers", ["", "1"], ids=["buffered", "unbuffered"])
def test_ctrl_c_ends_the_wait_for_a_slow_reader(holdfast, buffers, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", buffers)
    pipe = SlowPipe()
    os.set_blocking(pipe.writer, False)
    argv = holdfast.argv("run", "--help")
    process = subprocess.Popen(argv, stdout=pipe.writer, stderr=subprocess.PIPE)
    eventually(pipe.is_full)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 130
    assert pipe.rest().startswith(b"usage: holdfast run ")


def test_a_diagnostic_waits_for_a_slow_reader_too(monkeypatch):
    pipe = SlowPipe()
    os.set_blocking(pipe.writer, False)
    os.write(pipe.writer, bytes(4096))
    monkeypatch.setattr("select.select", lambda *_: os.read(pipe.reader, 4096))
    with open(os.dup(pipe.writer), "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        streams.complain("it is so")
        monkeypatch.undo()
    assert pipe.rest() == b"it is so\n"


def test_a_reader_that_left_is_quiet(holdfast):
    commands = shlex.join(holdfast.argv("completion", "bash"))
    done = run_in_shell(f"{commands} | true; echo ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.stdout.split() in (["0"], ["141"])
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        holdfast.argv("completion", "bash"), stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


def fake_command(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """`holdfast who X` runs the action."""

    class Fake:
        @staticmethod
        def add_arguments(parser: Parser) -> None:
            parser.add_argument("word")

        @staticmethod
        def run(args: Any) -> int:
            return int(action(args) or 0)

    monkeypatch.setattr(cli, "command_module", lambda _verb: Fake)


def test_a_fault_of_ours_is_exit_70_and_says_how_to_see_more(monkeypatch, capsys):
    nothing: dict[str, int] = {}
    fake_command(monkeypatch, lambda _: nothing["missing"])
    assert cli.main(["who", "x"]) == Bug.exit_code
    said = capsys.readouterr().err
    assert "unexpected KeyError" in said
    assert "this is a bug in Holdfast" in said
    assert "-v" in said
    assert "Traceback" not in said
    for words in (["-v", "who", "x"], ["who", "x", "-v"], ["who", "x", "--verbose"]):
        assert cli.main(words) == Bug.exit_code
        assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert cli.main(["--json", "who", "x"]) == Bug.exit_code
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "bug"


def test_a_machine_that_is_out_of_something_is_not_our_fault(monkeypatch, capsys):
    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/some/file")

    fake_command(monkeypatch, full)
    assert cli.main(["who", "x"]) == 6
    said = capsys.readouterr().err
    assert "No space left on device: /some/file" in said
    assert "bug" not in said


def test_ctrl_c_is_130(monkeypatch, capsys):
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    fake_command(monkeypatch, interrupted)
    assert cli.main(["who", "x"]) == 130
    assert capsys.readouterr().err == ""


def test_ctrl_c_of_a_real_command(tmp_path):
    os.mkfifo(tmp_path / "wait")
    code = (
        "import sys; from holdfast import cli; from holdfast.cli.identity import who\n"
        f"who.run = lambda args: open({str(tmp_path / 'wait')!r}).read()\n"
        "sys.exit(cli.main(['who', '1']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    writer = os.open(tmp_path / "wait", os.O_WRONLY)  # returns when the command has opened it
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == ""
    os.close(writer)
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("words", "own", "rest"),
    [
        (["cmd"], [], ["cmd"]),
        (["--", "cmd", "--"], [], ["cmd", "--"]),
        (["-n", "a", "cmd", "-n", "b"], ["-n", "a"], ["cmd", "-n", "b"]),
        (["-na", "cmd"], ["-na"], ["cmd"]),
        (["--name=a", "cmd"], ["--name=a"], ["cmd"]),
        (["--name", "--json", "cmd"], ["--name", "--json"], ["cmd"]),
        (["-Fq", "cmd", "-F"], ["-Fq"], ["cmd", "-F"]),
        (["-Fn", "a", "cmd"], ["-Fn", "a"], ["cmd"]),
        (["-n", "a", "--", "-F"], ["-n", "a"], ["-F"]),
        (["cmd", "--", "x"], [], ["cmd", "--", "x"]),
        (["-", "x"], [], ["-", "x"]),
        (["-n"], ["-n"], []),
        ([], [], []),
    ],
)
def test_options_end_at_the_first_word_that_is_not_one(words, own, rest):
    parser = Parser("run", "start")
    parser.add_argument("-n", "--name")
    parser.add_argument("-F", "--foreground", action="store_true")
    parser.add_rest("command", "CMD", "the command")
    parser.add_common_arguments()
    assert parser.split(words) == (own, rest)


def test_an_abbreviated_option_is_not_guessed():
    parser = Parser("run", "start")
    parser.add_argument("--force", action="store_true")
    parser.add_common_arguments()
    with pytest.raises(WrongUse, match="--forc"):
        parser.read(["--forc"], None, cli.Asked())


def test_a_command_of_another_version_is_wrong_use(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "later", ("later", "not there yet", "runs"))
    assert cli.main(["later"]) == 2
    assert "no command later" in capsys.readouterr().err


def test_byte_output_is_exact(capfdbinary):
    streams.say_bytes([b"\xff\r\n", b"\0"])
    assert capfdbinary.readouterr().out == b"\xff\r\n\0"


def test_the_module_and_the_script_are_the_same():
    script = Path(sys.executable).parent / "holdfast"
    said = subprocess.check_output([script, "--version"], text=True)
    assert said == subprocess.check_output(
        [sys.executable, "-m", "holdfast", "--version"], text=True
    )
