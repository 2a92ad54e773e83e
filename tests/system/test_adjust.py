"""`adjust`: limits of a run that goes on, changed, recorded and in force; also for its adopter."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest

from holdfast import AsyncRuns
from holdfast.errors import InvalidOption, Refused, WrongUse
from holdfast.manage.operations import run_steps
from holdfast.manage.shim_client import open_link
from holdfast.options import ADJUSTABLE
from tests.support import running
from tests.support.recovering import kill_shim, recovered
from tests.support.running import events_of, info_of, loaded_shim, run_of, stop, wait_for

ended: Any = running.ended
SLEEP = ("sleep", "600")


def _start(holdfast: Any, *words: object, command: tuple[str, ...] = SLEEP) -> None:
    holdfast("run", "-n", "a", *words, "--", *command, expect=0)
    loaded_shim("a")


@pytest.mark.parametrize(
    ("limit", "outcome", "reason"),
    [
        ({"timeout": "{soon}"}, "timed_out", "timeout"),
        ({"idle_timeout": "0.3s"}, "stalled", "idle"),
        ({"silence_timeout": "0.3s"}, "stalled", "silence"),
    ],
)
def test_a_limit_that_is_given_later_is_in_force(holdfast, limit, outcome, reason):
    _start(holdfast)
    ((name, value),) = limit.items()
    if value == "{soon}":  # counted from the start of the run
        value = (info_of("a").duration_seconds or 0) + 2
    run_of("a").adjust(**{name: value})
    info = ended("a")
    assert (info.outcome, info.stop_reason) == (outcome, reason)


def test_a_limit_is_moved_and_taken_away_and_an_adopter_keeps_to_it(holdfast):
    _start(holdfast, "--timeout", "100", "--idle-timeout", "100", "--grace", "1s")
    before = info_of("a")
    said = holdfast("adjust", "a", "--timeout", "2h", "--idle-timeout", "none", expect=0).stdout
    assert said == "a  --timeout 1m40s -> 2h\na  --idle-timeout 1m40s -> none\n"
    info: Any = info_of("a")
    assert (info.wanted["timeout_seconds"], info.wanted["idle_timeout_seconds"]) == (7200, None)
    assert info.deadline_at > before.deadline_at
    kill_shim("a")
    recovered(holdfast)
    info = info_of("a")
    assert (info.wanted["timeout_seconds"], info.wanted["idle_timeout_seconds"]) == (7200, None)
    run_of("a").adjust(timeout=info.duration_seconds + 2)
    assert ended("a").outcome == "timed_out"
    assert [set(one["changes"]) for one in events_of("a", "adjusted")] == [
        {"timeout_seconds", "idle_timeout_seconds"},
        {"timeout_seconds"},
    ]


def test_the_memory_of_its_tree(holdfast):
    grow = "import time; held = bytearray(60 << 20); print('grown', flush=True); time.sleep(600)"
    _start(holdfast, command=("python3", "-c", grow))
    running.wait_for_output("a", b"grown")
    refused = holdfast("adjust", "a", "--memory-max", "20M", expect=4)
    assert "of memory already" in refused.stderr
    assert events_of("a", "adjusted") == []
    holdfast("adjust", "a", "--memory-max", "2G", expect=0)
    assert info_of("a").state == "running"
    stop(holdfast, "a")


def test_what_is_passed_already_is_refused_and_changes_nothing(holdfast):
    _start(holdfast, "--timeout", "300")
    wait_for("a", lambda info: (info.duration_seconds or 0) > 1.2, why="it runs for a while")
    refused = holdfast("adjust", "a", "--timeout", "1s", "--grace", "3s", expect=4)
    assert "it has run for" in refused.stderr
    assert "holdfast stop a" in refused.stderr
    info: Any = info_of("a")
    assert (info.wanted["timeout_seconds"], info.wanted["grace_seconds"]) == (300, 10)
    assert events_of("a", "adjusted") == []
    stop(holdfast, "a")


def test_a_queued_run_is_adjusted_before_it_begins(holdfast):
    holdfast("run", "-n", "a", "--in", "600", "--timeout", "1", "--", *SLEEP, expect=0)
    holdfast("adjust", "a", "--timeout", "50", "--idle-timeout", "60", expect=0)
    info: Any = info_of("a")
    assert info.state == "queued"
    assert (info.wanted["timeout_seconds"], info.wanted["idle_timeout_seconds"]) == (50, 60)
    stop(holdfast, "a")


def test_rerun_has_the_limits_as_they_were_at_last(holdfast):
    _start(holdfast, "--timeout", "300")
    holdfast("adjust", "a", "--timeout", "2h", "--memory-max", "8G", expect=0)
    stop(holdfast, "a")
    again = run_of("a").rerun()
    wanted = again.directory.read_spec().wanted
    assert (wanted.timeout_seconds, wanted.memory_max_bytes) == (7200, 8 << 30)
    stop(holdfast, "a")
    assert ended("a").wanted["timeout_seconds"] == 7200


def test_a_run_that_has_ended_or_is_being_stopped_is_not_adjusted(holdfast, tmp_path):
    holdfast("run", "-n", "over", "true", expect=0)
    ended("over")
    assert "has ended" in holdfast("adjust", "over", "--timeout", "5", expect=4).stderr
    gate = tmp_path / "gate"
    stubborn = f"trap '' TERM; echo ready; until [ -e {gate} ]; do sleep 0.1; done"
    _start(holdfast, "--grace", "60s", command=("sh", "-c", stubborn))
    running.wait_for_output("a", b"ready")
    with subprocess.Popen(holdfast.argv("stop", "a"), stdout=subprocess.DEVNULL):
        wait_for("a", lambda info: info.state == "stopping", why="it is being stopped")
        refused = holdfast("adjust", "a", "--timeout", "1h")
        gate.touch()
    assert refused.returncode == 4
    assert "it is being stopped" in refused.stderr


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ((), 2, "nothing to change"),
        (("--timeout", "soon"), 2, "--timeout: 'soon' is not"),
        (("--timeout", "0"), 2, "--timeout: 0.0 is not more than 0"),
        (("--grace", "none"), 2, "--grace: there is always one"),
        (("--on-budget", "none"), 2, "--on-budget: there is always one"),
        (("--max-tokens", "5"), 4, "no agent is recognised"),
        (("--max-cost", "5"), 4, "no agent is recognised"),
        (("--restart", "no"), 2, "--restart"),
    ],
)
def test_what_can_not_be_changed_is_said(holdfast, words, code, why):
    _start(holdfast)
    assert why in holdfast("adjust", "a", *words, expect=code).stderr
    assert events_of("a", "adjusted") == []
    stop(holdfast, "a")


def test_the_library_and_the_document(holdfast):
    _start(holdfast)
    run = run_of("a")
    changed = run.adjust(timeout="2h", on_budget="pause")
    assert changed.before == {"timeout": None, "on_budget": "stop"}
    assert changed.after == {"timeout": 7200.0, "on_budget": "pause"}
    with pytest.raises(WrongUse, match="restart can't be changed"):
        run.adjust(restart="no")
    with pytest.raises(InvalidOption):
        run.adjust(timeout="soon")
    with pytest.raises(WrongUse, match="nothing to change"):
        run.adjust()
    document = holdfast("adjust", "a", "--timeout", "none", "--json", expect=0).json
    assert document["wanted"]["timeout_seconds"] is None
    stop(holdfast, "a")
    with pytest.raises(Refused, match="has ended"):
        run.adjust(timeout=5)


def test_the_library_for_asyncio(holdfast):
    _start(holdfast)

    async def adjust() -> None:
        run = await AsyncRuns().get("a")
        assert (await run.adjust(timeout="2h")).after == {"timeout": 7200.0}
        await run.stop()

    asyncio.run(adjust())


HOSTILE: list[Any] = [
    None,
    [],
    {},
    {"timeout_seconds": "5"},
    {"timeout_seconds": True},
    {"timeout_seconds": -1},
    {"timeout_seconds": 1e300},
    {"max_tokens": 1.5},
    {"max_tokens": 10**30},
    {"on_budget": "kill"},
    {"on_budget": None},
    {"grace_seconds": None},
    {"command": ["rm"]},
    {"stdin": "pipe"},
    {"restart": "always"},
    {"": 1},
    {"timeout_seconds": 50, "notify": "true"},
]


def test_whatever_is_sent_to_the_shim_only_what_may_be_changed_is(holdfast):
    _start(holdfast)
    before = info_of("a").wanted
    for changes in HOSTILE:
        link = open_link(run_of("a").directory.path)
        assert link is not None
        with link:
            answer = run_steps(link.ask({"do": "adjust", "changes": changes}))
        assert answer is not None
        assert answer["ok"] is False, changes
    assert info_of("a").wanted == before
    assert events_of("a", "fault") == []
    stop(holdfast, "a")


def test_every_limit_that_can_be_changed_is_one_that_can_be_given():
    assert ADJUSTABLE == [
        "timeout_seconds",
        "idle_timeout_seconds",
        "silence_timeout_seconds",
        "memory_max_bytes",
        "max_tokens",
        "max_cost_usd",
        "on_budget",
        "grace_seconds",
    ]
