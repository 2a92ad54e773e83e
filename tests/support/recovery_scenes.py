"""Runs that lose their shims in places of their own: PID namespaces, other boots."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from tests.support import recycling
from tests.support.kernel_lab import Place, announce, run_in, start_in
from tests.support.recovering import gated, kill, kill_shim
from tests.support.running import ended, events_of, info_of, run_of, settled
from tests.support.tracer import held_at_exit
from tests.support.waiting import eventually

Facts = dict[str, Any]


def holdfast(*words: object, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
    """The command line, in the scene's own home."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if expect is not None and done.returncode != expect:
        raise AssertionError(f"exit {done.returncode}: {done}")
    return done


def recover(*words: object) -> dict[str, Facts]:
    """What `recover` told, by name."""
    told = json.loads(holdfast("recover", "--json", *words).stdout)
    return {one["name"]: one for one in told["runs"]}


def own_home() -> Path:
    """A home that goes with the scene's temporary directory."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-scene-"))
    os.environ["HOLDFAST_HOME"] = str(home)
    return home


def adopted_below_a_lazy_init() -> Facts:
    """D1 where PID 1 reaps nobody."""
    gate = own_home() / "gate"
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    kill_shim("a")
    recover()
    gate.touch()
    info = ended("a")
    pid = events_of("a", "attempt_started")[0]["root"]["pid"]
    return {
        "exit_code": info.exit_code,
        "outcome": info.outcome,
        "how": events_of("a", "root_exited")[0]["how"],
        "zombie": recycling.await_state(pid, "Z") == "Z",
    }


def found_as_a_zombie() -> Facts:
    """It ended while nobody watched, and PID 1 has not reaped it."""
    gate = own_home() / "gate"
    holdfast("run", "-n", "a", *gated(gate, "exit 42"))
    kill_shim("a")
    gate.touch()
    recycling.await_state(events_of("a", "attempt_started")[0]["root"]["pid"], "Z")
    told = recover()["a"]
    info = info_of("a")
    return {"action": told["action"], "outcome": info.outcome, "exit_code": info.exit_code}


def recycled_workload() -> Facts:
    """Shim and workload are gone, and a stranger has the workload's PID."""
    own_home()
    run_id, workload, stranger = _replaced_workload()
    facts: Facts = {
        "derived": info_of("a").evidence,
        "told": recover()["a"],
        "stop": holdfast("stop", "a").stdout,
        "verdict": str(ProcessIdentity.from_json(workload).verdict()),
        "outcome": info_of("a").outcome,
    }
    holdfast("run", "-n", "a", "true")
    facts["rm"] = holdfast("rm", settled("a").id).returncode
    facts["rm old"] = holdfast("rm", run_id).returncode
    facts["untouched"] = stranger.untouched()
    stranger.end()
    return facts


def listed_after_recycling() -> Facts:
    """What `ls` and the document say of a run whose workload's PID a stranger has."""
    own_home()
    _, workload, stranger = _replaced_workload()
    facts: Facts = {"pid": workload["pid"], "derived": _listed("a")}
    recover()
    facts["recorded"] = _listed("a")
    facts["untouched"] = stranger.untouched()
    stranger.end()
    facts["later"] = _listed("a")
    return facts


def _replaced_workload() -> tuple[str, Facts, recycling.Child]:
    """The id of a run that lost its shim and its workload, that one, and who got its PID."""
    holdfast("run", "-n", "a", "sleep", "600")
    before = info_of("a")
    assert before.workload is not None
    workload = before.workload.to_json()
    kill_shim("a")
    kill(before.workload)
    number = workload["pid"]
    eventually(lambda: not os.path.exists(f"/proc/{number}"), why="it is reaped")
    return before.id, workload, recycling.spawn(number)


def _listed(name: str) -> Facts:
    document = json.loads(holdfast("status", "--json", name).stdout)
    done = holdfast("ls", expect=0)
    named = ("outcome", "is_recorded", "loss", "vouched", "stop_reason")
    told = {field: document[field] for field in named}
    return {**told, "ls": done.stdout, "hints": done.stderr}


def listed_in(home: str, name: str) -> Facts:
    """The same from this place."""
    os.environ["HOLDFAST_HOME"] = home
    return _listed(name)


def recover_in(home: str, words: list[str]) -> dict[str, Facts]:
    """Look at a home from this place."""
    os.environ["HOLDFAST_HOME"] = home
    return recover(*words)


def recover_by_id(home: str, words: list[str]) -> dict[str, Facts]:
    """The same, by id: for where a name was used twice."""
    os.environ["HOLDFAST_HOME"] = home
    told = json.loads(holdfast("recover", "--json", *words).stdout)
    return {one["id"]: one for one in told["runs"]}


