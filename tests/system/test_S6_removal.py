"""S6: what may be alive is not removed or packed away, whatever it is called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile

import pytest

from holdfast.errors import InvalidName, RunNotFound
from holdfast.manage.info import read_run
from holdfast.manage.listing import list_runs
from holdfast.manage.runs import Runs
from holdfast.run.claims import claim_key, read_name
from holdfast.run.directory import RunDirectory
from holdfast.run.facts import State
from holdfast.run.home import Home
from holdfast.run.names import new_id
from tests.support import recovery_scenes
from tests.support.features import needs
from tests.support.kernel_lab import Place, run_in
from tests.support.recovering import kill, kill_shim, known, orphan, over, recovered, wait_gone
from tests.support.running import events_of, settled, stop, wait_for_output
from tests.support.waiting import eventually


def _ended(holdfast, name, *words):
    holdfast("run", "-n", name, *(words or ("true",)), expect=0)
    settled(name)
    return known(name)


def _paths():
    home = Home.locate()
    return {name: sorted(os.listdir(f"{home.path}/{name}")) for name in ("runs", "names", "keys")}


def test_S6_a_running_run_is_refused(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    for words in (("rm",), ("rm", "--force"), ("archive",)):
        refused = holdfast(*words, "a", expect=4)
        assert "a  NOT" in refused.stdout
        assert "stop" in refused.stderr
    assert known("a").state is State.RUNNING
    stop(holdfast, "a")


def test_S6_an_orphan_is_refused_even_by_force(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    for words in (("rm",), ("rm", "--force"), ("archive",)):
        refused = holdfast(*words, "a", expect=4)
        assert str(before.workload["pid"]) in refused.stdout
    assert known("a").state is State.ORPHANED
    stop(holdfast, "a")


DAEMON_STAYS = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"],
                 start_new_session=True)
import time; time.sleep(1.2)
"""


def test_S6_a_member_that_outlived_the_run_is_refused(holdfast):
    """`--leftovers keep`: the run has ended, and one of its processes is alive."""
    holdfast("run", "-n", "a", "--leftovers", "keep", sys.executable, "-c", DAEMON_STAYS, expect=0)
    wait_for_output("a", b"here")
    ended = over("a")
    assert ended.outcome == "succeeded"
    refused = holdfast("rm", "--json", "a", expect=4).json["runs"][0]
    assert refused["removed"] is False
    assert refused["error"]["code"] == "still-alive"
    holdfast("rm", "--force", "a", expect=4)
    holdfast("archive", "a", expect=4)
    tokens = [m["token"] for e in events_of("a", "members_seen") for m in e["members"]]
    alive = [t for t in tokens if os.path.exists(f"/proc/{t.split('.')[1]}")]
    kill({"token": alive[-1], "pid": alive[-1].split(".")[1]})
    eventually(lambda: holdfast("rm", "a").returncode == 0, why="nothing is alive any more")


def test_S6_a_process_that_only_carries_the_stamp_needs_force(holdfast):
    ended = _ended(holdfast, "a")
    env = {**os.environ, "HOLDFAST_RUN_ID": ended.id}
    with subprocess.Popen(["sleep", "600"], env=env) as bystander:
        try:
            told = recovered(holdfast)["a"]
            assert told["action"] == "ended"
            assert [one["pid"] for one in told["suspects"]] == [bystander.pid]
            refused = holdfast("rm", "a", expect=4)
            assert f"{bystander.pid} sleep carries its stamp" in refused.stdout
            holdfast("archive", "a", expect=4)
            done = holdfast("rm", "--force", "a", expect=0)
            assert "by force" in done.stdout
            assert bystander.poll() is None, "no process was signalled"
        finally:
            bystander.kill()


def test_S6_what_cannot_be_told_needs_force():
    needs("root", "pid_namespace")
    facts = run_in(Place(), recovery_scenes.removed_from_another_namespace)
    assert facts["state"] == "unknown"
    assert (facts["rm"], facts["archive"]) == (4, 4)
    assert facts["forced"] == 0


@pytest.mark.parametrize(
    "reference", ["../../x", "..", ".", "/etc/passwd", "a/b", "a\0b", "", "-", "*/", "ä", "x" * 65]
)
def test_S6_a_path_or_a_malformed_name_is_refused(holdfast, tmp_path, reference):
    _ended(holdfast, "a")
    victim = tmp_path.parent / f"{tmp_path.name}-x"
    victim.mkdir()
    before = _paths()
    if "\0" in reference:
        with pytest.raises(InvalidName):
            Runs().get(reference)
    else:
        for verb in ("rm", "archive"):
            for words in ((), ("--force",) if verb == "rm" else ()):
                assert holdfast(verb, *words, "--", reference).returncode == 2
    assert _paths() == before
    assert victim.is_dir()


