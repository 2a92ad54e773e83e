"""`holdfast status`, `tree`, `result` and `usage`: what is known about runs, with evidence."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest

from holdfast.manage.processes import look_at_processes
from holdfast.manage.state import read_facts
from holdfast.process.identity import ProcessIdentity
from tests.support.places import sleeper
from tests.support.records import append_events, rewrite_spec
from tests.support.running import settled
from tests.support.shims import kill_shim, kill_workload
from tests.support.waiting import eventually


def _lines(text: str) -> dict[str, str]:
    """The page by label, with its wrapped lines joined."""
    page: dict[str, str] = {}
    label = "headline"
    for line in text.splitlines():
        if line[:1] != " " and label in page:
            label = line[:10].strip()
            page[label] = line[10:]
        elif label not in page:
            page[label] = line
        else:
            page[label] += " " + line.strip()
    return page


def _end(runs, *argv, **options):
    run = runs.start(argv, **options)
    assert run.wait(20).state == "ended"
    settled(run.id)
    return run


def test_a_running_run(holdfast, runs):
    run = runs.start(["sleep", "600"], name="x", tags={"team": "a"}, timeout="1h", cwd="/")
    info = run.info()
    done = holdfast("status", "x", expect=0)
    page = _lines(done.stdout)
    assert page["headline"] == f"x ({run.id})  running"
    assert f"shim {info.shim['pid']} SAME" in page["evidence"]
    assert page["command"] == "sleep 600   in /"
    assert page["asked for"] == "timeout 1h"
    assert page["origin"] == "tags team=a"
    assert "deadline" in page["time"]
    assert page["output"] == "nothing yet"
    assert f"workload {info.workload['pid']} sleep SAME" in page["processes"]
    assert "started" in page["events"]
    assert page["next"].startswith("holdfast logs -f x | ")
    assert "suspects" not in page
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_its_processes_are_told_as_its_json_tells_them_also_before_its_shim_has_looked(runs):
    run = runs.start(["sleep", "600"], name="x")
    facts = read_facts(run.directory)
    unseen = facts.attempt.replace(resolution=None, workload=None)
    found = look_at_processes(
        run.directory, facts.replace(attempt=unseen), run.directory.read_spec()
    )
    root = facts.attempt.root
    assert root is not None
    assert {one.token: one.role.value for one in found.members}[root.token] == "workload"


@pytest.mark.parametrize("kind", ["id", "prefix", "name", "other case"])
def test_a_run_is_found_by_name_id_or_prefix(holdfast, runs, kind):
    run = _end(runs, "true", name="Fix-412")
    spelled = {"id": run.id, "prefix": run.id[:12], "name": "Fix-412", "other case": "fix-412"}
    assert holdfast("status", spelled[kind], "--json", expect=0).json["id"] == run.id


def test_unknown_and_malformed_references(holdfast, runs):
    _end(runs, "true", name="here")
    missing = holdfast("status", "hree", expect=3)
    assert "did you mean here?" in missing.stderr
    assert holdfast("status", "../../x").returncode == 2
    assert holdfast("status", "--json", "nobody", expect=3).json["error"]["code"] == "run-not-found"
    assert holdfast("status").returncode == 2


@pytest.mark.parametrize(
    ("argv", "options", "says"),
    [
        (["true"], {}, "ended: succeeded  ended by: itself  exit code: 0"),
        (["sh", "-c", "exit 7"], {}, "ended: failed  ended by: itself  exit code: 7"),
        (["sh", "-c", "kill -9 $$"], {}, "ended: killed  ended by: outside  signal: SIGKILL"),
        (["nonesuch-cmd"], {}, "ended: never_started  ended by: itself  exit code: 127"),
        (["sleep", "9"], {"timeout": 0.2}, "ended: timed_out  ended by: holdfast  signal: SIGTERM"),
    ],
)
def test_L9_endings_are_told_apart(holdfast, runs, argv, options, says):
    run = _end(runs, *argv, name="x", **options)
    page = _lines(holdfast("status", "x", expect=0).stdout)
    assert page["headline"] == f"x ({run.id})  {says}"
    assert f"ended: {run.info().outcome}" in page["events"]
    assert "holdfast rerun x" in page["next"]


def test_D1_an_orphan(holdfast, runs):
    run = runs.start(["sleep", "600"], name="x")
    shim = kill_shim(run)
    page = _lines(holdfast("status", "x", expect=0).stdout)
    assert page["headline"].endswith("  orphaned")
    assert page["evidence"].startswith(f"the lock is free; shim {shim.pid} GONE")
    assert page["next"].startswith("holdfast recover | ")


def test_D2_nobody_saw_the_end(holdfast, runs):
    run = runs.start(["sleep", "600"], name="x")
    kill_shim(run)
    workload = kill_workload(run)
    page = _lines(holdfast("status", "x", expect=0).stdout)
    assert page["headline"].endswith("ended: lost  ended by: unknown  exit code: not seen")
    # Its shim may have died before it had looked who the workload is: then it is the root.
    assert f" {workload.pid} GONE" in page["evidence"]
    assert page["evidence"].endswith("(not yet recorded)")
    assert "the end was not seen" in page["time"]
    document = holdfast("status", "x", "--json", expect=0).json
    assert document["exit_code"] is None
    assert document["signal"] is None


def test_D6_a_record_of_a_later_version(holdfast, runs):
    run = _end(runs, "true", name="x")
    rewrite_spec(run, schema=99)
    page = _lines(holdfast("status", run.id, expect=0).stdout)
    assert "unknown" in page["headline"]
    assert "version 99" in page["why"]
    document = holdfast("status", run.id, "--json", expect=0).json
    assert document["state"] == "unknown"
    assert document["command"] is None


def test_S3_a_process_with_the_runs_stamp_is_a_suspect(holdfast, runs, monkeypatch):
    run = runs.start(["sleep", "600"], name="x")
    monkeypatch.setenv("HOLDFAST_RUN_ID", run.id)
    with sleeper() as stranger:
        monkeypatch.delenv("HOLDFAST_RUN_ID")
        page = _lines(holdfast("status", "x", expect=0).stdout)
        why = "carries this run's stamp, not proven ours"
        assert page["suspects"] == f"{stranger.pid} sleep: {why}"
        document = holdfast("status", "x", "--json", expect=0).json
        assert [one["pid"] for one in document["suspects"]] == [stranger.pid]
        assert document["suspects"][0]["token"] == ProcessIdentity.of(stranger.pid).token
        tree = holdfast("tree", "x", expect=0)
        assert f"suspect {stranger.pid} SAME" in tree.stdout
        run.stop(grace=5)
        assert stranger.poll() is None


def test_json_has_suspects_and_no_environment(holdfast, runs):
    runs.start(["sleep", "600"], name="x", env={"MY_SECRET": "hunter2"})
    done = holdfast("status", "x", "--json", expect=0)
    assert done.json["suspects"] == []
    assert done.json["schema"] == 1
    assert "hunter2" not in done.stdout
    assert "hunter2" not in holdfast("status", "x", expect=0).stdout
    assert "hunter2" not in holdfast("tree", "x", expect=0).stdout


def test_a_secret_argument_is_not_shown(holdfast, runs):
    runs.start(["sh", "-c", "sleep 600", "--api-key", "hunter2hunter2"], name="x")
    for command in (("status", "x"), ("status", "x", "--json"), ("tree", "x"), ("events", "x")):
        done = holdfast(*command, expect=0)
        assert "hunter2" not in done.stdout, command
        assert "[redacted]" in done.stdout or "events" in command


def test_the_page_fits_any_width_and_shows_no_escape_codes(holdfast, runs):
    run = _end(runs, "true", name="x")
    append_events(run, {"kind": "result_read", "text": "\x1b[2J" + "long " * 60})
    done = holdfast("status", "x", expect=0, env={"COLUMNS": "60"})
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()[1:]) <= 60


# tree


def test_the_tree_has_wrappers_workload_and_descendants(holdfast, runs):
    script = "sleep 601 & exec sleep 602"
    run = runs.start(["timeout", "600", "bash", "-c", f"({script}) & wait"], name="x")

    def tree():
        document = holdfast("tree", "x", "--json", expect=0).json
        comms = [one["comm"] for one in document["processes"]]
        return document if len(comms) >= 5 and comms.count("sleep") == 2 else None

    document = eventually(tree, why="shim, timeout, bash and two sleeps")
    by_token = {one["token"]: one for one in document["processes"]}
    shim = document["processes"][0]
    assert shim["role"] == "shim"
    assert shim["pid"] == run.info().shim["pid"]
    assert all(one["verdict"] == "SAME" for one in document["processes"])
    for one in document["processes"][1:]:
        assert one["parent"] in by_token
    assert document["suspects"] == []
    text = holdfast("tree", "x", expect=0).stdout.splitlines()
    assert text[0].startswith(f"shim {shim['pid']} SAME")
    assert text[1].startswith("  ")


def test_the_tree_of_an_ended_run_is_what_was_recorded(holdfast, runs):
    run = _end(runs, "true", name="x")
    document = holdfast("tree", "x", "--json", expect=0).json
    assert {one["role"] for one in document["processes"]} >= {"shim"}
    assert all(one["verdict"] in ("GONE", "RECYCLED") for one in document["processes"])
    assert str(run.info().shim["pid"]) in holdfast("tree", "x", expect=0).stdout


def test_S7_a_run_inside_a_run_is_no_suspect_and_no_descendant(holdfast, runs):
    start = f"{shlex.join(holdfast.argv('run', '-n', 'inner', 'sleep', '600'))}; sleep 600"
    outer = runs.start(["sh", "-c", start], name="outer")
    eventually(lambda: runs.get("inner").info().state == "running", ignoring=(Exception,))
    inner = runs.get("inner").info()
    assert inner.started_in == outer.id
    document = holdfast("tree", "outer", "--json", expect=0).json
    known = {inner.shim["pid"], inner.workload["pid"]}
    assert not known & {one["pid"] for one in document["processes"]}
    assert document["suspects"] == []
    assert document["inner"] == [{"id": inner.id, "name": "inner", "state": "running"}]
    assert "inner run inner" in holdfast("tree", "outer", expect=0).stdout


# result and usage


def test_result_is_the_answer_alone(holdfast, runs):
    run = _end(runs, "true", name="x")
    append_events(run, {"kind": "result_read", "text": "It is done.\nReally é.", "is_error": False})
    assert holdfast("result", "x", expect=0).raw == "It is done.\nReally é.\n".encode()
    document = holdfast("result", "x", "--json", expect=0).json
    assert document["result"] == {"text": "It is done.\nReally é.", "is_error": False}
    assert document["id"] == run.id


def test_an_answer_that_is_an_error_is_exit_1(holdfast, runs):
    run = _end(runs, "true", name="x")
    append_events(run, {"kind": "result_read", "text": "no credit", "is_error": True})
    done = holdfast("result", "x", expect=1)
    assert done.stdout == "no credit\n"
    assert "failed" in done.stderr


def test_no_result_says_why(holdfast, runs):
    _end(runs, "true", name="plain")
    assert "not the run of an agent" in holdfast("result", "plain", expect=1).stderr
    run = _end(runs, "true", name="silent")
    rewrite_spec(run, agent="claude")
    assert "without an answer" in holdfast("result", "silent", expect=1).stderr
    runs.start(["sleep", "600"], name="going", agent="claude")
    assert "not given its answer yet" in holdfast("result", "going", expect=1).stderr
    error = holdfast("result", "going", "--json", expect=1).json["error"]
    assert error["code"] == "no-result"


def test_usage_adds_up_what_is_known(holdfast, runs):
    for name, cost, tags in (("a", 0.25, {"team": "x"}), ("b", 0.5, {"team": "x", "y": "1"})):
        run = _end(runs, "true", name=name, tags=tags)
        rewrite_spec(run, agent="claude")
        append_events(run, {"kind": "usage_read", "tokens_in": 1000, "cost_usd": cost})
    _end(runs, "true", name="c")
    total = holdfast("usage", "--json", expect=0).json["total"]
    assert total["runs"] == 3
    assert total["tokens_in"] == 2000
    assert total["cost_usd"] == 0.75
    assert total["tokens_out"] is None
    assert total["known_of"]["cost_usd"] == 2
    by = holdfast("usage", "--by", "tag", "--json", expect=0).json["by"]["tag"]
    assert {name: part["cost_usd"] for name, part in by.items()} == {
        "none": None,
        "team=x": 0.75,
        "y=1": 0.5,
    }
    by_agent = holdfast("usage", "--by", "agent", "--json", expect=0).json["by"]["agent"]
    assert by_agent["claude"]["runs"] == 2
    text = holdfast("usage", "--by", "day", expect=0).stdout
    assert "$0.75" in text
    assert "cost not known of 1" in text
    assert holdfast("usage", "--by", "moon").returncode == 2


def test_usage_without_runs(holdfast):
    assert holdfast("usage", "--json", expect=0).json["total"]["runs"] == 0
    assert holdfast("usage", expect=0).stdout.splitlines()[-1].split()[:2] == ["total", "0"]


def test_colour_on_a_terminal_alone(holdfast, runs):
    _end(runs, "true", name="x")
    plain = holdfast("status", "x", expect=0).stdout
    assert "\x1b[" not in plain
    script = shlex.join(holdfast.argv("status", "x"))
    shown = subprocess.run(
        ["script", "-qec", script, "/dev/null"],
        capture_output=True,
        check=True,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
        stdin=subprocess.DEVNULL,
    ).stdout
    assert b"\x1b[" in shown
    assert json.loads(holdfast("status", "x", "--json", expect=0).stdout)["name"] == "x"
