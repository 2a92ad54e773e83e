"""I3, I8, I9: other boots, hosts, clocks and containers, made by real namespaces and mounts."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from tests.support import identity_scenes
from tests.support.features import needs
from tests.support.kernel_lab import BOOT_ID, MACHINE_ID, OTHER_UID, Place, run_in, start_in
from tests.support.places import USERS, namespace_of, sleeper, uid_of

OTHER_BOOT = "11111111-2222-4333-8444-555555555555\n"
OTHER_MACHINE = "0123456789abcdef0123456789abcdef\n"
LOW_PID = 40

each_user = pytest.mark.parametrize("user", USERS)


@each_user
def test_I3_another_boot_means_gone_and_nobody_is_signalled(user: str) -> None:
    needs("user_namespace")
    uid = uid_of(user)
    with sleeper(uid) as process:
        token = ProcessIdentity.of(process.pid).token
        place = Place(pid_namespace=False, uid=uid, covers={BOOT_ID: OTHER_BOOT})
        facts = run_in(place, identity_scenes.look_at, token=token, signals=[15, 9])
        assert facts["verdict"] == "GONE"
        assert facts["proof"] == "boot id"
        assert facts["fates"] == ["gone", "gone"]
        assert process.poll() is None


@each_user
def test_I3_another_host_is_unknown_and_nobody_is_signalled(user: str) -> None:
    needs("user_namespace")
    uid = uid_of(user)
    with sleeper(uid) as process:
        token = ProcessIdentity.of(process.pid).token
        for covers in (
            {MACHINE_ID: OTHER_MACHINE},
            {MACHINE_ID: OTHER_MACHINE, BOOT_ID: OTHER_BOOT},
        ):
            place = Place(pid_namespace=False, uid=uid, covers=covers)
            facts = run_in(place, identity_scenes.look_at, token=token, signals=[15, 9])
            assert facts["verdict"] == "UNKNOWN"
            assert facts["proof"] is None
            assert facts["fates"] == ["refused", "refused"]
        assert process.poll() is None


@pytest.mark.parametrize("offset", [1_000, 86_400 * 400, -30])
def test_I8_token_is_the_same_in_every_time_namespace(offset: int) -> None:
    needs("root", "time_namespace")
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        place = Place(pid_namespace=False, boottime_offset_seconds=offset)
        assert run_in(place, identity_scenes.token_of, pid=process.pid) == ours.token
        ticks_only = ours.replace(pidfd_inode=None).token
        assert run_in(place, identity_scenes.look_at, token=ticks_only)["verdict"] == "SAME"


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"},
        {"LC_ALL": "C", "LANGUAGE": "de"},
        {"TZ": "Pacific/Kiritimati"},
        {"TZ": "garbage"},
    ],
    ids=lambda env: " ".join(env.values()),
)
def test_I8_token_does_not_depend_on_locale_or_time_zone(env: dict[str, str]) -> None:
    with sleeper() as process:
        token = ProcessIdentity.of(process.pid).token
        place = Place(pid_namespace=False, env=env)
        assert run_in(place, identity_scenes.token_of, pid=process.pid) == token
        assert run_in(place, identity_scenes.look_at, token=token)["verdict"] == "SAME"


def test_I8_token_does_not_depend_on_the_wall_clock() -> None:
    """A clock jump shows in /proc as another `btime`; whoever adds it to the ticks is misled."""
    needs("root")
    jumped = re.sub(r"(?m)^btime .*$", "btime 86400", Path("/proc/stat").read_text())
    place = Place(pid_namespace=False, covers={"/proc/stat": jumped})
    with sleeper() as process:
        token = ProcessIdentity.of(process.pid).token
        assert run_in(place, identity_scenes.token_of, pid=process.pid) == token
        assert run_in(place, identity_scenes.look_at, token=token)["verdict"] == "SAME"


@each_user
def test_I9_restarted_container_is_not_the_old_one(user: str) -> None:
    place = namespace_of(user)
    old = run_in(place, identity_scenes.container_starts, pid=LOW_PID)
    facts = run_in(place, identity_scenes.container_restarts, pid=LOW_PID, olds=[old])
    assert facts["verdict"] in ("GONE", "RECYCLED", "UNKNOWN")
    assert "delivered" not in facts["fates"]
    assert facts["new_untouched"]
    assert facts["new_verdict"] == "SAME"


def test_I9_restarted_container_in_a_namespace_with_the_same_number() -> None:
    """The kernel recycles namespace inodes as well: they narrow, they never prove."""
    place = namespace_of("root")
    olds = [run_in(place, identity_scenes.container_starts, pid=LOW_PID)]
    for _ in range(40):
        facts = run_in(place, identity_scenes.container_restarts, pid=LOW_PID, olds=olds)
        assert "delivered" not in facts["fates"]
        assert facts["new_untouched"]
        if facts["same_namespace_number"]:
            break
        olds.append(facts["token"])
    assert facts["same_namespace_number"], "no namespace number was reused in 40 restarts"
    assert facts["verdict"] == "RECYCLED"


def test_I9_ended_container_is_gone_as_seen_from_the_host() -> None:
    needs("root", "pid_namespace")
    old = run_in(Place(), identity_scenes.container_starts, pid=LOW_PID)
    with sleeper() as bystander:
        ours = ProcessIdentity.of(bystander.pid)
        gone = ProcessIdentity.parse(old)
        assert str(gone.verdict()) == "GONE"
        # The same number here is a process of another namespace: it must not count.
        assert str(gone.replace(pid=ours.pid).verdict()) == "GONE"
        assert bystander.poll() is None


@each_user
def test_I9_live_container_is_found_and_signalled_from_the_host(user: str) -> None:
    needs("root")
    with start_in(namespace_of(user), identity_scenes.container_runs, pid=LOW_PID) as container:
        inside = ProcessIdentity.parse(container.announced())
        assert inside.pid == LOW_PID
        look = inside.look()
        assert (str(look.verdict), str(look.proof)) == ("SAME", "pidfd inode")
        assert str(send_signal(inside, signal.SIGTERM).fate) == "delivered"
        assert inside.wait(timeout=60)


def test_I9_sibling_container_can_not_be_told_from_a_gone_one() -> None:
    """From a child namespace, a live process elsewhere and a dead one look alike: UNKNOWN."""
    needs("root", "pid_namespace")
    with start_in(Place(), identity_scenes.container_runs, pid=LOW_PID) as sibling:
        token = sibling.announced()
        facts = run_in(Place(), identity_scenes.container_restarts, pid=LOW_PID, olds=[token])
        assert facts["verdict"] == "UNKNOWN"
        assert set(facts["fates"]) == {"refused"}
        assert facts["new_untouched"]
        assert str(ProcessIdentity.parse(token).verdict()) == "SAME"


@each_user
def test_I11_child_forked_into_a_new_namespace_asks_again_where_it_is(user: str) -> None:
    facts = run_in(namespace_of(user), identity_scenes.forked_into_a_new_namespace)
    child = ProcessIdentity.parse(facts["child"])
    assert child.pid == 1
    assert child.pid_ns != facts["parent_ns"]
    assert child.start_ticks is None, "/proc shows another namespace there: nothing it says counts"
    assert facts["child_seen_by_itself"] == "SAME"
    assert facts["parent_seen_by_child"] == "UNKNOWN"
    assert facts["child_seen_by_parent"]["verdict"] == "SAME"
    assert facts["child_gone_seen_by_parent"]["verdict"] in ("GONE", "UNKNOWN")


def test_other_users_namespace_is_really_another_user() -> None:
    """The lab itself: `ordinary user` must not be root in disguise."""
    needs("root")
    place = Place(pid_namespace=False, uid=OTHER_UID)
    with sleeper() as process:
        token = ProcessIdentity.of(process.pid).token
        assert run_in(place, identity_scenes.look_at, token=token, signals=[15])["fates"] == [
            "denied"
        ]
        assert process.poll() is None
