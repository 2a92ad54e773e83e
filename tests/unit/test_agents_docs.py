"""docs/agents.md tells every key of a profile, and its example is one."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.agents import layout
from holdfast.agents.loader import built_in_profiles, load_file

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()


def test_every_key_is_told():
    keys = {key for key in layout.profile.all_keys() if key not in ("match", "line")}
    told = set(re.findall(r"`\[*(\w+)\]*`", PAGE))
    assert keys - told == set()


def test_the_example_is_a_profile(tmp_path):
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    file = tmp_path / "mine.toml"
    file.write_text(example[1])
    profile = load_file(str(file))
    assert all([profile.session, profile.completion, profile.usage, profile.resume])


def test_the_versions_are_those_of_the_profiles():
    checked = {p.name: p.checked_with for p in built_in_profiles().values() if p.checked_with}
    assert [f"{name} {version}" for name, version in checked.items()] == [
        text for name, version in checked.items() if (text := f"{name} {version}") in PAGE
    ]
