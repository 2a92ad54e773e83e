"""The page's scripts: types by JSDoc, and no way for text to become markup."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from holdfast.manage.words.urgency import Urgency
from tests.support.features import needs

STATIC = Path(__file__).parents[2] / "src" / "holdfast" / "web" / "static"
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function")


def markup_in(text: str) -> list[str]:
    return MARKUP.findall(text)


def test_the_types_hold():
    needs("tsc")
    done = subprocess.run(
        ["tsc", "--allowJs", "--checkJs", "--noEmit", "--target", "es2022", "--moduleResolution",
         "node", "--lib", "es2022,dom,dom.iterable", STATIC / "app.js"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_each_urgency_of_a_row_has_a_style_and_no_style_is_of_none():
    styled = re.findall(r"\.state\.(\w+)", (STATIC / "style.css").read_text())
    assert sorted(styled) == sorted(Urgency)


def test_V2_no_script_makes_markup_of_text_or_loads_from_elsewhere():
    assert markup_in("x.innerHTML = y") == ["innerHTML"]
    for path in STATIC.iterdir():
        text = path.read_text()
        assert markup_in(text) == [], path
        # The name of a namespace is no address that is loaded.
        found = re.findall(r"https?://[^\s\"']+", text)
        assert [one for one in found if one != "http://www.w3.org/2000/svg"] == []
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<style|<script>", page)
