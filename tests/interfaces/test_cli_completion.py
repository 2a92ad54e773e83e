"""Completion scripts: bash is asked for real; zsh and fish where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import available
from holdfast.cli.completion import SHELLS, Option, Shape, Word, shape
from holdfast.cli.completion_scripts import SCRIPTS

ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_holdfast
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

RUN = Shape(
    "run",
    "start",
    (
        Option(("-n", "--name"), "its name", Word("none", "N")),
        Option(("--agent",), "which: one [of]", Word("choices", "NAME", ("claude", "codex"))),
        Option(("--env-file",), "it's a file", Word("files", "FILE")),
        Option(("-F", "--foreground"), "stream", None),
    ),
    (Word("command", "CMD", (), True),),
)
STOP = Shape("stop", "stop", (), (Word("runs", "RUN", (), True),))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A `holdfast` whose run names are known; everything else is the real one."""
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "holdfast").write_text(
        "#!/bin/sh\n"
        'if [ "$1" = ls ]; then printf "fix-412\\nfix-9\\ntrain\\n"; exit; fi\n'
        f'exec "{sys.executable}" -m holdfast "$@"\n'
    )
    (directory / "holdfast").chmod(0o755)
    return directory


def ask(programs: Path, script: str, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    path = programs / "script.bash"
    path.write_text(script)
    quoted = " ".join(f"'{word}'" for word in ("holdfast", *words))
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK.format(script=path, words=quoted)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=programs,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def script() -> str:
    return subprocess.check_output(
        [sys.executable, "-m", "holdfast", "completion", "bash"], text=True
    )


def test_bash_completes_commands(programs, script):
    assert ask(programs, script, "") == [*available(), *ask(programs, script, "-")]
    assert "check" in ask(programs, script, "ch")
    assert ask(programs, script, "--json", "docto") == ["doctor"]


def test_bash_completes_options_and_choices(programs, script):
    assert ask(programs, script, "signal", "--tr") == ["--trust-pid"]
    assert ask(programs, script, "completion", "") == ["bash", "zsh", "fish"]
    assert ask(programs, script, "completion", "bash", "") == []
    assert ask(programs, script, "signal", "US") == ["USR1", "USR2"]


def test_bash_completes_runs_and_files(programs, script):
    assert ask(programs, script, "signal", "TERM", "fix") == ["fix-412", "fix-9"]
    assert ask(programs, script, "check", "scr") == ["script.bash"]
    assert ask(programs, script, "guard", "scr") == ["script.bash"]


def test_bash_completes_the_command_to_run_and_its_files(programs):
    script = SCRIPTS["bash"]([RUN, STOP])
    assert "bash" in ask(programs, script, "run", "bas")
    assert "bash" in ask(programs, script, "run", "-n", "x", "-F", "bas")
    assert ask(programs, script, "run", "cat", "scr") == ["script.bash"]
    assert ask(programs, script, "run", "cat", "-n", "scr") == ["script.bash"]
    assert ask(programs, script, "run", "--agent", "c") == ["claude", "codex"]
    assert ask(programs, script, "run", "--env-file", "scr") == ["script.bash"]
    assert ask(programs, script, "run", "-n", "") == []
    assert ask(programs, script, "stop", "train", "fix-4") == ["fix-412"]


def test_bash_expands_nothing_that_a_name_holds(programs):
    (programs / "holdfast").write_text("#!/bin/sh\nprintf '%s\\n' '$(touch made)' '`touch made`'\n")
    offered = ask(programs, SCRIPTS["bash"]([STOP]), "stop", "")
    assert offered == ["$(touch", "made)", "`touch", "made`"]
    assert not (programs / "made").exists()


def test_every_command_has_a_shape():
    for verb in available():
        found = shape(verb)
        assert {"--json", "-h"} <= {name for option in found.options for name in option.names}
    assert [word.kind for word in shape("signal").words] == ["signals", "targets"]
    assert [word.kind for word in shape("guard").words] == ["files", "command"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_every_command(shell):
    written = SCRIPTS[shell]([shape(verb) for verb in available()])
    for verb in available():
        assert verb in written
    assert "@" not in written.replace("@}", "").replace("$@", "")
    assert written.endswith("\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_well_formed(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(SCRIPTS[shell]([shape(verb) for verb in available()] + [RUN, STOP]))
    subprocess.run([shell, "-n", path], check=True, timeout=60)


def test_json_holds_the_script(holdfast):
    document = holdfast("completion", "zsh", "--json", expect=0).json
    assert document["script"].startswith("#compdef holdfast")
