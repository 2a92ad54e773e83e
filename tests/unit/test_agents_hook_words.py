"""What is handed to an agent so that it reports: words of its command line, or variables."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents import hook_words as words_of
from holdfast.agents.hook_overrides import override_words
from holdfast.agents.hook_words import HookOffer, HookPlace, HookWords, hook_words, offer_of


def _offer(agent: str) -> HookOffer:
    offer = offer_of(agent)
    assert offer is not None
    return offer


def _codex(*arguments: str, pty: bool = True) -> HookWords | None:
    return hook_words("codex", arguments, HookPlace(pty, "/", {}))


def _overrides(handed: HookWords | None) -> dict[str, object]:
    assert handed is not None
    assert set(handed.words[::2]) == {"-c"}
    hooks: dict[str, object] = tomllib.loads("\n".join(handed.words[1::2]))["hooks"]
    return hooks


def test_codex_is_handed_each_event_and_that_it_is_trusted():
    hooks = _overrides(_codex("do it"))
    state = hooks.pop("state")
    assert isinstance(state, dict)
    assert set(hooks) == set(_offer("codex").terminal_events)
    assert len(state) == len(hooks)
    assert all(one["trusted_hash"].startswith("sha256:") for one in state.values())


def test_the_hash_is_what_codex_itself_says():
    """As `hooks/list` of its app-server said: 0.166.0 and 0.169.0."""
    handed = override_words(_offer("codex"), ("Stop", "PermissionRequest"), (), "/bin/true x")
    place = "/<session-flags>/config.toml"
    assert _overrides(handed)["state"] == {
        f"{place}:stop:0:0": {
            "trusted_hash": "sha256:"
            "7fdfe43b61eccf413abae68c7a0f0af74f7183ebfde4fd803b08a372fd32c59a"
        },
        f"{place}:permission_request:0:0": {
            "trusted_hash": "sha256:"
            "f05f1a268f64d5ad79ab5537a5e52b0265e7d95b8c3c61a1cfd7cf0d4203bc00"
        },
    }


@pytest.mark.parametrize(
    "own",
    [
        ("-c", "hooks.Stop=[]"),
        ("-chooks.Stop=[]",),
        ("--config=hooks.Stop=[]",),
        ("--config", "features.hooks=false"),
    ],
)
def test_hooks_that_the_user_gives_codex_are_not_replaced(own):
    handed = _codex(*own)
    assert handed is not None
    assert (handed.words, handed.why_not) == ((), "your own hooks of -c would be lost")


def test_codex_without_a_dialogue_is_handed_nothing():
    assert _codex("exec", "do it") is None
    assert _codex("do it", pty=False) is None


@pytest.mark.parametrize("path", ["/opt/höld/x", "/opt/a\nb"])
def test_a_path_that_toml_reads_otherwise_is_not_handed_over(path):
    handed = override_words(_offer("codex"), ("Stop",), (), path)
    assert handed.words == ()
    assert "characters" in handed.why_not


@pytest.mark.parametrize("asks", [True, False])
def test_where_the_output_tells_all_hooks_are_for_answers_alone(asks):
    words = ("-p", "hi", "--output-format", "stream-json", "--verbose")
    handed = hook_words("claude", words, HookPlace(False, "/", {}, asks=asks))
    assert (handed is not None) is asks


def _gemini(env: dict[str, str | None] | None = None, *, pty: bool = False) -> HookWords:
    handed = hook_words("gemini", ("-p", "hi"), HookPlace(pty, "/", env or {}))
    assert handed is not None
    return handed


VARIABLE = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"


@pytest.fixture
def roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Settings files that root alone may write, as far as `os.stat` tells."""
    place = tmp_path / "agents"
    (place / "handed").mkdir(parents=True)
    for name in ("gemini.json", "gemini-terminal.json"):
        (place / "handed" / name).write_text("{}")
    monkeypatch.setattr(words_of, "HERE", str(place))
    real = os.stat

    def stat(path: str, **how: Any) -> os.stat_result:
        found = real(path, **how)
        return os.stat_result((found.st_mode & ~0o022, *found[1:4], 0, *found[5:10]))

    monkeypatch.setattr(os, "stat", stat)
    return place / "handed"


def test_gemini_is_named_a_settings_file(roots):
    assert (_gemini().variables or {})[VARIABLE] == str(roots / "gemini.json")
    talking = _gemini(pty=True).variables or {}
    assert talking[VARIABLE] == str(roots / "gemini-terminal.json")
    assert talking["HOLDFAST_HOOK"].endswith("hook_program.py")


def test_a_settings_file_that_the_user_names_stays(roots):
    handed = _gemini({VARIABLE: "/home/me/mine.json"})
    assert (handed.variables, handed.why_not) == (None, f"your {VARIABLE} would be lost")
    again = _gemini({VARIABLE: str(roots / "gemini.json")})  # of a run that this one is inside of
    assert again.is_handed


@pytest.mark.usefixtures("roots")
def test_a_settings_file_of_the_machine_stays(monkeypatch, tmp_path):
    theirs = tmp_path / "system-defaults.json"
    theirs.write_text("{}")
    offer = _offer("gemini").replace(default_file=str(theirs))
    monkeypatch.setattr(words_of, "offer_of", lambda _agent: offer)
    assert _gemini().why_not == f"what {theirs} says would be lost"


def test_gemini_is_handed_nothing_from_where_others_may_write(roots, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(words_of, "HERE", str(roots.parent))
    roots.chmod(0o777)
    handed = _gemini()
    assert handed.variables is None
    assert handed.why_not.startswith("it reads such a file only where root alone may write, and ")


def test_the_settings_files_say_what_the_profile_says():
    offer = _offer("gemini")
    for pty, events in (
        (False, offer.events),
        (True, (*offer.events, *offer.terminal_events)),
    ):
        settings = json.loads(Path(words_of.file_of("gemini", pty=pty)).read_text())
        assert tuple(settings["hooks"]) == events
        (hook,) = settings["hooks"]["AfterAgent"][0]["hooks"]
        assert (hook["command"], hook["timeout"]) == ("${HOLDFAST_HOOK}", 10_000)
