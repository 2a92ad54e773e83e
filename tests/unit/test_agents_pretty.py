"""An agent's stream as a person reads it."""

from __future__ import annotations

import pytest

from holdfast.agents.loader import load_profile
from holdfast.agents.pretty import PrettyPrinter
from tests.agents.recordings import recorded


def _pretty(name: str, *, colour: bool = False) -> str:
    printer = PrettyPrinter(load_profile(name.split("-", maxsplit=1)[0]), colour=colour)
    lines = recorded(name).splitlines(keepends=True)
    return (b"".join(map(printer.line, lines)) + printer.end()).decode()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "claude-tool.jsonl",
            ["- session ", "> Bash echo tool-output", "  tool-output", "hello from the stub"],
        ),
        ("claude-failed.jsonl", ["- session ", "API Error: 400", "! API Error: 400 asked to fail"]),
        (
            "codex-tool.jsonl",
            [
                "- session ",
                "- Model metadata for `gpt-5` not found.",
                "> /bin/bash -lc 'echo tool-output'",
                "  tool-output",
                "hello from the stub",
                "- done: 10 tokens in, 14 out",
            ],
        ),
        (
            "gemini-tool.jsonl",
            [
                "- session ",
                "> run_shell_command echo tool-output",
                "  tool-output",
                "hello from the stub",
                "- done: 10 tokens in, 14 out",
            ],
        ),
        ("opencode-tool.jsonl", ["> bash echo tool-output", "hello from the stub"]),
        ("opencode-failed.jsonl", ["! asked to fail"]),
    ],
)
def test_a_stream_reads_as_what_happened(name, expected):
    lines = _pretty(name).splitlines()
    assert len(lines) == len(expected)
    for line, begin in zip(lines, expected, strict=True):
        assert line.startswith(begin)


@pytest.mark.parametrize("name", ["claude-text.txt", "codex-text.txt"])
def test_plain_lines_come_out_unchanged(name):
    assert _pretty(name) == recorded(name).decode()


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"Traceback\n", b'{"type":"new"}\n', b"\xff\xfe\n", b'{"type"', b"[1]\n"]
)
def test_an_unknown_line_comes_out_unchanged(line):
    assert PrettyPrinter(load_profile("claude")).line(line) == line


def test_an_answer_is_not_said_twice():
    assert _pretty("claude-success.jsonl").count("hello from the stub") == 1
    assert "= hello from the stub" in _pretty("claude-json.jsonl")


def test_pieces_of_an_answer_are_one_line_and_what_follows_begins_another():
    printer = PrettyPrinter(load_profile("gemini"))
    piece = b'{"type":"message","role":"assistant","content":"%s","delta":true}\n'
    printed = [printer.line(piece % b"hel"), printer.line(piece % b"lo"), printer.line(b"log\n")]
    assert b"".join(printed) == b"hello\nlog\n"
    printer.line(piece % b"end")
    assert printer.end() == b"\n"


def test_long_calls_and_outputs_are_cut():
    printer = PrettyPrinter(load_profile("gemini"))
    call = printer.line(
        b'{"type":"tool_use","tool_name":"sh","parameters":{"command":"%s"}}' % (b"x" * 999)
    )
    assert len(call.decode()) < 170
    output = printer.line(b'{"type":"tool_result","output":"%s"}' % (b"y\\n" * 50))
    assert output.decode().splitlines()[-1] == "  … 45 more lines"


def test_colour_only_when_asked():
    assert "\x1b[" not in _pretty("claude-tool.jsonl")
    assert "\x1b[36m> Bash" in _pretty("claude-tool.jsonl", colour=True)
