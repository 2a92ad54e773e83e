"""What runs used outlives them: one line for each in `usage.jsonl`, whoever removes them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.manage.runs import Runs
from holdfast.run.home import Home
from holdfast.run.usage import kept
from holdfast.run.usage.kept import add_line, usage_line
from holdfast.run.usage.reading import UsageKeeper, read_kept
from tests.support.pretend_claude import install
from tests.support.recovering import kill, kill_shim
from tests.support.running import info_of, run_of, settled, start_all, wait_for
from tests.support.spending import start_turn, tokens


@pytest.fixture
def claude(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return install(tmp_path)


def _home() -> Home:
    return Runs().home


def _lines() -> list[dict[str, Any]]:
    text = Path(_home().usage_path).read_text()
    return [json.loads(line) for line in text.splitlines() if line]


def _total(holdfast: Any, *words: object) -> dict[str, Any]:
    total: dict[str, Any] = holdfast("usage", "--json", *words, expect=None).json["total"]
    return total


def _spend(holdfast: Any, claude: str, name: str, steps: int = 2, *options: object) -> None:
    start_turn(holdfast, claude, f"steps={steps}", *options, name=name)
    assert settled(name).outcome == "succeeded"


def test_a_budget_of_all_can_not_be_passed_by_removing_runs(holdfast, claude):
    _spend(holdfast, claude, "a", 2, "--tag", "team=web")
    _spend(holdfast, claude, "b", 3)
    before = _total(holdfast)
    assert (before["runs"], before["tokens_in"], before["tokens_out"]) == (2, *tokens(5))
    assert before["cost_usd"] == pytest.approx(0.05)
    parts = holdfast("usage", "--json", "--by", "tag").json["by"]["tag"]
    over = holdfast("usage", "--since", "1d", "--budget", "0.04", expect=1)
    assert "over the budget: $0.05 of $0.04 ($0.01 over)" in over.stderr
    assert "within the budget" in holdfast("usage", "--budget", "0.05", expect=0).stderr

    holdfast("rm", "a", expect=0)
    holdfast("clean", "--keep", "0", expect=0)
    assert holdfast("ls", "--all", "--json").json["runs"] == []
    assert _total(holdfast) == before
    assert holdfast("usage", "--json", "--by", "tag").json["by"]["tag"] == parts
    holdfast("usage", "--since", "1d", "--budget", "0.04", expect=1)
    document = holdfast("usage", "--json", "--budget", "$0.04", expect=1).json
    assert document["budget"] == {"max_cost_usd": 0.04, "is_over": True}
    assert _total(holdfast, "--by", "agent")["runs"] == 2
    assert Runs(tags={"team": "web"}).usage().total.runs == 1
    assert Runs().usage(since=2_000_000_000).total.runs == 0


def test_one_line_for_each_and_a_run_that_comes_back_counts_once(holdfast, claude):
    _spend(holdfast, claude, "a")
    (line,) = _lines()
    assert line["id"] == run_of("a").id
    assert (line["tokens_in"], line["agent"], line["outcome"]) == (2000, "claude", "succeeded")
    assert "steps" not in json.dumps(line)  # no words of the command
    before = _total(holdfast)
    archive = holdfast("archive", "a", "--json", expect=0).json
    assert _total(holdfast) == before
    (packed,) = Path(_home().archive_path).iterdir()
    subprocess.run(["tar", "-xzf", packed, "-C", _home().runs_path], check=True)
    assert info_of("a").outcome == "succeeded"
    assert archive
    assert _total(holdfast) == before
    assert len(_lines()) == 1


def test_a_directory_that_somebody_deletes_is_counted_all_the_same(holdfast, claude):
    _spend(holdfast, claude, "a")
    before = _total(holdfast)
    shutil.rmtree(run_of("a").directory.path)
    assert _total(holdfast) == before


def test_an_active_run_counts_by_what_it_has_used_so_far(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=2 wait")
    wait_for("a", lambda info: (info.usage or {}).get("tokens_out") == 50, why="one message")
    # A line that a refused removal left must not stand for a run that goes on.
    add_line(_home(), usage_line(run_of("a").id, None, None))
    assert _total(holdfast)["tokens_in"] == 1000
    (tmp_path / "go2").touch()
    settled("a")
    assert _total(holdfast)["tokens_in"] == 2000
    holdfast("rm", "a", expect=0)
    assert _total(holdfast)["tokens_in"] == 2000


@pytest.mark.parametrize("point", ["shim.ended-synced", "shim.summary-written", "shim.usage-kept"])
def test_a_shim_that_dies_around_the_line_leaves_one_that_counts_once(holdfast, claude, point):
    die = {"HOLDFAST_CRASH_AT": f"{point}@shim"}
    start_turn(holdfast, claude, "steps=2", env=die)
    wait_for("a", lambda info: info.outcome, why="its ending is recorded")
    directory = run_of("a").directory
    wait_for("a", lambda _: not directory.lock_is_held(), why="its shim is dead")
    assert _total(holdfast)["tokens_in"] == 2000
    holdfast("recover", expect=0)
    assert _total(holdfast)["tokens_in"] == 2000
    holdfast("rm", "a", expect=0)
    assert _total(holdfast)["tokens_in"] == 2000
    assert {line["id"] for line in _lines()} == {directory.id}


@pytest.mark.parametrize(
    "point", ["remover.locked", "remover.usage-kept", "remover.renamed", "remover.unnamed"]
)
def test_a_remover_that_dies_on_the_way_changes_no_sum(holdfast, claude, point):
    _spend(holdfast, claude, "a")
    Path(_home().usage_path).unlink()  # as a run of an earlier version, which has no line
    holdfast("rm", "a", env={"HOLDFAST_CRASH_AT": point})
    assert _total(holdfast)["tokens_in"] == 2000
    holdfast("rm", "a")
    assert _total(holdfast)["tokens_in"] == 2000
    assert len(_lines()) == 1


def test_many_removers_at_once_keep_each_line_once(holdfast, claude):
    for number in range(6):
        holdfast("run", "-n", f"r{number}", "--agent", "none", "true", expect=0)
        settled(f"r{number}")
    Path(_home().usage_path).unlink()
    commands = [["clean", "--keep", "0"], ["rm", "--all"], ["rm", "r1", "r2"], ["usage", "--json"]]
    start_all(holdfast, commands)
    holdfast("clean", "--keep", "0", expect=0)
    assert holdfast("ls", "--all", "--json").json["runs"] == []
    assert _total(holdfast)["runs"] == 6
    assert len({line["id"] for line in _lines()}) == 6
    assert claude


def test_a_lost_run_and_one_removed_by_force_are_counted(holdfast, claude, tmp_path):
    start_turn(holdfast, claude, "steps=2 wait")
    wait_for("a", lambda info: (info.usage or {}).get("tokens_out") == 50, why="one message")
    workload = info_of("a").workload
    kill_shim("a")
    kill(workload)
    wait_for("a", lambda info: info.outcome == "lost", why="nobody saw its end")
    holdfast("rm", "--force", "a", expect=0)
    total = _total(holdfast)
    assert (total["runs"], total["tokens_in"]) == (1, 1000)
    assert tmp_path.exists()


def test_damaged_lines_are_told_and_the_rest_counts(holdfast, claude):
    _spend(holdfast, claude, "a")
    whole = Path(_home().usage_path).read_text().strip()
    torn = whole[: len(whole) // 2]
    strange = [
        {"id": "../../etc"},
        {**json.loads(whole), "id": "0" * 20, "cost_usd": -5},
        {**json.loads(whole), "id": "1" * 20, "cost_usd": "much"},
        {**json.loads(whole), "id": "2" * 20, "tags": [1]},
        [1, 2],
    ]
    with open(_home().usage_path, "a") as file:
        file.write(torn)  # a full disk
    add_line(_home(), {**json.loads(whole), "id": "3" * 20})
    with open(_home().usage_path, "a") as file:
        file.writelines(json.dumps(one) + "\n" for one in strange)
        file.write("\0\xff not json\n")
    told = holdfast("usage", expect=0)
    assert "7 lines of usage.jsonl can't be read" in told.stderr
    document = holdfast("usage", "--json", expect=0).json
    assert document["damaged_lines"] == 7
    assert document["total"]["runs"] == 2
    holdfast("rm", "a", expect=0)
    assert _total(holdfast)["runs"] == 2


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_a_file_that_is_not_ours_is_refused_and_no_run_suffers(holdfast, claude, tmp_path, kind):
    path, elsewhere = Path(_home().usage_path), tmp_path / "elsewhere"
    _home().prepare()
    if kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    _spend(holdfast, claude, "a")
    assert not elsewhere.exists()
    refused = holdfast("rm", "a", expect=4)
    assert str(path) in refused.stderr
    assert str(path) in holdfast("usage").stderr
    assert info_of("a").outcome == "succeeded"
    path.rmdir() if kind == "directory" else path.unlink()
    holdfast("rm", "a", expect=0)
    assert _total(holdfast)["tokens_in"] == 2000


def test_the_file_is_bounded_and_the_newest_lines_stay(monkeypatch):
    monkeypatch.setattr(kept, "LARGEST_BYTES", 20_000)
    home = _home().prepare()
    line = usage_line("0" * 20, None, None)
    for number in range(1000):
        add_line(home, {**line, "id": f"{number:020}"})
    sizes = [os.path.getsize(path) for path in (home.usage_path, home.older_usage_path)]
    assert max(sizes) < 21_000
    found = sorted(read_kept(home).by_id)
    assert found == [f"{number:020}" for number in range(1000 - len(found), 1000)]
    assert len(found) * len(json.dumps(line)) > 15_000
    long = {**line, "id": "9" * 20, "tags": {"k": "v" * 10_000}}
    add_line(home, long)
    assert read_kept(home).by_id["9" * 20]["tags"] == {}


def test_what_is_added_while_the_file_is_full_is_not_lost(monkeypatch):
    """Two processes and a rotation: who has the file open adds to it under its new name."""
    home = _home().prepare()
    line = usage_line("0" * 20, None, None)
    add_line(home, {**line, "id": "1" * 20})
    opened = os.open(home.usage_path, os.O_WRONLY | os.O_APPEND)
    monkeypatch.setattr(kept, "LARGEST_BYTES", 10)
    add_line(home, {**line, "id": "2" * 20})
    os.write(opened, json.dumps({**line, "id": "3" * 20}).encode() + b"\n")
    os.close(opened)
    assert not os.path.exists(home.usage_path)
    assert sorted(read_kept(home).by_id) == ["1" * 20, "2" * 20, "3" * 20]


def test_a_keeper_reads_once_and_adds_what_is_missing():
    home = _home().prepare()
    line = usage_line("0" * 20, None, None)
    keeper = UsageKeeper(home)
    for _ in range(2):
        keeper.keep({**line, "id": "1" * 20})
    UsageKeeper(home).keep({**line, "id": "1" * 20})
    assert len(_lines()) == 1
