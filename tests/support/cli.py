"""Runs the command line as a user does: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


class Finished(subprocess.CompletedProcess[str]):
    """What a command printed, and its exit code. `raw` is stdout, byte for byte."""

    def __init__(self, args: list[str], returncode: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(args, returncode, _text(stdout), _text(stderr))
        self.raw = stdout

    @property
    def json(self) -> Any:
        """The one JSON document that `--json` prints."""
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        """The documents of a stream."""
        return [json.loads(line) for line in self.stdout.splitlines()]


class CommandLine:
    """`holdfast("who", "1", expect=0).json`"""

    def argv(self, *args: object) -> list[str]:
        """The command, for tests that start it in their own way."""
        return [sys.executable, "-m", "holdfast", *map(str, args)]

    def __call__(
        self,
        *args: object,
        expect: int | None = None,
        env: dict[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes = b"",
        timeout: float = 60,
    ) -> Finished:
        """Runs it to its end. `env` is added to the environment; `expect` is its exit code."""
        done = subprocess.run(
            self.argv(*args),
            check=False,
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            timeout=timeout,
            input=stdin,
        )
        finished = Finished(done.args, done.returncode, done.stdout, done.stderr)
        if expect is not None and finished.returncode != expect:
            raise AssertionError(f"exit {finished.returncode}, not {expect}: {finished!r}")
        return finished


def _text(output: bytes) -> str:
    # Not the text mode of subprocess, which would turn \r\n into \n.
    return output.decode("utf-8", "surrogateescape")
