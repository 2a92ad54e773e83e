"""The lines of `run --batch`: each is a command, as plain words or as a JSON object.

`sleep 60` is split as a shell splits words, and nothing is expanded; what a shell would do more
with is refused, since no shell runs here. `{"command": ["sleep", "60"], "timeout": "5m"}` has the
options of `run` under the library's names. Empty lines, and those that begin with #, are left out.
"""

from __future__ import annotations

import json
import os
import sys

from holdfast.env_file import read_env_file
from holdfast.errors import InvalidOption, WrongUse
from holdfast.shell_words import plain_words, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class BatchLine:
    """One command of the batch; `item` is what `Runs.start_many` takes, or why that can't be."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.item: dict[str, Any] | WrongUse
        try:
            self.item = _read(text)
        except WrongUse as error:
            self.item = error


def read_batch(path: str) -> list[BatchLine]:
    """The commands in the file, or on stdin for `-`."""
    try:
        if path == "-":
            from holdfast.cli.text.streams import why_no_input

            if why := why_no_input():
                hint = "pipe the commands in, or name a file"
                raise InvalidOption(f"--batch -: {why}", hint=hint, option="batch")
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        message = f"--batch: {path} can't be read: {error.strerror}"
        raise InvalidOption(message, option="batch", value=path) from None
    text = os.fsdecode(data).removeprefix("\ufeff")
    lines = ((number, line.strip()) for number, line in enumerate(text.split("\n"), start=1))
    return [BatchLine(number, line) for number, line in lines if line and line[0] != "#"]


def _read(text: str) -> dict[str, Any]:
    if text[0] == "{":
        return _read_object(text)
    words = plain_words(text)
    if not words:
        raise InvalidOption(
            f"{_why_not_plain(text)}: no shell runs here, and none expands it",
            hint="quote what is meant as it stands, or write: sh -c '...'",
            option="batch",
        )
    return {"command": list(words)}


def _why_not_plain(text: str) -> str:
    try:
        list(split(text))
    except ValueError:
        return "a quote or an expansion has no end"
    return "not plain words"


def _read_object(text: str) -> dict[str, Any]:
    try:
        item: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = 'one object in one line, such as {"command": ["sleep", "60"], "timeout": "5m"}'
        raise InvalidOption(f"not JSON: {error}", hint=hint, option="batch") from None
    if item.get("stdin") == "-":
        hint = "name a file; or pipe, and then `holdfast send`"
        raise InvalidOption("stdin: there is none of its own here", hint=hint, option="stdin")
    files = item.pop("env_file", item.pop("env-file", None))
    if files is not None:
        item["env"] = _variables(files, item.get("env") or {})
    return item


def _variables(files: Any, own: Any) -> dict[str, Any]:
    paths = [files] if isinstance(files, str) else files
    is_list = isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    if not is_list or not isinstance(own, dict):
        raise InvalidOption(
            "env_file is a path or a list of them, env an object", option="env-file"
        )
    found: dict[str, Any] = {}
    for path in paths:
        found.update(read_env_file(path))
    return {**found, **own}
