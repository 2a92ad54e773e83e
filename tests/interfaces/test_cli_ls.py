"""`holdfast ls`: what is listed, in which order, with which notes and hints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from holdfast.cli.text.run_table import COLUMNS
from tests.support.records import iso, rewrite_events, rewrite_spec
from tests.support.running import settled
from tests.support.shims import kill_shim, kill_workload
from tests.support.waiting import eventually


def _rows(text: str) -> dict[str, dict[str, str]]:
    """The table by name, cut where the head's columns begin or end."""
    head, *lines = [line for line in text.splitlines() if "  " in line]
    names = head.split()
    assert tuple(names) == COLUMNS
    rows = {}
    for line in lines:
        name, state = line.split()[:2]
        rows[name] = {"STATE": state, "NOTE": line[head.index("NOTE") :].strip(), "line": line}
    return rows


def _end(runs, *argv, **options):
    run = runs.start(argv, **options)
    assert run.wait(20).state == "ended"
    settled(run.id)
    return run


def test_without_runs_there_is_no_table(holdfast):
    done = holdfast("ls", expect=0)
    assert done.stdout == "no runs in 24h\n"
    assert holdfast("ls", "--json", expect=0).json == {"schema": 1, "runs": []}
    assert holdfast("ls", "-q", expect=0).stdout == ""


def test_a_home_that_does_not_exist_is_not_made(holdfast, tmp_path):
    home = tmp_path / "none"
    holdfast("ls", env={"HOLDFAST_HOME": str(home)}, expect=0)
    assert not home.exists()


def test_active_runs_come_first_then_what_ended_last(holdfast, runs):
    _end(runs, "true", name="first")
    runs.start(["sleep", "600"], name="going")
    _end(runs, "true", name="second")
    done = holdfast("ls", expect=0)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:-1]] == [
        "going",
        "second",
        "first",
    ]
    assert done.stdout.splitlines()[-1] == "1 running, 2 ended in 24h"
    assert done.stderr == ""
    assert holdfast("ls", "-q", expect=0).stdout == "going\nsecond\nfirst\n"
    assert holdfast("ls", "-qn", "2", expect=0).stdout == "going\nsecond\n"


@pytest.mark.parametrize(
    ("argv", "options", "says"),
    [
        (["true"], {}, ("succeeded", "")),
        (["sh", "-c", "exit 3"], {}, ("failed", "exit 3")),
        (["sh", "-c", "kill -9 $$"], {}, ("killed", "SIGKILL from outside")),
        (
            ["nonesuch-command"],
            {},
            ("never_started", "nonesuch-command: command not found in PATH"),
        ),
        (["sleep", "600"], {"timeout": 0.3}, ("timed_out", "after 0.3s, stopped")),
        (["sleep", "600"], {"idle_timeout": 0.3}, ("stalled", r"silent \d+\.\ds, stopped")),
    ],
)
def test_the_note_says_how_a_run_ended(holdfast, runs, argv, options, says):
    _end(runs, *argv, name="x", **options)
    outcome, note = says
    row = _rows(holdfast("ls", "--all", expect=0).stdout)["x"]
    assert row["STATE"] == "ended"
    assert outcome in row["line"].split()
    assert re.fullmatch(note, row["NOTE"]), "how long it was silent is measured"


def test_an_orphan_is_told_with_what_to_do(holdfast, runs):
    run = runs.start(["sleep", "600"], name="train")
    shim = kill_shim(run)
    done = holdfast("ls", expect=0)
    row = _rows(done.stdout)["train"]
    assert row["STATE"] == "orphaned"
    assert row["NOTE"] == f"shim {shim.pid} gone"
    assert done.stdout.splitlines()[-1] == "1 orphaned"
    assert done.stderr == "hint: holdfast recover adopts train\n"


def test_a_lost_run_that_nobody_recorded_yet(holdfast, runs):
    run = runs.start(["sleep", "600"], name="etl")
    kill_shim(run)
    workload = kill_workload(run)
    done = holdfast("ls", expect=0)
    row = _rows(done.stdout)["etl"]
    assert "lost" in row["line"].split()
    assert row["NOTE"] == f"pid {workload.pid} GONE"
    assert done.stderr == "hint: holdfast recover records the end of etl\n"


