"""Completion: what `__complete` answers, and what bash, zsh and fish make of it on a terminal."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from holdfast.agents.loader import built_in_profiles
from holdfast.cli import COMMANDS, available
from holdfast.cli.complete import Completion, complete
from holdfast.cli.text.completion_stubs import STUBS
from holdfast.manage.runs import Runs
from tests.support.features import needs
from tests.support.running import settled
from tests.support.terminals import on_screen

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
LOAD = {
    "bash": 'eval "$(holdfast completion bash)"',
    "zsh": 'autoload -Uz compinit; compinit -u -D; eval "$(holdfast completion zsh)"',
    "fish": "holdfast completion fish | source",
}
ODD = "$(touch made) `touch made` 'x"

every_shell = pytest.mark.parametrize("shell", SHELLS)


def words(*typed: str) -> list[str]:
    """Those of ours that begin as the last word does."""
    return [word for word in complete(typed).words if word.startswith(typed[-1])]


def how(*typed: str) -> str:
    found: str = complete(typed).how
    return found


# What is answered


def test_commands_and_what_may_stand_before_them():
    assert list(complete([""]).words)[: len(available())] == available()
    assert complete(["ru"]).words["run"] == COMMANDS["run"][1]
    assert words("--json", "docto") == ["doctor"]
    assert words("--v") == ["--verbose", "--version"]
    assert words("help", "comp") == ["completion"]
    assert complete(["nonsense", ""]) == Completion()
    assert complete([]) == complete([""])


@pytest.mark.parametrize("verb", available())
def test_every_command_completes_its_options(verb):
    assert {"--json", "--help", "-q"} <= {*complete([verb, "-"]).words}


def test_options_and_their_values():
    assert words("signal", "--tr") == ["--trust-pid"]
    assert words("run", "--leftovers", "") == ["stop", "keep"]
    assert words("run", "--leftovers=k") == ["--leftovers=keep"]
    assert words("run", "--pty=") == []
    assert words("run", "-n", "") == []
    assert words("ls", "--outcome", "st") == ["stopped", "stalled"]
    assert words("run", "--stop-signal", "US") == ["USR1", "USR2"]
    assert words("run", "--stop-signal", "SIGUS") == ["SIGUSR1", "SIGUSR2"]
    assert words("run", "--agent", "c") == ["claude", "codex"]
    assert words("run", "--agent", "") == [*built_in_profiles(), "auto", "none"]
    assert words("ls", "--agent", "no") == []
    assert words("clean", "") == list(complete(["clean", "-"]).words)


def test_agents_of_the_user_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "holdfast" / "agents").mkdir(parents=True)
    profile = 'name = "mine"\ntitle = "My own"\n[recognise]\ncommands = ["mine"]\n'
    (tmp_path / "holdfast" / "agents" / "a.toml").write_text(profile)
    assert complete(["ls", "--agent", ""]).words["mine"] == "My own"


def test_variables_that_can_be_passed_on(monkeypatch):
    monkeypatch.setenv("HF_ODD_NAME", "1")
    assert words("run", "-e", "HF_ODD") == ["HF_ODD_NAME"]


def test_the_words_of_a_command_in_their_order():
    assert words("completion", "") == ["bash", "zsh", "fish"]
    assert words("completion", "bash", "b") == []
    assert "USR1" in words("signal", "")
    assert how("signal", "TERM", "") == "files"
    assert how("signal", "--trust-pid", "TERM", "") == "files"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("run", "--cwd", ""), "directories"),
        (("run", "-C", "x"), "directories"),
        (("run", "--env-file", ""), "files"),
        (("run", "--env-file=x"), "files"),
        (("run", "--stdin", ""), "files"),
        (("check", ""), "files"),
        (("guard", ""), "files"),
        (("guard", "x.pid", ""), "command 3"),
        (("run", ""), "command 2"),
        (("run", "ca"), "command 2"),
        (("run", "-n", "x", "-F", "ca"), "command 5"),
        (("run", "-n", "x", "cat", "-n", ""), "command 4"),
        (("run", "--", "-odd"), "command 3"),
        (("-q", "run", "--pty", "cat", "x"), "command 4"),
        (("run", "--timeout", ""), "words"),
    ],
)
def test_what_is_left_to_the_shell(typed, expected):
    assert how(*typed) == expected


def test_runs_by_name_and_by_id(runs: Runs):
    ended, live = runs.start(["true"], name="fix-412"), runs.start(["sleep", "600"], name="Fix-9")
    settled("fix-412")
    assert complete(["status", ""]).words == {"Fix-9": "active", "fix-412": "ended"}
    assert words("stop", "") == ["Fix-9"]
    assert words("rm", "") == ["fix-412"]
    assert words("logs", "fix-412", "f") == []  # it is named already
    assert words("tree", ended.id[:12]) == [ended.id, live.id][: 1 + (ended.id[:12] in live.id)]


def test_names_of_long_ago_are_found_by_their_beginning(runs: Runs, tmp_path):
    run = runs.start(["true"], name="old-one")
    settled("old-one")
    (tmp_path / "recent" / run.id).unlink()
    assert words("status", "") == ["old-one"]  # there is nothing newer
    assert words("status", "old") == ["old-one"]
    assert words("status", "new") == []


def test_tags_and_presets(runs: Runs, tmp_path, monkeypatch):
    runs.start(["true"], tags={"team": "a", "odd": "two\nlines"}).wait(30)
    assert words("ls", "--tag", "te") == ["team=a"]
    assert words("run", "--tag", "team=") == ["team=a"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "holdfast").mkdir(parents=True)
    (tmp_path / "config" / "holdfast" / "config.toml").write_text("[preset.night]\n[preset.day]\n")
    assert words("run", "-P", "") == ["night", "day"]


def test_each_shell_gets_words_in_its_own_form(holdfast, runs: Runs):
    runs.start(["true"], tags={"a:b": "c d"}).wait(30)
    tag = ("ls", "--tag")
    assert holdfast("__complete", "bash", *tag, "a").stdout == "words\na:b=c\\ d\n"
    assert holdfast("__complete", "bash", *tag, "a:b", "=").stdout == "words\nc\\ d\n"
    assert holdfast("__complete", "bash", *tag, "a:b", "=", "c").stdout == "words\nc\\ d\n"
    assert holdfast("__complete", "zsh", *tag, "").stdout == "words\na\\:b=c d\n"
    assert holdfast("__complete", "fish", *tag, "").stdout == "words\na:b=c d\t\n"
    described = holdfast("__complete", "zsh", "docto").stdout
    assert f"\ndoctor:{COMMANDS['doctor'][1]}\n" in described


# What goes wrong


@pytest.mark.parametrize(
    "typed",
    [(), ("bash",), ("bash", "stop", ""), ("tcsh", "run", ""), ("zsh", "run", "-P", "")],
    ids=" ".join,
)
def test_whatever_fails_nothing_is_said(holdfast, tmp_path, typed):
    place = tmp_path / "file"
    place.write_text("neither a home nor a configuration")
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "config.toml").write_text("not TOML")
    broken = {"HOLDFAST_HOME": str(place), "XDG_CONFIG_HOME": str(tmp_path)}
    done = holdfast("__complete", *typed, env=broken)
    assert done.stderr == ""
    assert done.stdout == "" or typed == ("bash",)


def test_a_damaged_run_is_passed_over(runs: Runs, tmp_path):
    broken, whole = (runs.start(["true"], name=name) for name in ("broken", "whole"))
    whole.wait(30)
    broken.wait(30)
    (tmp_path / "runs" / broken.id / "spec.json").write_text("{")
    assert words("status", "") == ["whole"]


def test_it_is_hidden(holdfast):
    assert "__complete" not in holdfast("--help").stdout
    assert "__complete" not in COMMANDS


def test_it_loads_no_parser():
    """It is asked at every press of a key: argparse alone would double its time."""
    asked = ["-X", "importtime", "-m", "holdfast", "__complete", "bash", "run", "--pt"]
    done = subprocess.run([sys.executable, *asked], capture_output=True, text=True, timeout=60)
    assert done.stdout == "words\n--pty\n"
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "holdfast.cli.complete" in loaded
    assert not {"argparse", "re", "json", "dataclasses"} & loaded


# Real shells


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and `holdfast` in PATH."""
    programs, place = tmp_path / "programs", tmp_path / "place"
    programs.mkdir()
    (place / "folder").mkdir(parents=True)
    (place / "script.txt").write_text("")
    (place / "two words.txt").write_text("")
    program = programs / "holdfast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("HOME", str(tmp_path))
    return place


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # a shell without one has no job control, or no prompt


