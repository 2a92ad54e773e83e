"""The command line inside the kernel lab's places."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from holdfast.cli import main


def command_line(words: list[str]) -> dict[str, Any]:
    """One command with `--json` among its words: its code and its document."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = main(words)
    return {"code": code, "said": json.loads(said.getvalue())}