def stands(home: str, name: str) -> Facts:
    """How a run looks from this place."""
    os.environ["HOLDFAST_HOME"] = home
    info = info_of(name)
    return {"state": info.state, "outcome": info.outcome, "evidence": info.evidence}


def command_in(home: str, words: list[str]) -> Facts:
    """The command line from this place."""
    os.environ["HOLDFAST_HOME"] = home
    done = holdfast(*words, expect=None)
    return {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def removed_from_another_namespace() -> Facts:
    """An orphan of an inner namespace, looked at from another one that can't see it."""
    home = str(own_home())
    with start_in(Place(env={"HOLDFAST_HOME": home}), _orphan_and_wait) as scene:
        scene.announced()
        seen = run_in(Place(), stands, home=home, name="a")
        codes = {
            word: run_in(Place(), command_in, home=home, words=words)["code"]
            for word, words in (
                ("rm", ["rm", "a"]),
                ("archive", ["archive", "a"]),
                ("forced", ["rm", "--force", "a"]),
            )
        }
    return {"state": seen["state"], **codes}


def _orphan_and_wait() -> None:
    holdfast("run", "-n", "a", "sleep", "600")
    kill_shim("a")
    announce(info_of("a").state)
    signal.pause()


def other_namespaces() -> Facts:
    """A container is gone, another lives: what recover says with and without the user's word."""
    home = str(own_home())
    with start_in(Place(env={"HOLDFAST_HOME": home}), _orphan_and_wait) as scene:
        scene.announced()
        # Held open, its number is not given to the next namespace.
        (init,) = procfs.children(scene.process.pid) or []
        namespace = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY)
        facts: Facts = {"live, unseen": run_in(Place(), recover_in, home=home, words=[])["a"]}
        os.environ["HOLDFAST_HOME"] = home
        # From above, the workload is seen by its inode: the word does not outweigh that.
        facts["from above"] = recover("--other-namespaces-gone", "--dry-run")["a"]
    old = info_of("a").id
    facts["gone, no word"] = run_in(Place(), recover_in, home=home, words=[])["a"]
    facts["start"] = run_in(Place(), command_in, home=home, words=["run", "-n", "a", "true"])
    words = ["--other-namespaces-gone"]
    facts["gone, word"] = run_in(Place(), recover_by_id, home=home, words=words)[old]
    facts["again"] = run_in(Place(), recover_by_id, home=home, words=words)
    os.close(namespace)
    return facts


def vouched_for() -> Facts:
    """A container is gone; the user gives their word for it."""
    home = str(own_home())
    with start_in(Place(env={"HOLDFAST_HOME": home}), _orphan_and_wait) as scene:
        scene.announced()
        (init,) = procfs.children(scene.process.pid) or []
        namespace = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY)
    words = ["--other-namespaces-gone"]
    run_in(Place(), recover_in, home=home, words=words)
    facts: Facts = run_in(Place(), listed_in, home=home, name="a")
    os.close(namespace)
    return facts


def survivor_of_an_ended_run() -> Facts:
    """A member is held at its exit while the run is stopped, and is let go later."""
    own_home()
    bystander = recycling.spawn()
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)"
    holdfast("run", "-n", "a", sys.executable, "-c", code)
    root = events_of("a", "attempt_started")[0]["root"]["pid"]
    (child,) = eventually(lambda: procfs.children(root), why="it forked")
    eventually(lambda: str(child) in _seen("a"), why="the shim has seen the child")
    with held_at_exit(child):
        first = _stopped()
        facts: Facts = {"first": first, "survivors": len((info_of("a").cleanup or {})["survivors"])}
        facts["rm"] = holdfast("rm", "a", expect=None).returncode
        facts["again"] = _stopped()
    facts["then"] = _stopped()
    facts["left"] = (info_of("a").cleanup or {})["survivors"]
    facts["cleaned"] = len(events_of("a", "cleaned"))
    ours = {str(root), str(child)}
    rows = run_of("a").directory.read_signals()
    facts["signals_to_others"] = [r for r in rows if r["to"].split(".")[1] not in ours]
    facts["rm_then"] = holdfast("rm", "a", expect=None).returncode
    assert bystander.untouched()
    bystander.end()
    return facts


def _seen(name: str) -> str:
    return str([event["members"] for event in events_of(name, "members_seen")])


def _stopped() -> Facts:
    done = holdfast("stop", "--grace", "0", "a", expect=None)
    return {"code": done.returncode, "stdout": done.stdout}
