"""docs/cli.md says what the commands themselves say, and every command can be asked for help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import COMMANDS, GROUPS, available, load

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "generate_cli_docs.py"


def test_the_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_page_names_every_command():
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [verb for verb in available() if f"### `holdfast {verb}" not in page] == []


def test_every_command_is_in_a_group_and_has_a_short_line_of_help():
    for verb, (_, text, group) in COMMANDS.items():
        assert group in GROUPS, verb
        assert 10 < len(text) <= 80 - 14, verb
        assert text[0].islower() or text.split()[0].isupper(), verb
        assert not text.endswith("."), verb


@pytest.mark.parametrize("verb", available())
def test_every_argument_has_a_word_of_help(verb):
    parser, _ = load(verb)
    assert [action.dest for action in parser.arguments if not action.help] == []
    assert parser.format_help().startswith(f"usage: holdfast {verb}")