def test_S6_an_ambiguous_prefix_is_refused(holdfast):
    first, second = _ended(holdfast, "a"), _ended(holdfast, "b")
    length = next(n for n, _ in enumerate(first.id) if first.id[n] != second.id[n])
    refused = holdfast("rm", first.id[:length], expect=2)
    assert "beginning of 2 ids" in refused.stderr
    assert first.id in refused.stderr
    holdfast("rm", first.id[:18], expect=0)
    assert [run["name"] for run in holdfast("ls", "--json").json["runs"]] == ["b"]


def test_S6_a_symbolic_link_in_runs_is_not_followed(holdfast, tmp_path):
    ended = _ended(holdfast, "a")
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    directory = RunDirectory(Home.locate(), ended.id)
    os.rename(directory.path, elsewhere)
    os.symlink(elsewhere, directory.path)
    holdfast("rm", "a")
    assert (elsewhere / "events.jsonl").exists()


def test_S6_rm_removes_all_that_leads_to_the_run(holdfast):
    _ended(holdfast, "a", "--key", "k", "true")
    home = Home.locate()
    with claim_key(home, "k") as claim:
        assert claim.read() is not None
    done = holdfast("rm", "a", expect=0)
    assert "every process that it ever recorded is gone" in done.stdout
    assert _paths() == {"runs": [], "names": [], "keys": []}
    assert os.listdir(home.recent_path) == []
    assert os.listdir(home.removed_path) == []
    holdfast("rm", "a", expect=3)


def test_S6_the_name_leads_to_the_run_before(holdfast):
    first, second = _ended(holdfast, "a"), _ended(holdfast, "a")
    holdfast("rm", second.id, expect=0)
    assert known("a").id == first.id
    assert read_name(Home.locate(), "a") == first.id
    third = _ended(holdfast, "A")
    holdfast("rm", first.id, expect=0)
    assert known("a").id == third.id


def test_S6_several_are_told_one_by_one(holdfast):
    _ended(holdfast, "a")
    holdfast("run", "-n", "b", "sleep", "600", expect=0)
    done = holdfast("rm", "a", "b", "c", "--json", expect=4)
    told = {one["name"]: one for one in done.json["runs"]}
    assert told["a"]["removed"] is True
    assert told["b"]["error"]["code"] == "still-alive"
    assert told["c"]["error"]["code"] == "run-not-found"
    holdfast("rm", "--stop", "b", expect=0)
    assert _paths()["runs"] == []


def test_S6_selectors_mean_ended_runs_and_leave_the_kept(holdfast):
    _ended(holdfast, "a", "--tag", "x=1", "true")
    _ended(holdfast, "b", "--tag", "x=1", "--tag", "keep=yes", "true")
    _ended(holdfast, "c", "--tag", "x=2", "true")
    holdfast("run", "-n", "d", "--tag", "x=1", "sleep", "600", expect=0)
    holdfast("rm", "--tag", "x=1", expect=0)
    left = {run["name"] for run in holdfast("ls", "--all", "--json").json["runs"]}
    assert left == {"b", "c", "d"}
    holdfast("rm", "b", expect=0)  # by name it goes
    stop(holdfast, "d")


def test_S6_rm_right_after_wait(holdfast):
    for _ in range(3):
        holdfast("run", "-n", "a", "true", expect=0)
        holdfast("wait", "a", expect=0)
        holdfast("rm", "a", expect=0)


def test_S6_an_archive_brings_the_run_back(holdfast):
    ended = _ended(holdfast, "a", "sh", "-c", "echo hello; exit 3")
    output = holdfast("logs", "a", expect=0).stdout
    done = holdfast("archive", "--json", "a", expect=0).json["runs"][0]
    assert done["archived"] is True
    assert os.stat(done["path"]).st_mode & 0o777 == 0o600
    holdfast("status", "a", expect=3)
    home = Home.locate()
    with tarfile.open(done["path"]) as archive:
        assert all(member.name.split("/")[0] == ended.id for member in archive)
        archive.extractall(home.runs_path, filter="data")
    back = known("a")
    assert back.replace(wanted=None) == ended.replace(wanted=None)
    assert holdfast("logs", "a", expect=0).stdout == output == "hello\n"
    holdfast("rm", "a", expect=0)


def test_S6_a_lost_run_that_nobody_recorded_can_be_removed(holdfast):
    before = orphan(holdfast, "a", "sleep", "600")
    kill(before.workload)
    wait_gone(before.workload)
    holdfast("rm", "a", expect=0)
    assert _paths()["runs"] == []
    assert Home.locate().run_ids(active=True) == []


