"""`python -m holdfast` is `holdfast`."""

from __future__ import annotations

import os
import sys


def _leave_out_current_directory() -> None:
    """Python puts it first: a json.py in somebody's project is not ours to run."""
    try:
        current = os.getcwd()
    except OSError:  # it was removed
        return
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.flags.safe_path and sys.path[:1] == [current] and current != package:
        del sys.path[0]


if __name__ == "__main__":
    _leave_out_current_directory()
    from holdfast import program

    program()
