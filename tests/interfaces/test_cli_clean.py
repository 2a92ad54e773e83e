"""`clean` and the retention that starts apply by themselves."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from holdfast.manage.removal import retention_due
from holdfast.manage.removal.retention import RetentionFate, clean, find_surplus
from holdfast.manage.runs import Runs
from holdfast.manage.starting.config import Retention
from holdfast.run.directory import RunDirectory
from holdfast.run.home import Home
from tests.support.history import DAY, make_ended, make_history, template_of
from tests.support.recovering import orphan
from tests.support.running import stop
from tests.support.waiting import eventually


@pytest.fixture
def home():
    return Home.locate().prepare()


def _names(home):
    return {info.name for info in Runs(home.path).list()}


def _cleaned(holdfast, *words, code=0):
    told = holdfast("clean", "--json", *words, expect=code).json["runs"]
    return {one["name"]: one for one in told}


def test_keep_removes_all_but_the_newest(holdfast, home):
    make_history(home, 10)
    told = _cleaned(holdfast, "--keep", "4")
    assert {one["fate"] for one in told.values()} == {"removed"}
    assert _names(home) == {"template", "old-0", "old-1", "old-2"}
    assert set(os.listdir(home.names_path)) == {"template", "old-0", "old-1", "old-2"}
    assert _cleaned(holdfast, "--keep", "4") == {}


def test_older_than_and_max_bytes(holdfast, home):
    make_history(home, 10, newest_days=0, oldest_days=10)
    _cleaned(holdfast, "--older-than", "5d")
    assert len(_names(home)) in (5, 6)
    before = len(_names(home))
    _cleaned(holdfast, "--max-bytes", "1G")
    assert len(_names(home)) == before
    _cleaned(holdfast, "--max-bytes", "40K")
    assert 0 < len(_names(home)) < before
    assert "template" in _names(home), "the newest stay"


def test_a_dry_run_changes_nothing(holdfast, home):
    make_history(home, 5)
    before = _names(home)
    told = _cleaned(holdfast, "--keep", "1", "--dry-run")
    assert len(told) == 5
    assert all(one["evidence"] == "would be removed" for one in told.values())
    assert _names(home) == before
    text = holdfast("clean", "--keep", "1", "--dry-run", expect=0).stdout
    assert "5 would be removed" in text


def test_what_may_be_alive_is_tagged_or_is_unknown_stays(holdfast, home):
    holdfast("run", "-n", "runs", "sleep", "600", expect=0)
    orphan(holdfast, "orphan", "sleep", "600")
    holdfast("run", "-n", "kept", "--tag", "keep=1", "true", expect=0)
    holdfast("run", "-n", "later", "true", expect=0)
    holdfast("run", "-n", "goes", "true", expect=0)
    holdfast("wait", "kept", "later", "goes", expect=0)
    directory = Runs().get("later").directory
    spec = json.loads(Path(directory.spec_path).read_bytes())
    Path(directory.spec_path).write_text(json.dumps({**spec, "schema": 9}))
    told = _cleaned(holdfast, "--keep", "0", code=4)
    assert {name: one["fate"] for name, one in told.items()} == {
        "kept": "kept",
        "later": "unverifiable",
        "goes": "removed",
    }
    assert _names(home) == {"runs", "orphan", "kept", "later"}
    stop(holdfast, "runs", "orphan")


def test_a_member_that_is_alive_is_told_as_refused(holdfast, home):
    template = template_of(home)
    sleeper = Runs(home.path).start(["sleep", "600"], name="sleeper")
    alive = sleeper.info().workload
    assert alive is not None
    event = {**template["events"][-2], "kind": "members_seen"}
    event = {key: event[key] for key in ("seq", "at", "boottime", "kind")}
    event["members"] = [{"token": alive["token"], "comm": "sleep"}]
    ending = {**template["events"][-1], "seq": event["seq"] + 1}
    events = [*template["events"][:-2], event, ending]
    make_ended(home, {**template, "events": events}, time.time() - DAY, "left")
    told = {one.name: one for one in clean(home, Retention(keep=0))}
    assert told["left"].fate is RetentionFate.REFUSED
    assert str(alive["pid"]) in told["left"].evidence
    stop(holdfast, "sleeper")


@pytest.mark.parametrize("words", [("--keep", "x"), ("--keep", "-1"), ("--older-than", "soon")])
def test_limits_that_are_none(holdfast, words):
    assert holdfast("clean", *words).returncode == 2


def test_the_configuration_says_what_is_kept(holdfast, home, tmp_path):
    make_history(home, 6)
    config = tmp_path / "config"
    (config / "holdfast").mkdir(parents=True)
    (config / "holdfast" / "config.toml").write_text("[retention]\nkeep = 2\n")
    holdfast("clean", env={"XDG_CONFIG_HOME": str(config)}, expect=0)
    assert len(_names(home)) == 2


def test_without_a_configuration_five_hundred_are_kept(home):
    make_history(home, 3)
    assert list(find_surplus(home, Retention())) == []
    assert Retention().keep == 500


def test_a_start_has_a_full_house_cleaned_in_the_background(home, monkeypatch, tmp_path):
    """By a process of its own; not again within the hour."""
    config = tmp_path / "config"
    (config / "holdfast").mkdir(parents=True)
    (config / "holdfast" / "config.toml").write_text("[retention]\nkeep = 3\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setattr(retention_due, "RUNS_BEFORE", 8)
    make_history(home, 3)
    template = template_of(home)  # a start as well: the cleaner must not come while runs are made
    Runs(home.path).start(["true"], name="a").wait(30)
    assert not os.path.exists(f"{home.path}/tidied"), "there are too few for that"
    make_history_more(home, template, 6)
    Runs(home.path).start(["true"], name="b").wait(30)
    assert os.path.exists(f"{home.path}/tidied")
    # It is nice: on a busy machine everybody else comes first.
    eventually(lambda: home.count_runs() <= 4, 60, "old runs are removed")
    eventually(lambda: not _tidying(home), why="the cleaner has ended")
    make_history_more(home, template, 6)
    Runs(home.path).start(["true"], name="c").wait(30)
    assert home.count_runs() >= 9, "once an hour is enough"


def make_history_more(home, template, count):
    """More old runs, beside those that there are."""
    for number in range(count):
        make_ended(home, template, time.time() - (40 + number) * DAY, f"more-{number}")


def _tidying(home):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if home.path.encode() in line and b"retention" in line:
            found.append(pid)
    return found


def test_half_removed_runs_are_swept_up(holdfast, home):
    make_history(home, 2)
    run_id = next(info.id for info in Runs(home.path).list() if info.name == "old-0")
    holdfast("rm", "old-0", env={"HOLDFAST_CRASH_AT": "remover.unnamed@remover"})
    assert os.listdir(home.removed_path)
    holdfast("clean", expect=0)
    assert os.listdir(home.removed_path) == []
    assert not RunDirectory(home, run_id).exists()
