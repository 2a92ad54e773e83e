"""F6: facts in a real PostgreSQL, each once: killed exporters, a database that is down, slow, cut
off in the middle; homes restored from copies. No run is harmed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.fleet.export.batches import ExportedEvent, FactBatch, RunLook
from holdfast.fleet.export.reading import FactReader
from holdfast.fleet.postgres import _TABLES, PostgresLedger
from holdfast.manage.operations import run_steps
from holdfast.manage.runs import Runs
from tests.fleet.fake_engine import FACTS, request_of, wanted
from tests.fleet.fleet_world import Submitter
from tests.fleet.postgres_cluster import Database
from tests.support.features import needs
from tests.support.waiting import eventually

SECRET = "hunter2-xyzzy-do-not-keep"
EXPORT = ("fleet", "export", "--json")
# The tables as they were made before facts were exported.
EARLIER = """
create table holdfast_placement (
    id text primary key, key text unique, name text not null, is_over boolean not null,
    document jsonb not null, created_at timestamptz not null default now());
create index holdfast_placement_active on holdfast_placement (id) where not is_over;
create index holdfast_placement_name on holdfast_placement (lower(name));
create table holdfast_node (
    node text primary key, engine text not null, target text not null, facts jsonb not null,
    seen_at text not null);
create table holdfast_look (
    id text primary key references holdfast_placement on delete cascade,
    at text not null, run jsonb not null);