def test_S6_a_dead_shim_of_a_run_that_is_starting_is_no_leave_to_remove_it(holdfast):
    crash = {"HOLDFAST_CRASH_AT": "launcher.name-written@launcher"}
    holdfast("run", "-n", "a", "true", env=crash)
    holdfast("rm", "a", expect=0)  # its launcher is dead: nothing was started, nothing can be
    assert _paths()["runs"] == []


def test_S6_a_survivor_is_struck_again_by_a_later_stop_and_then_removed():
    needs("root", "pid_namespace")
    facts = run_in(Place(), recovery_scenes.survivor_of_an_ended_run)
    assert facts["first"]["code"] == 1
    assert facts["survivors"] == 1
    assert facts["rm"] == 4, "a survivor is alive"
    assert facts["again"]["code"] == 1, "it is still held at its exit"
    assert facts["then"]["code"] == 0
    assert facts["left"] == []
    assert facts["cleaned"] >= 2
    assert facts["signals_to_others"] == []
    assert facts["rm_then"] == 0


def test_S6_files_say_what_was_removed_json(holdfast):
    _ended(holdfast, "a")
    done = holdfast("rm", "a", "--json", expect=0)
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert document["runs"][0]["freed_bytes"] > 0


@pytest.mark.parametrize(
    "point", ["remover.locked", "remover.renamed", "remover.unmarked", "remover.unnamed"]
)
def test_S6_a_remover_that_dies_leaves_the_whole_run_or_none(holdfast, point):
    ended = _ended(holdfast, "a")
    holdfast("rm", "a", env={"HOLDFAST_CRASH_AT": f"{point}@remover"})
    home = Home.locate()
    if point == "remover.locked":
        assert known("a") == ended
    else:
        assert home.run_ids() == []
        assert holdfast("status", ended.id).returncode == 3
        assert holdfast("ls", "--json", expect=0).json["runs"] == []
    holdfast("run", "-n", "a", "true", expect=0)
    over("a")
    recovered(holdfast)
    assert not os.path.exists(home.removed_path) or os.listdir(home.removed_path) == []
    assert set(os.listdir(home.recent_path)) <= set(home.run_ids())


def test_S6_what_was_done_before_one_fails_is_told(holdfast):
    _ended(holdfast, "small")
    _ended(holdfast, "big", "sh", "-c", "head -c 3000000 /dev/urandom")
    _ended(holdfast, "last")
    words = ("small", "big", "last")
    limit = ["sh", "-c", 'ulimit -f 2000; exec "$0" "$@"']
    argv = [*limit, *holdfast.argv("archive", "--json", *words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    rows = {row["name"]: row for row in json.loads(done.stdout)["runs"]}
    assert [rows[name]["archived"] for name in words] == [True, False, True]
    assert (rows["big"]["error"]["code"], done.returncode) == ("unavailable", 6)
    assert known("big").outcome == "succeeded"
    assert len(os.listdir(Home.locate().archive_path)) == 2


def test_S6_an_archiver_that_dies_leaves_the_run(holdfast):
    ended = _ended(holdfast, "a")
    holdfast("archive", "a", env={"HOLDFAST_CRASH_AT": "remover.archived@remover"})
    assert known("a") == ended
    holdfast("archive", "a", expect=0)
    assert len(os.listdir(Home.locate().archive_path)) == 1


def test_S6_an_id_that_was_never_a_run(holdfast):
    _ended(holdfast, "a")
    holdfast("rm", new_id(), expect=3)


def test_S6_two_removers_at_once(holdfast):
    _ended(holdfast, "a")
    removers = [
        subprocess.Popen(holdfast.argv("rm", "a"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    codes = []
    for process in removers:
        process.communicate(timeout=60)
        codes.append(process.returncode)
    assert set(codes) <= {0, 3, 4}
    assert codes.count(0) == 1
    assert _paths()["runs"] == []


def test_S6_kill_shim_then_rm_stop(holdfast):
    holdfast("run", "-n", "a", "sleep", "600", expect=0)
    kill_shim("a")
    holdfast("rm", "--stop", "a", expect=0)
    assert _paths()["runs"] == []


def test_S6_a_run_that_is_removed_while_it_is_read_is_not_found(holdfast, monkeypatch):
    """Between its spec and its events: it never looks like a run that was not started."""
    ended = _ended(holdfast, "a")
    directory = RunDirectory(Home.locate(), ended.id)
    read_spec = RunDirectory.read_spec

    def then_removed(self):
        spec = read_spec(self)
        os.rename(self.path, f"{self.path}.removed")
        return spec

    monkeypatch.setattr(RunDirectory, "read_spec", then_removed)
    with pytest.raises(RunNotFound):
        read_run(directory)
    os.rename(f"{directory.path}.removed", directory.path)
    assert list_runs(directory.home) == []