def test_selectors(holdfast, runs):
    _end(runs, "sh", "-c", "exit 1", name="bad", tags={"team": "a"})
    _end(runs, "true", name="good", tags={"team": "b"})
    runs.start(["sleep", "600"], name="going", tags={"team": "a", "x": "1"})

    def names(*selectors: str) -> list[str]:
        return sorted(holdfast("ls", "-q", *selectors, expect=0).stdout.split())

    assert names("--tag", "team=a") == ["bad", "going"]
    assert names("--tag", "team=a", "--tag", "x=1") == ["going"]
    assert names("--tag", "team=a", "--tag", "team=b") == ["bad", "going", "good"]
    assert names("--tag", "x") == ["going"]
    assert names("--state", "running") == ["going"]
    assert names("--outcome", "failed", "--outcome", "succeeded") == ["bad", "good"]
    assert names("--outcome", "failed") == ["bad"]
    assert names("--agent", "claude") == []
    assert names("--all") == ["bad", "going", "good"]
    for option, known in (("--state", "orphaned"), ("--outcome", "timed_out")):
        said = holdfast("ls", option, "asleep", expect=2).stderr
        assert f"'{known}'" in said
        assert "<" not in said
    assert holdfast("ls", "-n", "0").returncode == 2
    assert holdfast("ls", "--since", "yesterday").returncode == 2


def test_older_runs_are_counted_and_shown_on_demand(holdfast, runs, tmp_path):
    run = _end(runs, "true", name="old")
    _long_ago(run, tmp_path)
    _end(runs, "true", name="new")
    done = holdfast("ls", expect=0)
    assert done.stdout.splitlines()[-1] == "1 ended in 24h (1 older: ls --all)"
    assert "old" not in _rows(done.stdout)
    every = holdfast("ls", "--all", expect=0)
    assert set(_rows(every.stdout)) == {"old", "new"}
    assert every.stdout.splitlines()[-1] == "2 ended"
    assert holdfast("ls", "-q", "--since", "4d", expect=0).stdout.split() == ["new", "old"]


def _long_ago(run, home) -> None:
    """Make its record that of a run of three days ago."""
    rewrite_events(run, lambda event: {**event, "at": iso(-3 * 86400)})
    for marker in (home / "recent").glob(run.id):
        os.utime(marker, (time.time() - 3 * 86400,) * 2)


def test_two_runs_of_one_name_are_two_lines_and_one_name(holdfast, runs):
    _end(runs, "true", name="twice")
    _end(runs, "true", name="twice")
    assert holdfast("ls", expect=0).stdout.count("twice") == 2
    assert holdfast("ls", "-q", expect=0).stdout == "twice\n"


def test_json_has_everything_and_no_environment(holdfast, runs):
    run = runs.start(["sleep", "600"], name="x", env={"MY_SECRET": "hunter2"}, tags={"a": "b"})
    document = holdfast("ls", "--json", expect=0).json
    assert [one["id"] for one in document["runs"]] == [run.id]
    one = document["runs"][0]
    assert one["state"] == "running"
    assert one["outcome"] is None
    assert one["tags"] == {"a": "b"}
    assert one["command"] == ["sleep", "600"]
    assert one["workload"]["verdict"] == "SAME"
    assert one["workload"]["comm"] == "sleep"
    assert one["suspects"] is None
    assert "env" not in one
    assert "hunter2" not in json.dumps(document)


def test_figures_and_the_time_of_the_last_output(holdfast, runs):
    loud = "import time\nx = bytearray(40 << 20)\nwhile 1: print('hi', flush=True); time.sleep(.1)"
    runs.start([sys.executable, "-c", loud], name="loud", sample_interval=0.2)

    def shown():
        words = holdfast("ls", expect=0).stdout.splitlines()[1].split()
        memory = [float(word[:-1]) for word in words if word.endswith("M")]
        return words if memory and 40 <= memory[0] < 200 and "ago" in words else None

    words = eventually(shown, why="a sample with its memory, and output")
    assert words[words.index("ago") - 1].endswith("s")


def test_a_record_of_a_later_version_is_listed_as_unknown(holdfast, runs):
    run = _end(runs, "true", name="future")
    rewrite_spec(run, schema=99, news=True)
    done = holdfast("ls", "--all", expect=0)
    row = _rows(done.stdout)["future"]
    assert row["STATE"] == "unknown"
    assert "version 99" in row["NOTE"]


def test_names_and_notes_can_not_move_the_cursor(holdfast, runs):
    run = _end(runs, "true", name="x")
    ending = {"outcome": "never_started", "evidence": "\x1b[2Jgone\u202e"}
    rewrite_events(run, lambda event: {**event, **(ending if event["kind"] == "ended" else {})})
    done = holdfast("ls", "--all", expect=0)
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "\\x1b[2Jgone" in done.stdout


def test_a_listing_loads_nothing_that_it_does_not_need(runs):
    runs.start(["sleep", "600"], name="x")
    ask = (
        "import sys; from holdfast.cli import main; main(['ls']);"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    costly = {"rich", "textual", "starlette", "asyncio", "sqlite3", "socket", "subprocess"}
    costly |= {"psutil", "shutil", "datetime", "typing", "dataclasses", "inspect", "logging"}
    assert loaded & costly == set()