def press_tab(shell: str, place: Path, line: str) -> list[str]:
    """The words of a line after TAB was pressed at its end, as the shell itself reads them."""
    needs(shell)
    with on_screen(SHELLS[shell], columns=200, cwd=place, preexec_fn=_take_terminal) as screen:
        screen.type(f"{LOAD[shell]}; echo re''ady\r".encode())
        screen.read_until(b"ready")
        # Home, a program that shows its words one by one, enter.
        screen.type(f"{line}\t".encode() + b"\x01printf '<%s>' \x05; echo do''ne\r")
        seen = screen.read_until(b"done").decode(errors="replace")
    shown = re.findall(r"(<holdfast>.*?)(?=done)", seen, re.DOTALL)
    assert shown, seen
    return re.findall(r"<(.*?)>", shown[-1], re.DOTALL)[1:]


@every_shell
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("holdfast compl", ["completion"]),
        ("holdfast run --requ", ["run", "--require-workload"]),
        ("holdfast run --leftovers k", ["run", "--leftovers", "keep"]),
        ("holdfast run --leftovers=k", ["run", "--leftovers=keep"]),
        ("holdfast run --env-file scr", ["run", "--env-file", "script.txt"]),
        ("holdfast run --cwd fol", ["run", "--cwd", "folder/"]),
        ("holdfast run -F moun", ["run", "-F", "mount"]),
        ("holdfast run -n x cat two", ["run", "-n", "x", "cat", "two words.txt"]),
        ("holdfast check scr", ["check", "script.txt"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_shell_completes(shell, place, line, expected):
    found = press_tab(shell, place, line)
    # zsh shows the slash of a directory, and takes it off again when the line goes on.
    assert [word.rstrip("/") for word in found] == [word.rstrip("/") for word in expected]


@every_shell
def test_a_shell_completes_runs(shell, place, runs: Runs):
    runs.start(["true"], name="fix-412").wait(30)
    assert press_tab(shell, place, "holdfast status fi") == ["status", "fix-412"]


@every_shell
def test_a_shell_expands_nothing_that_a_tag_holds(shell, place, runs: Runs):
    runs.start(["true"], tags={"odd": ODD}).wait(30)
    assert press_tab(shell, place, "holdfast ls --tag od") == ["ls", "--tag", f"odd={ODD}"]
    assert not (place / "made").exists()


@every_shell
def test_a_shell_says_nothing_when_completion_fails(shell, place, monkeypatch):
    monkeypatch.setenv("HOLDFAST_HOME", str(place / "script.txt"))
    assert press_tab(shell, place, "holdfast stop x") == ["stop", "x"]


@every_shell
def test_the_stub_is_printed_also_as_json(shell, holdfast):
    stub = holdfast("completion", shell, expect=0).stdout
    assert stub == STUBS[shell]
    assert holdfast("completion", shell, "--json", expect=0).json["script"] == stub


# Installed


@every_shell
def test_install_writes_the_stub_to_the_users_place_once_and_the_shell_loads_it(
    shell, place, holdfast, monkeypatch, runs: Runs
):
    needs(shell)
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    home = {path for path in place.parent.rglob("*") if path.is_file()}
    said = holdfast("completion", "--install", expect=0).stdout
    made = {path for path in place.parent.rglob("*") if path.is_file()} - home
    assert len(made) == 1  # and no start-up file was touched
    path = made.pop()
    assert path.read_text() == STUBS[shell]
    assert said.startswith(f"~/{path.relative_to(place.parent)}: written\n")
    again = holdfast("completion", "--install", shell, "--json", expect=0).json
    assert (again["path"], again["changed"]) == (str(path), False)
    assert again["load"] in said
    assert "up to date" in holdfast("completion", "--install", expect=0).stdout
    # As it says, in a new shell.
    compinit = "; autoload -Uz compinit; compinit -u -D" if shell == "zsh" else ""
    monkeypatch.setitem(LOAD, shell, "true" if shell == "fish" else again["load"] + compinit)
    monkeypatch.setitem(SHELLS, "fish", ["fish", "-i"])
    runs.start(["true"], name="fix-412").wait(30)
    assert press_tab(shell, place, "holdfast status fi") == ["status", "fix-412"]


def test_install_says_when_the_start_up_file_loads_it_already(holdfast, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    load = holdfast("completion", "--install", "zsh", "--json", expect=0).json["load"]
    assert "to load it, add to ~/.zshrc" in holdfast("completion", "--install", "zsh").stdout
    (tmp_path / ".zshrc").write_text(f"{load}\nautoload -Uz compinit\n")
    said = holdfast("completion", "--install", "zsh", expect=0).stdout
    assert said.endswith("~/.zshrc loads it\n")


def test_install_for_a_shell_that_has_no_completion_is_refused_politely(
    holdfast, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, says in (("/bin/tcsh", "$SHELL is /bin/tcsh"), ("", "$SHELL is not set")):
        said = holdfast("completion", "--install", env={"SHELL": given}, expect=2)
        assert says in said.stderr
        assert "holdfast completion --install bash" in said.stderr
    assert "which shell?" in holdfast("completion", expect=2).stderr
    assert not (tmp_path / ".local").exists()


def test_install_replaces_an_earlier_stub_and_leaves_what_others_put_there(
    holdfast, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("BASH_COMPLETION_USER_DIR", raising=False)
    path = tmp_path / "bash-completion" / "completions" / "holdfast"
    path.parent.mkdir(parents=True)
    path.write_text("# holdfast completion for bash 3\n")
    assert holdfast("completion", "--install", "bash", "--json", expect=0).json["changed"] is True
    path.write_text("# my own\n")
    assert str(path) in holdfast("completion", "--install", "bash", expect=4).stderr
    assert path.read_text() == "# my own\n"
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    holdfast("completion", "--install", "bash")
    assert not (tmp_path / "elsewhere").exists()
    assert path.is_symlink()


def test_install_where_nothing_can_be_written_says_so(holdfast, tmp_path):
    (tmp_path / "file").write_text("")
    said = holdfast("completion", "--install", "fish", env={"XDG_CONFIG_HOME": f"{tmp_path}/file"})
    assert said.returncode == 1
    assert "can't be written: Not a directory" in said.stderr
