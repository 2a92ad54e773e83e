"""Profiles: the built-in ones load, a user's are added, and each kind of mistake is named."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from holdfast.agents.loader import built_in_profiles, load_file, load_profile, load_profiles
from holdfast.errors import InvalidProfile, NotFound

GOOD = """
name = "mine"
[recognise]
commands = ["mine"]
"""


@pytest.fixture
def user_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's profile directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    directory = tmp_path / "config" / "holdfast" / "agents"
    directory.mkdir(parents=True)
    return directory


def test_the_known_agents_have_profiles():
    assert set(built_in_profiles()) == {
        "aider",
        "claude",
        "codex",
        "gemini",
        "generic",
        "opencode",
    }


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_the_three_main_agents_are_seen_in_every_way(name):
    profile = load_profile(name)
    assert all([profile.session, profile.completion, profile.usage, profile.limit])
    assert profile.transcript
    assert profile.resume
    assert profile.checked_with
    assert profile.environment.strip


def test_no_two_built_in_profiles_claim_the_same_command():
    claimed = [c for p in built_in_profiles().values() for c in p.recognise.commands]
    assert len(claimed) == len(set(claimed))


def test_a_users_profile_is_added(user_profiles):
    (user_profiles / "mine.toml").write_text(GOOD)
    profile = load_profile("mine")
    assert profile.title == "mine"
    assert profile.source == str(user_profiles / "mine.toml")
    assert "claude" in load_profiles()


def test_without_xdg_the_home_directory_counts(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    directory = tmp_path / ".config" / "holdfast" / "agents"
    directory.mkdir(parents=True)
    (directory / "mine.toml").write_text(GOOD)
    assert load_profile("mine").name == "mine"


def test_a_users_profile_takes_a_built_in_ones_place_only_when_it_says_so(user_profiles):
    mine = user_profiles / "claude.toml"
    mine.write_text(GOOD.replace("mine", "claude"))
    with pytest.raises(InvalidProfile, match="taken by") as raised:
        load_profiles()
    assert "replaces" in raised.value.expected
    mine.write_text("replaces = true\n" + GOOD.replace("mine", "claude"))
    assert load_profile("claude").source == str(mine)


def test_two_users_profiles_of_one_name_are_a_mistake(user_profiles):
    (user_profiles / "a.toml").write_text(GOOD)
    (user_profiles / "b.toml").write_text("replaces = true\n" + GOOD)
    with pytest.raises(InvalidProfile, match=r"b\.toml: name: 'mine' is taken by .*a\.toml"):
        load_profiles()


def test_an_unknown_agent_is_not_found_and_the_known_ones_are_said(user_profiles):
    (user_profiles / "mine.toml").write_text(GOOD)
    with pytest.raises(NotFound, match="'nope'") as raised:
        load_profile("nope")
    assert "mine" in str(raised.value.hint)
    with pytest.raises(NotFound):
        load_profile("../profiles/claude")


MISTAKES = {
    "unknown key": ('colour = "red"', "colour", "recognise"),
    "unknown key in a table": ("[workload]\ncom = []", "workload.com", "comm"),
    "wrong type": ("title = 7", "title", "a text"),
    "wrong type in a list": ('[environment]\nstrip = ["A", 2]', "environment.strip[1]", "a text"),
    "no list": ('[environment]\nstrip = "A"', "environment.strip", "a list"),
    "no table": ('workload = "x"', "workload", "a table"),
    "no flag": ("[workload]\nrelaunches = 1", "workload.relaunches", "true or false"),
    "bad regex": ('[workload]\ncmdline = "("', "workload.cmdline", "regular expression"),
    "bad regex in a list": ('[recognise]\nscripts = ["["]', "recognise.scripts[0]", "regular"),
    "empty path": ('[[session]]\nmatch = {a = 1}\nid = "a..b"', "session[0].id", "a path"),
    "no condition": ('[[session]]\nid = "a"', "session[0]", "either match or line"),
    "two conditions": (
        '[[session]]\nmatch = {a = 1}\nline = "x"\nid = "a"',
        "session[0]",
        "either match or line",
    ),
    "empty condition": (
        '[[session]]\nmatch = {}\nid = "a"',
        "session[0].match",
        "a table of paths",
    ),
    "bad condition": (
        '[[session]]\nmatch = {a = {b = 1}}\nid = "a"',
        "session[0].match.a",
        "a text, number or flag",
    ),
    "missing key": ("[[session]]\nmatch = {a = 1}", "session[0].id", "a value for id"),
    "bad choice": (
        '[[usage]]\nmatch = {a = 1}\ntokens = "mean"',
        "usage[0].tokens",
        'one of "sum", "last"',
    ),
    "bad seconds": (
        "[[completion]]\nmatch = {a = 1}\nsettle_seconds = -1",
        "completion[0].settle_seconds",
        "a number from 0",
    ),
    "missing template field": (
        '[resume]\ncommand = ["{program}", "{prompt}"]',
        "resume.command",
        "{session}",
    ),
    "unknown template field": (
        '[resume]\ncommand = ["{program}", "{session}", "{prompt}", "{pid}"]',
        "resume.command[3]",
        "only {program}",
    ),
    "broken template": (
        '[transcript]\nroot = "{home"\npaths = []',
        "transcript.root",
        "a text with {home}",
    ),
    "bad sentence": (
        '[[pretty]]\nmatch = {a = 1}\nstyle = "text"\nshow = "{a|}"',
        "pretty[0].show",
        "a text",
    ),
    "unknown style": (
        '[[pretty]]\nmatch = {a = 1}\nstyle = "loud"',
        "pretty[0].style",
        '"text"',
    ),
}


@pytest.mark.parametrize(("text", "key", "expected"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_names_file_key_and_what_is_expected(text, key, expected, user_profiles):
    file = user_profiles / "mine.toml"
    file.write_text(f'name = "mine"\n{text}\n')
    with pytest.raises(InvalidProfile) as raised:
        load_profile("mine")
    error = raised.value
    assert (error.file, error.key) == (str(file), key)
    assert expected in error.expected
    assert str(file) in error.message
    assert error.exit_code == 2
    assert pickle.loads(pickle.dumps(error)).key == key


@pytest.mark.parametrize(
    ("name", "expected"), [("", "not empty"), ("A B", "short name"), ("none", "not auto")]
)
def test_a_name_that_is_no_name_is_a_mistake(name, expected, user_profiles):
    file = user_profiles / "mine.toml"
    file.write_text(f'name = "{name}"\n')
    with pytest.raises(InvalidProfile) as raised:
        load_file(str(file))
    assert raised.value.key == "name"
    assert expected in raised.value.expected


def test_a_profile_without_a_name_is_a_mistake(user_profiles):
    file = user_profiles / "mine.toml"
    file.write_text('title = "x"\n')
    with pytest.raises(InvalidProfile, match="name: is missing"):
        load_file(str(file))


def test_what_is_not_toml_is_told_with_its_line(user_profiles):
    file = user_profiles / "mine.toml"
    file.write_text('name = "mine"\n[recognise\n')
    with pytest.raises(InvalidProfile, match=r"is not TOML: .*line 2"):
        load_file(str(file))


def test_bytes_that_are_no_text_are_told(user_profiles):
    file = user_profiles / "mine.toml"
    file.write_bytes(b'name = "\xff"\n')
    with pytest.raises(InvalidProfile, match="is not TOML"):
        load_file(str(file))


def test_a_file_that_cant_be_read_is_told(user_profiles):
    (user_profiles / "mine.toml").symlink_to("nowhere")
    with pytest.raises(InvalidProfile, match="can't be read: No such file"):
        load_profiles()
    os.unlink(user_profiles / "mine.toml")
    (user_profiles / "mine.toml").mkdir()
    with pytest.raises(InvalidProfile, match="can't be read: Is a directory"):
        load_profiles()
