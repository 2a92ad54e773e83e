"""Each action of the API has its path in the description, and its row in docs/serve.md."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.web.actions import ACTIONS, ANSWERS
from holdfast.web.openapi import openapi
from holdfast.web.settings import ServeSettings

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
DONE = {*ACTIONS, *ANSWERS}


def _told(text: str) -> set[str]:
    """The actions of rows such as "| `POST runs/RUN/pause`, `unpause` | |"."""
    cells = re.findall(r"^\| `POST runs/RUN/(.*?) \|", text, re.MULTILINE)
    return {verb for cell in cells for verb in re.findall(r"[a-z]+", cell)}


def test_the_description_has_each_action():
    paths = openapi(ServeSettings(home="", token=""))["paths"]
    acting = {
        path for path, verbs in paths.items() if path.startswith("/runs/") and "post" in verbs
    }
    assert acting == {f"/runs/{{ref}}/{verb}" for verb in DONE}


def test_the_page_has_each_action():
    assert _told(PAGE.read_text()) == DONE


def test_an_action_that_is_not_told_is_noticed():
    assert _told("| `POST runs/RUN/pause`, `unpause` | |\n| `GET runs/RUN` | |") == {
        "pause",
        "unpause",
    }
