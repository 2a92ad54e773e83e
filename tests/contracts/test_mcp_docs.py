"""docs/mcp.md says what the tools themselves say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "generate_mcp_docs.py"


def test_the_page_is_up_to_date():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_schemas_are_schemas_and_every_argument_is_explained():
    from jsonschema import Draft202012Validator

    from holdfast.mcp.tools import ASK, TOOLS

    for tool in TOOLS:
        Draft202012Validator.check_schema(tool.takes)
        assert (tool.gives is None) == (tool.needs == ASK), tool.name
        if tool.gives is not None:
            Draft202012Validator.check_schema(tool.gives)
        for name, schema in tool.takes["properties"].items():
            said = schema.get("description") or name in ("text", "prompt")
            assert said or tool.needs == ASK, (tool.name, name)
