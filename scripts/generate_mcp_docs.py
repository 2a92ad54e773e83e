#!/usr/bin/env python3
"""Writes the tools into docs/mcp.md from their declarations; `--check`: is it up to date?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from holdfast.mcp.tools import ACT, ASK, READ, START, TOOLS, DeclaredTool  # noqa: E402

TARGET = ROOT / "docs" / "mcp.md"
BEGIN, END = "<!-- tools: made by scripts/generate_mcp_docs.py -->", "<!-- end of the tools -->"
NEEDS = {
    READ: "only looks",
    ACT: "with `--allow-actions`",
    START: "with `--allow-actions`; makes code run",
    ASK: "asks a person",
}


def page() -> str:
    """The page with its tools as they are declared."""
    before, rest = TARGET.read_text().split(BEGIN)
    after = rest.split(END)[1]
    tools = "\n".join(line for tool in TOOLS for line in _lines(tool))
    return f"{before}{BEGIN}\n\n{tools}\n{END}{after}"


def _lines(tool: DeclaredTool) -> Iterator[str]:
    yield f"### `{tool.name}`"
    yield ""
    yield f"{tool.text} ({NEEDS[tool.needs]})"
    yield ""
    if tool.takes["properties"]:
        yield "| takes | |"
        yield "| --- | --- |"
        for name, schema in tool.takes["properties"].items():
            required = ", required" if name in tool.takes["required"] else ""
            text = schema.get("description", "").replace("|", r"\|")
            yield f"| `{name}` | {schema['type']}{required}{': ' if text else ''}{text} |"
        yield ""
    if tool.gives is not None:
        yield "Answers: " + ", ".join(f"`{name}`" for name in tool.gives["properties"]) + "."
        yield ""


def main() -> int:
    wanted = page()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(wanted)
        return 0
    if TARGET.read_text() == wanted:
        return 0
    print("docs/mcp.md is out of date: run scripts/generate_mcp_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
