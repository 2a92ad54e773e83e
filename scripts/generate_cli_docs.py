#!/usr/bin/env python3
"""Writes docs/cli.md from the commands' own parsers; `--check` says whether it is up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from holdfast.cli import COMMANDS, GROUPS, available, load  # noqa: E402
from holdfast.cli.arguments.parser import Parser  # noqa: E402

TARGET = ROOT / "docs" / "cli.md"
COMMON = {"json", "quiet", "verbose", "help"}

HEAD = """\
# The command line

Made by `scripts/generate_cli_docs.py` from the commands themselves: change it there.

`holdfast [--json] [-q] [-v] COMMAND ...`, also `python -m holdfast`.

Results go to stdout; diagnostics and hints go to stderr. Colour only on a terminal, and never with
`NO_COLOR`. These options can stand before or after the command:

| option | |
| --- | --- |
| `--json` | exactly one JSON document on stdout (JSON lines for streams), errors too: \
`{"schema":1,"error":{"code":"...","message":"...","hint":"..."}}` |
| `-q`, `--quiet` | say less |
| `-v`, `--verbose` | say more; a traceback when Holdfast itself fails |
| `-h`, `--help` | print help |
| `--version` | print the version |

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | tried, and it failed |
| 2 | wrong use: the same call will fail again until it is changed |
| 3 | not found |
| 4 | refused: already running, still alive, or identity not proven |
| 6 | unavailable: try again, or do what the hint says |
| 70 | a bug in Holdfast |
| 130 | interrupted (ctrl-c) |
| 141 | the reader of the output closed it (SIGPIPE) |
"""


def document() -> str:
    """The whole page."""
    parts = [HEAD]
    for group, title in GROUPS.items():
        verbs = [verb for verb in available() if COMMANDS[verb][2] == group]
        if verbs:
            parts.append(f"## {title}\n")
            parts += ["\n".join(_command(verb)) + "\n" for verb in verbs]
    return "\n".join(parts)


def _command(verb: str) -> Iterator[str]:
    parser, module = load(verb)
    yield f"### `{parser.usage.replace(' [options]', '') if parser.usage else verb}`"
    yield ""
    yield _sentence(parser)
    rows = [row for action in parser.arguments if (row := _row(action))]
    if rows:
        yield from ["", "| | |", "| --- | --- |", *rows]
    if parser.epilog:
        yield from ["", "```", parser.epilog.strip("\n"), "```"]
    if not getattr(module, "JSON", True):
        yield from ["", "`--json` is refused."]


def _sentence(parser: Parser) -> str:
    return (parser.description or "").strip()


def _row(action: argparse.Action) -> str | None:
    if action.dest in COMMON:
        return None
    name = str(action.metavar or action.dest.upper()).replace("|", r"\|")
    if not action.option_strings:
        shown = f"`{name}`"
    else:
        value = "" if action.nargs == 0 else f" {name}"
        shown = ", ".join(f"`{option}{value}`" for option in action.option_strings)
    text = " ".join((action.help or "").replace("%%", "%").replace("|", r"\|").split())
    return f"| {shown} | {text} |"


def main() -> int:
    wanted = document()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(wanted)
        return 0
    if TARGET.exists() and TARGET.read_text() == wanted:
        return 0
    print("docs/cli.md is out of date: run scripts/generate_cli_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
