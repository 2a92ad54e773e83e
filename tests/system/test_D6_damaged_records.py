"""D6: torn, cut, damaged and later records are listed and kept, and never taken for an ending."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.run.facts import State
from holdfast.run.names import new_id
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID
from tests.support.recovering import kill, known, orphan, recovered, wait_gone
from tests.support.running import events_of, run_of, settled, stop


def _ended_run(holdfast):
    holdfast("run", "-n", "a", "sh", "-c", "echo hello; exit 3", expect=0)
    assert settled("a").exit_code == 3
    return run_of("a").directory


def _listed(holdfast, *words):
    runs = holdfast("ls", "--json", *words, expect=0).json["runs"]
    return {run["id"]: run for run in runs}


def _content(directory):
    root = Path(directory.path)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _is_kept_as_unknown(holdfast, directory):
    before = _content(directory)
    for words in ((), ("--all",)):
        listed = _listed(holdfast, *words)[directory.id]
        assert listed["state"] == "unknown", listed["evidence"]
        assert listed["name"] == "a"
        assert listed["outcome"] is None
    told = recovered(holdfast)
    assert told.get("a", {"action": "unknown"})["action"] == "unknown"
    assert holdfast("stop", "a").returncode == 4
    assert holdfast("rm", "a").returncode == 4
    assert holdfast("clean", "--keep", "0").returncode in (0, 4)
    holdfast("status", "a", expect=0)
    assert _content(directory) == before


def test_D6_a_torn_ending_is_no_ending(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    events = run_of("a").directory.events_path
    with open(events, "ab") as file:
        file.write(b'{"seq":99,"at":"2026-01-01T00:00:00.000000Z","boottime":1,"kind":"ended","out')
    assert known("a").state is State.ORPHANED
    assert recovered(holdfast)["a"]["action"] == "adopted"
    assert known("a").state is State.RUNNING
    assert b"2026-01-01T00" not in Path(events).read_bytes(), "the new holder cut it off"
    stop(holdfast, "a")
    assert known("a").workload["token"] == before.workload["token"]
    assert len(events_of("a", "ended")) == 1


def test_D6_a_torn_ending_of_a_dead_run_is_lost(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    kill(before.workload)
    wait_gone(before.workload)
    with open(run_of("a").directory.events_path, "ab") as file:
        file.write(b'{"seq":5,"kind":"ended","outcome":"succeeded","exit_code":0')
    assert recovered(holdfast)["a"]["action"] == "lost"
    assert known("a").exit_code is None


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_D6_events_that_were_cut_short(holdfast, share):
    directory = _ended_run(holdfast)
    os.truncate(directory.events_path, int(os.path.getsize(directory.events_path) * share))
    _is_kept_as_unknown(holdfast, directory)


def test_D6_events_without_their_ending_line(holdfast):
    directory = _ended_run(holdfast)
    lines = Path(directory.events_path).read_bytes().splitlines(keepends=True)
    Path(directory.events_path).write_bytes(b"".join(lines[:-1]))
    _is_kept_as_unknown(holdfast, directory)


def test_D6_events_of_a_live_run_that_were_emptied(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    workload = known("a").workload
    directory = run_of("a").directory
    whole = Path(directory.events_path).read_bytes()
    os.truncate(directory.events_path, 0)
    info = known("a")
    assert info.state is State.UNKNOWN
    assert "lost the start" in info.evidence
    assert recovered(holdfast)["a"]["action"] == "unknown"
    assert holdfast("rm", "a").returncode == 4
    Path(directory.events_path).write_bytes(whole)
    assert known("a").workload["token"] == workload["token"]
    stop(holdfast, "a")


@pytest.mark.parametrize("line", [b"\0" * 40, b"not json", b"[]", b'{"seq":2,"kind":"ended"}'])
def test_D6_a_damaged_line_in_the_middle(holdfast, line):
    directory = _ended_run(holdfast)
    lines = Path(directory.events_path).read_bytes().splitlines(keepends=True)
    lines[1] = line + b"\n"
    Path(directory.events_path).write_bytes(b"".join(lines))
    _is_kept_as_unknown(holdfast, directory)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("supervised", "shim", {"pid": 7}),
        ("attempt_started", "root", {"pid": 7, "token": "hf1.7"}),
        ("workload_resolved", "workload", {"comm": "sh"}),
        ("workload_resolved", "wrappers", [7]),
    ],
)
def test_D6_a_process_that_no_token_names_is_damage(holdfast, kind, name, value):
    directory = _ended_run(holdfast)
    lines = Path(directory.events_path).read_text().splitlines()
    events = [json.loads(line) for line in lines]
    damaged = [{**event, name: value} if event["kind"] == kind else event for event in events]
    assert damaged != events
    Path(directory.events_path).write_text("".join(json.dumps(e) + "\n" for e in damaged))
    _is_kept_as_unknown(holdfast, directory)
    assert "damaged" in known("a").evidence


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'{"schema":1,"name":"a"}'])
def test_D6_a_damaged_spec(holdfast, content):
    directory = _ended_run(holdfast)
    Path(directory.spec_path).write_bytes(content)
    listed = _listed(holdfast, "--all")[directory.id]
    assert listed["state"] == "unknown"
    assert listed["outcome"] is None
    recovered(holdfast)
    assert holdfast("rm", directory.id).returncode == 4
    assert Path(directory.spec_path).read_bytes() == content
    assert holdfast("rm", "--force", directory.id).returncode == 0
    assert not os.path.exists(directory.path)


def test_D6_a_later_version_is_kept_even_by_force(holdfast):
    directory = _ended_run(holdfast)
    document = json.loads(Path(directory.spec_path).read_bytes())
    document.update(schema=2, new_field={"of": "a later version"})
    Path(directory.spec_path).write_text(json.dumps(document))
    _is_kept_as_unknown(holdfast, directory)
    assert "version 2" in known("a").evidence
    before = _content(directory)
    refused = holdfast("rm", "--force", "a", expect=4)
    assert "version 2" in refused.stdout
    holdfast("archive", "a", expect=4)
    assert _content(directory) == before
    # The name can be used all the same.
    told = holdfast("run", "-n", "a", "true", expect=0)
    assert "unknown" in told.stderr


@pytest.mark.parametrize("has_spec", [True, False])
def test_D6_an_event_of_a_later_version_is_kept_even_by_force(holdfast, has_spec):
    directory = _ended_run(holdfast)
    seq = len(events_of("a")) + 1
    line = {"seq": seq, "at": "2030-01-01T00:00:00.000000Z", "boottime": 1, "kind": "newfangled"}
    with open(directory.events_path, "a") as file:
        file.write(json.dumps(line) + "\n")
    _is_kept_as_unknown(holdfast, directory)
    assert "later version" in known("a").evidence
    assert "newfangled" in known("a").evidence
    if not has_spec:
        os.unlink(directory.spec_path)
    before = _content(directory)
    refused = holdfast("rm", "--force", "a", expect=4)
    assert "later version" in refused.stdout
    cleaned = holdfast("clean", "--keep", "0").stdout
    assert ("later version" if has_spec else "is missing") in cleaned
    assert _content(directory) == before


@pytest.mark.parametrize("changes", [{"seq": 99}, {"kind": "no kind"}, {"at": 3}, {"kind": 7}])
def test_D6_what_no_version_could_have_written_is_damage(holdfast, changes):
    directory = _ended_run(holdfast)
    seq = len(events_of("a")) + 1
    line = {"seq": seq, "at": "2030-01-01T00:00:00.000000Z", "boottime": 1, "kind": "newfangled"}
    with open(directory.events_path, "a") as file:
        file.write(json.dumps({**line, **changes}) + "\n")
    _is_kept_as_unknown(holdfast, directory)
    assert "damaged" in known("a").evidence
    holdfast("rm", "--force", "a", expect=0)


def test_D6_an_orphan_of_an_earlier_version_is_adopted_and_stopped(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    path = Path(run_of("a").directory.spec_path)
    document = json.loads(path.read_bytes())
    # As written by a Holdfast that did not know these yet.
    for name in ("window", "worktree", "resumed_from"):
        del document[name]
    for name in ("resolve_seconds", "independent", "grace_seconds"):
        del document["wanted"][name]
    path.write_text(json.dumps(document))
    assert known("a").state is State.ORPHANED
    assert recovered(holdfast)["a"]["action"] == "adopted"
    stop(holdfast, "a")
    assert settled("a").outcome == "stopped"


def test_D6_an_orphan_with_an_unknown_field_is_kept_as_it_is(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    directory = run_of("a").directory
    content = Path(directory.spec_path).read_bytes()
    document = json.loads(content)
    document["wanted"]["new_limit"] = 1
    Path(directory.spec_path).write_text(json.dumps(document))
    _is_kept_as_unknown(holdfast, directory)
    assert "new_limit" in known("a").evidence
    Path(directory.spec_path).write_bytes(content)
    stop(holdfast, "a")


def test_D6_a_copy_inside_the_home_is_not_believed(holdfast):
    orphan(holdfast, "a", "sleep", "600")
    directory = run_of("a").directory
    copy = directory.sibling(new_id())
    os.mkdir(copy.path)
    for name, content in _content(directory).items():
        Path(copy.path, name).write_bytes(content)
    Path(directory.home.active_path, copy.id).touch()
    assert known(copy.id).state is State.UNKNOWN
    assert "copy" in known(copy.id).evidence
    told = recovered(holdfast)
    assert told["a"]["action"] in ("adopted", "unknown")
    assert len(events_of(copy.id, "supervised")) == 1
    assert holdfast("rm", copy.id).returncode == 4
    stop(holdfast, "a")


def test_D6_a_copied_home_does_not_take_over_a_supervised_run(holdfast, tmp_path):
    """The copy's lock is free, though the run has a shim: its identity gives the copy away."""
    import shutil

    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    copied = tmp_path.parent / f"{tmp_path.name}-copy"
    shutil.copytree(tmp_path, copied, ignore=shutil.ignore_patterns("control"))
    elsewhere = {"HOLDFAST_HOME": str(copied)}
    info = holdfast("status", "a", "--json", env=elsewhere, expect=0).json
    assert info["state"] == "unknown"
    assert "copy" in info["evidence"]
    told = holdfast("recover", "--json", env=elsewhere, expect=0).json["runs"]
    assert [one["action"] for one in told] == ["unknown"]
    assert holdfast("stop", "a", env=elsewhere).returncode == 4
    assert holdfast("rm", "--force", "a", env=elsewhere).returncode == 4
    assert known("a").state is State.RUNNING
    assert known("a").workload["verdict"] == "SAME"
    stop(holdfast, "a")


def test_D6_a_directory_of_another_user_is_not_believed(holdfast):
    needs("root")
    orphan(holdfast, "a", "sleep", "600")
    directory = run_of("a").directory
    os.chown(directory.path, OTHER_UID, OTHER_UID)
    assert known("a").state is State.UNKNOWN
    assert "another user" in known("a").evidence
    assert recovered(holdfast)["a"]["action"] == "unknown"
    assert holdfast("stop", "a").returncode == 4
    os.chown(directory.path, 0, 0)
    stop(holdfast, "a")
