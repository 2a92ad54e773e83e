"""`-P`: presets of config.toml, several at once, and who gave which limit."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidOption
from tests.support.running import ended, environment_of, info_of, stop

CONFIG = """\
[defaults]
grace = "3s"
notify = "true"

[preset.careful]
timeout = "1h"
memory_max = "8G"
idle_timeout = "10m"
tags = { team = "web", kind = "careful" }
env = { A = "careful", B = "careful" }

[preset.claude]
idle_timeout = "20m"
restart = "on-failure:2"
tags = { kind = "agent" }
env = { B = "claude" }
"""


def test_the_limits_of_both_presets_hold_and_the_later_one_wins_per_key(holdfast, config):
    config(CONFIG)
    typed = ["-P", "careful", "-P", "claude", "-e", "C=typed"]
    holdfast("run", "-n", "a", *typed, "sleep", "60", expect=0)
    info, environment = info_of("a"), environment_of("a")
    assert info.wanted is not None
    assert info.wanted["timeout_seconds"] == 3600, "of the first"
    assert info.wanted["memory_max_bytes"] == 8 << 30, "of the first"
    assert info.wanted["idle_timeout_seconds"] == 1200, "of the second, which comes later"
    assert info.wanted["restart"] == "on-failure:2"
    assert info.tags == {"team": "web", "kind": "agent"}, "tables are merged by name"
    assert [environment[name] for name in "ABC"] == ["careful", "claude", "typed"]
    stop(holdfast, "a")


def test_status_says_which_gave_what(holdfast, config):
    config(CONFIG)
    typed = ["-P", "careful", "-P", "claude", "--timeout", "5m"]
    holdfast("run", "-n", "a", *typed, "true", expect=0)
    ended("a")
    shown = " ".join(holdfast("status", "a", expect=0).stdout.split())
    assert "given at the start: timeout 5m" in shown
    assert "preset careful: memory max 8G" in shown
    assert "preset claude: idle timeout 20m, restart on-failure:2" in shown
    assert "[defaults]: notify true" in shown
    given_by = holdfast("status", "a", "--json", expect=0).json["given_by"]
    assert given_by == {
        "grace": "[defaults]",
        "notify": "[defaults]",
        "memory_max": "preset careful",
        "idle_timeout": "preset claude",
        "restart": "preset claude",
    }


def test_a_run_that_used_no_preset_names_none(holdfast):
    holdfast("run", "-n", "a", "--timeout", "5m", "true", expect=0)
    assert ended("a").given_by is None
    assert "given at the start" not in holdfast("status", "a", expect=0).stdout


def test_who_gave_what_is_known_of_the_same_command_again(holdfast, config):
    config(CONFIG)
    holdfast("run", "-n", "a", "-P", "careful", "true", expect=0)
    ended("a")
    holdfast("rerun", "a", "-P", "claude", "--memory-max", "1G", expect=0)
    info = ended("a")
    assert info.wanted is not None
    assert (info.wanted["timeout_seconds"], info.wanted["memory_max_bytes"]) == (3600, 1 << 30)
    assert info.given_by is not None
    assert info.given_by["timeout"] == "preset careful"
    assert info.given_by["idle_timeout"] == "preset claude"
    assert "memory_max" not in info.given_by


def test_the_library_takes_presets_too(runs, config):
    config(CONFIG)
    several = runs.start(["true"], name="a", preset=["careful", "claude"], timeout="5m").wait()
    assert several.wanted["timeout_seconds"] == 300
    assert several.wanted["memory_max_bytes"] == 8 << 30
    assert several.tags == {"team": "web", "kind": "agent"}
    assert several.wanted["notify"] is None, "[defaults] is for the command line"
    one = runs.start(["true"], name="b", preset="careful").wait()
    assert one.wanted["idle_timeout_seconds"] == 600
    assert runs.get("b").rerun(preset="claude").wait().wanted["idle_timeout_seconds"] == 1200


@pytest.mark.parametrize("preset", ["nope", ["careful", "nope"], 3, [3]])
def test_what_is_no_preset_is_refused(runs, config, preset):
    config(CONFIG)
    with pytest.raises(InvalidOption, match="preset"):
        runs.start(["true"], name="a", preset=preset)


def test_a_selector_given_twice_means_either_for_commands_that_act_too(holdfast, runs):
    for name, code, team in (("good", 0, "a"), ("bad", 1, "b"), ("kept", 0, "c")):
        runs.start(["sh", "-c", f"exit {code}"], name=name, tags={"team": team}).wait()
    holdfast("rm", "--tag", "team=a", "--tag", "team=b", expect=0)
    assert holdfast("ls", "-q", "--all", expect=0).stdout.split() == ["kept"]
    runs.start(["sh", "-c", "exit 1"], name="bad").wait()
    holdfast("rm", "--outcome", "succeeded", "--outcome", "failed", expect=0)
    assert holdfast("ls", "-q", "--all", expect=0).stdout.split() == []
