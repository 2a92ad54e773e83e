"""Whether the text of a `sh -c` is one command or a script of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.process.workload.shell_text import read_script

ONE_COMMAND = [
    "CMD",
    "exec CMD",
    "CMD; true",
    "CMD || exit 1",
    "CMD && echo done || echo failed",
    "cd x && exec CMD",
    "cd x && CMD",
    "VAR=1 CMD",
    "VAR='a b' OTHER=\"$x\" CMD",
    "export A=b; CMD",
    "set -e\nsource venv/bin/activate\nCMD --flag 'a; b'\n",
    "CMD & wait",
    "CMD >log 2>&1",
    "CMD &>log",
    "CMD 2>&1 | tee log",
    "CMD | consumer",
    "CMD & other & wait",
    "(CMD; true); true",
    "{ CMD; }",
    "if [ -f x ]; then CMD; fi",
    "[[ -f x && -d y ]] && CMD",
    "trap 'rm -f x' EXIT; CMD",
    "mkdir -p out && CMD >out/log",
    "sleep 5; CMD",
    "# what it does\nCMD",
    'echo "$(date; id)"; CMD',
    "OUT=$(CMD); echo $OUT",
    "$CMD",
    "command -v x && CMD",
    "time CMD",
    'eval "$CMD"',
]
SCRIPTS = [
    "while true; do sleep 1; done",
    "while sleep 0.1; do :; done",
    "until CMD; do sleep 5; done",
    "for i in 1 2 3; do CMD $i; done",
    "for ((i=0; i<3; i++)); do CMD; done",
    "set -e; for f in *; do CMD $f; done",
    "case $x in a) CMD;; esac",
    "f() { CMD; }; f",
    "function f { CMD; }; f",
    "select x in a b; do CMD; done",
    "CMD1; CMD2",
    "CMD1 && CMD2",
    "CMD1\nCMD2",
    "if CMD1; then CMD2; fi",
    "sleep 1; sleep 600",
    "exit 3",
    "read line",
]
NOT_UNDERSTOOD = [
    "CMD <<END\nwhile\nEND\n",
    "CMD 'no end",
    'CMD "no end',
    "CMD $(no end",
    "a b (c)",
]


@pytest.mark.parametrize("text", ONE_COMMAND)
def test_one_command_with_its_surroundings_is_no_script(text):
    script = read_script(text)
    assert script is not None
    assert not script.is_workload


@pytest.mark.parametrize("text", SCRIPTS)
def test_a_loop_a_function_and_several_commands_are_a_script(text):
    script = read_script(text)
    assert script is not None
    assert script.is_workload


@pytest.mark.parametrize("text", NOT_UNDERSTOOD)
def test_what_is_not_understood_decides_nothing(text):
    assert read_script(text) is None


def test_the_programs_of_a_script_are_known_by_name_and_its_prompts_are_not():
    script = read_script("while true; do timeout 9 /opt/claude -p 'ask codex'; echo gemini; done")
    assert script is not None
    assert script.names() & {"claude", "codex", "gemini"} == {"claude"}


@given(st.text(alphabet="ab '\"\\$(){};&|<>#\n`=[]wdo", max_size=40))
def test_any_text_is_read_or_not_understood(text):
    script = read_script(text)
    assert script is None or isinstance(script.is_workload, bool)