"""


class Exporting(Submitter):
    """A node that exports its own home."""

    def configure(self, url: str) -> None:
        self.config.write_text(f'[fleet]\nledger = "{url}"\n')
        os.chmod(self.config, 0o644)

    def lines(self) -> dict[tuple[str, int], bytes]:
        """Every fact of the home, by run and number, with its digest."""
        found = {}
        for path in (self.home / "runs").glob("*/events.jsonl"):
            for line in path.read_text().splitlines():
                facts = json.loads(line)
                head = {name: facts.pop(name) for name in ("seq", "at", "boottime", "kind")}
                event = ExportedEvent(run=path.parent.name, name=None, **head, facts=facts)
                found[event.run, event.seq] = event.digest
        return found

    def begin_true(self, count: int) -> subprocess.Popen[bytes]:
        """So many runs are being started."""
        batch = self.folder / "batch"
        batch.write_text("".join(f'{{"argv": ["true"], "name": "r{at}"}}\n' for at in range(count)))
        return self.start("run", "-q", "--batch", batch)

    def run_true(self, count: int) -> None:
        """So many runs, to their ends."""
        self.await_true(self.begin_true(count))

    def await_true(self, starting: subprocess.Popen[bytes]) -> None:
        _, errors = starting.communicate(timeout=100)
        assert starting.returncode == 0, errors
        self("wait", "r*", expect=0)


def rows(database: Database) -> dict[tuple[str, int], bytes]:
    found = database.rows("select run, seq, digest from holdfast_event")
    return {(run, seq): digest for run, seq, digest in found}


@pytest.fixture
def node(shared: Path, database: Database, ledger: PostgresLedger) -> Iterator[Exporting]:
    """One whose config names the database."""
    assert ledger.nodes() == []
    with exporting(shared, database) as made:
        yield made


@contextlib.contextmanager
def exporting(shared: Path, database: Database) -> Iterator[Exporting]:
    shared.chmod(0o755)
    made = Exporting(shared, os.geteuid(), "node")
    made.configure(database.url)
    yield made
    made("stop", "--all", "--grace", "0")


@pytest.fixture
def mortal(shared: Path) -> Iterator[Database]:
    """A database that the test may stop."""
    needs("psql")
    made = Database(shared / "pg")
    made.start()
    with contextlib.closing(PostgresLedger(made.url)) as ledger:
        assert ledger.nodes() == [], "the tables are made"
    yield made
    made.stop()


@pytest.fixture
def its_node(shared: Path, mortal: Database) -> Iterator[Exporting]:
    with exporting(shared, mortal) as made:
        yield made


def test_F6_each_fact_is_there_once_and_the_rows_are_the_fold_of_them(node, database):
    node("run", "-n", "bad", "-e", f"TOKEN={SECRET}", "sh", "-c", "exit 3", expect=0)
    node("run", "-n", "long", "sleep", "600", expect=0)
    node("wait", "bad")
    (told,) = node(*EXPORT, expect=0).json["nodes"]
    assert (told["on"], told["events"], told["runs"]) == (None, len(node.lines()), 2)
    assert rows(database) == node.lines()
    query = "select name, last_seq, outcome, exit_code, looked_state, ended_at from holdfast_run"
    bad, long = database.rows(f"{query} order by name")
    numbers = {run: max(seq for one, seq in node.lines() if one == run) for run, _ in node.lines()}
    assert bad[0:5] == ("bad", numbers[node.info("bad")["id"]], "failed", 3, "ended")
    assert bad[5].isoformat().replace("+00:00", "Z") == node.info("bad")["ended_at"]
    assert long == ("long", numbers[node.info("long")["id"]], None, None, "running", None)
    (again,) = node(*EXPORT, expect=0).json["nodes"]
    assert (again["events"], again["conflicts"]) == (0, [])
    kept = database.rows("select to_jsonb(e)::text from holdfast_event e")
    assert SECRET not in str(kept)
    os.kill(node.info("long")["shim"]["pid"], signal.SIGKILL)
    eventually(lambda: node.info("long")["state"] == "orphaned", 60)
    node(*EXPORT, expect=0)
    (look,) = database.rows("select looked_state, outcome from holdfast_run where name = 'long'")
    assert look == ("orphaned", None), "nobody has recorded an ending, and none is invented"


def kill_exporters(
    node: Exporting, database: Database, *, kills: int, runs: int, seed: int = 6
) -> None:
    """Exporters are killed and the database is cut off while runs come and go."""
    chance = random.Random(seed)
    for at in range(kills):
        exporter = node.start("fleet", "export", "--follow")
        starting = node.begin_true(runs)
        try:
            if at == kills // 2:
                database.stop()
                database.start()
            with pytest.raises(subprocess.TimeoutExpired):  # at any moment
                exporter.wait(chance.uniform(0.1, 2))
        finally:
            exporter.kill()
            exporter.communicate()
        node.await_true(starting)
    database.stop()
    down = node(*EXPORT)
    assert (down.returncode, "PostgreSQL" in down.stdout) == (6, True), down
    node.run_true(1)
    database.start()
    node(*EXPORT, expect=0)
    assert rows(database) == node.lines()
    assert database.rows("select count(*) from holdfast_event where conflict") == [(0,)]
    outcomes = database.rows("select distinct outcome from holdfast_run")
    assert outcomes == [("succeeded",)], "no run was harmed"


def test_F6_exporters_are_killed_and_the_database_is_cut_off_while_runs_come_and_go(
    its_node, mortal
):
    kill_exporters(its_node, mortal, kills=4, runs=6)


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(5))
def test_F6_many_exporters_are_killed(seed, its_node, mortal):
    kill_exporters(its_node, mortal, kills=20, runs=15, seed=seed)


def test_F6_follow_goes_on_when_a_database_is_back_or_slow_and_a_listener_hears_it(
    its_node, mortal
):
    node, database = its_node, mortal
    following = node.start("fleet", "export", "--follow", "--json")
    try:
        eventually(lambda: database.rows("select from holdfast_export"), 60, "it began")
        with database.connect() as listener:
            listener.execute("listen holdfast")
            node("run", "-n", "a", "sleep", "600", expect=0)
            told = next(listener.notifies(timeout=60)).payload.split()
        assert told[1] == node.info("a")["id"]
        with database.connect() as other, other.transaction():  # slow: it has to wait for a lock
            other.execute("lock table holdfast_run")
            node.run_true(1)
            assert node.info("a")["state"] == "running"
        eventually(lambda: rows(database) == node.lines(), 60, "the lock is gone")
        database.pause()
        try:
            node.run_true(1)
        finally:
            database.resume()
        eventually(lambda: rows(database) == node.lines(), 60, "it answers again")
        database.stop()
        node.run_true(1)
        database.start()
        eventually(lambda: rows(database) == node.lines(), 60, "it is back")
        assert following.poll() is None
    finally:
        following.terminate()
        _, said = following.communicate(timeout=60)
    assert b"going on when it is back" in said
    assert node.info("a")["state"] == "running"


def test_F6_several_exporters_of_one_node_at_once(node, database):
    node.run_true(8)
    every = [node.start(*EXPORT) for _ in range(3)]
    outputs = [one.communicate(timeout=100) for one in every]
    assert [one.returncode for one in every] == [0, 0, 0], outputs
    assert sum(json.loads(out)["nodes"][0]["events"] for out, _ in outputs) == len(node.lines())
    assert rows(database) == node.lines()


def export_around_a_copy(
    node: Exporting, export: Submitter, *on: str, copy: Path
) -> dict[str, Any]:
    """The run `a` is exported before and after its end, its home is restored from between both."""
    export(*EXPORT, *on, expect=0)
    shutil.copytree(node.home, copy, ignore=shutil.ignore_patterns("control"))
    node("stop", "a", "--grace", "0", expect=0)
    export(*EXPORT, *on, expect=0)
    shutil.rmtree(node.home)
    shutil.copytree(copy, node.home)
    for path in (node.home, *node.home.rglob("*")):
        os.chown(path, node.uid, node.uid)
    node("recover", expect=0)  # what is gone is recorded once more, as it is seen now
    told = export(*EXPORT, *on)
    assert (told.returncode, "restored from a copy" in told.stderr) == (1, True), told
    (conflict,) = told.json["nodes"][0]["conflicts"]
    return dict(conflict)


def test_F6_a_home_restored_from_a_copy_is_told(node, database, shared):
    run_id = node("run", "-n", "a", "--json", "sleep", "600", expect=0).json["id"]
    conflict = export_around_a_copy(node, node, copy=shared / "copy")
    assert conflict["run"] == run_id
    query = "select seq, facts->>'outcome' from holdfast_event where conflict order by seq"
    flagged = dict(database.rows(query))
    assert set(conflict["seqs"]) <= set(flagged)
    assert "stopped" in flagged.values(), "the first is kept"
    node.run_true(1)
    (fine,) = node(*EXPORT, expect=0).json["nodes"]
    assert (fine["conflicts"], fine["runs"]) == ([], 1), "only what is new"
    assert database.rows("select outcome from holdfast_run where name = 'a'") == [("stopped",)]


@pytest.mark.usefixtures("ledger")
def test_F6_the_same_when_its_facts_are_pulled(world, database, shared):
    submitter, there = world.submitter(), world.node("n1")
    world.configure(f'[fleet]\nledger = "{database.url}"\n')
    node = Exporting(shared, world.uid, "local")
    node.home = there.home
    on = ("--on", "ssh:n1")
    submitter("run", *on, "-n", "a", "sleep", "600", expect=0)
    export_around_a_copy(node, submitter, *on, copy=shared / "copy")
    there.stop()
    silent = submitter.info("a")
    assert (silent["state"], silent["outcome"]) == ("ended", "stopped")
    assert "restored from a copy" in silent["evidence"]


def test_a_cursor_that_the_home_has_not_given_makes_it_give_everything_again(tmp_path):
    runs = Runs(tmp_path / "home")
    run = runs.start(["true"])
    run.wait()

    def read(cursor: str | None) -> list[FactBatch]:
        with FactReader(runs, cursor, follow=False) as reader:
            return list(iter(lambda: run_steps(reader.next_batch()), None))

    (first,) = read(None)
    (none,) = read(first.cursor)
    assert (len(first.events) > 3, none.events, none.cursor) == (True, (), None)
    for unknown in ("e1..", "not even a cursor"):
        (again,) = read(unknown)
        assert (again.is_reread, again.events) == (True, first.events)


def test_what_postgresql_can_not_hold_stops_no_export(ledger, database):
    placed = ledger.intend(wanted(None, request_of()))
    odd = {
        "text": "ü\0\udc80",
        "number": float("nan"),
        "\0": 1,
        "ended_at": 7,
        "exit_code": 1 << 40,
    }
    event = ExportedEvent(placed.id, "\0", 1, "soon", 1.5, "ended", odd)
    look = RunLook(placed.id, "2026-11-18T11:16:09Z", True, {"state": "running", "odd": odd})
    assert ledger.store(FACTS, FactBatch((event,), (look,), "c1"), None).added == (placed.id,)
    assert ledger.cursor_of(FACTS.node) == "c1"
    ((facts, at, ended_at),) = database.rows(
        "select e.facts, e.at, r.ended_at from holdfast_event e join holdfast_run r using (run)"
    )
    assert (facts["text"], facts["number"], at, ended_at) == ("ü\ufffd\ufffd", None, None, None)
    assert ledger.recall(placed.id).run["odd"] == facts
    ledger.remember(placed.id, {"state": "running", "odd": odd})
    assert ledger.store(FACTS, FactBatch((), (), "c2"), "other").is_behind
    assert ledger.cursor_of(FACTS.node) == "c1", "another exporter was first"


def test_a_database_of_an_earlier_version_gets_the_tables(database, ledger):
    ledger._do(f"drop table {', '.join(_TABLES)}")
    ledger._do(EARLIER)
    facts: dict[str, Any] = {
        "node": "0" * 20,
        "host": "0",
        "hostname": "n",
        "boot_id": None,
        "home": "/h",
    }
    facts |= {"version": "0", "protocol": 1, "options": []}
    ledger._do(
        "insert into holdfast_node values ('00000000000000000000', 'ssh', 'ssh:n', %s, 'now')",
        (json.dumps(facts),),
    )
    later = PostgresLedger(database.url)
    try:
        (known,) = later.nodes()
        assert (known.facts.hostname, known.exported_at) == ("n", None)
        assert later.cursor_of(known.facts.node) is None
    finally:
        later.close()


def test_a_role_that_may_not_create_tables_can_use_them(database, ledger):
    ledger._do("create role plain login")
    try:
        ledger._do("grant select, insert, update, delete on all tables in schema public to plain")
        plain = PostgresLedger(database.url.replace("//hf@", "//plain@"))
        assert plain.nodes() == []
        plain.close()
    finally:
        ledger._do("drop owned by plain")
        ledger._do("drop role plain")


@pytest.mark.usefixtures("ledger")
def test_F5_what_a_silent_node_has_exported_is_shown(world, database):
    submitter = world.submitter()
    there = world.node("n1")
    world.configure(f'[fleet]\nledger = "{database.url}"\n')
    env = ("-e", f"TOKEN={SECRET}")
    submitter("run", "--on", "ssh:n1", "-n", "bad", *env, "sh", "-c", "exit 3", expect=0)
    submitter("run", "--on", "ssh:n1", "-n", "long", "sleep", "600", expect=0)
    world.on(there, "wait", "bad")
    submitter("fleet", "export", "--on", "ssh:n1", expect=0)
    (node,) = submitter("fleet", "nodes", "--json", expect=0).json["nodes"]
    assert node["exported_at"] is not None
    assert (node["engine"], node["active"]) == ("ssh", 1), "that one has ended was exported"
    for table in ("placement", "look", "run", "event", "node", "export"):
        kept = database.rows(f"select to_jsonb(t)::text from holdfast_{table} t")
        assert kept, table
        assert SECRET not in str(kept), table
    there.stop()
    bad, long = submitter.info("bad"), submitter.info("long")
    assert (bad["state"], bad["outcome"], bad["exit_code"]) == ("ended", "failed", 3)
    assert "exported at" in bad["evidence"]
    (fact,) = database.rows("select last_seq from holdfast_run where name = 'long'")
    assert (long["state"], long["outcome"]) == ("unknown", None)
    assert f"last fact: {fact[0]} " in long["evidence"]
    assert submitter("wait", "bad").returncode == 3
    assert submitter("wait", "long", "--timeout", "0").returncode == 75
    listed = {one["name"]: one for one in submitter("ls", "--fleet", "--json").json["runs"]}
    assert (listed["bad"]["outcome"], listed["long"]["state"]) == ("failed", "unknown")
    silent = submitter("fleet", "export", "--on", "ssh:n1")
    assert (silent.returncode, "can't be reached" in silent.stderr) == (6, True)


def test_without_a_database_export_says_what_it_needs(holdfast):
    said = holdfast("fleet", "export")
    assert (said.returncode, "postgresql://" in said.stderr) == (2, True)
    for where in ("slurm", "ray"):
        assert holdfast("fleet", "export", "--on", where).returncode == 2
    assert holdfast("fleet", "nodes", "--follow").returncode == 2
