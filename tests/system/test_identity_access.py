"""I4: processes of another user, also where /proc hides them."""

from __future__ import annotations

import pytest

from holdfast.process.identity import ProcessIdentity
from tests.support import identity_scenes
from tests.support.features import needs
from tests.support.kernel_lab import OTHER_UID, Place, run_in
from tests.support.places import sleeper


@pytest.mark.parametrize("hidepid", [None, 1, 2])
def test_I4_another_users_process_is_same_by_its_inode_and_a_signal_is_denied(
    hidepid: int | None,
) -> None:
    needs("root")
    with sleeper() as process:
        token = ProcessIdentity.of(process.pid).token
        place = Place(pid_namespace=False, hidepid=hidepid)
        scene = identity_scenes.look_at_as
        facts = run_in(place, scene, uid=OTHER_UID, token=token, signals=[15, 9, 1])
        assert facts["verdict"] == "SAME"
        assert facts["proof"] == "pidfd inode"
        assert facts["fates"] == ["denied"] * 3
        assert process.poll() is None


@pytest.mark.parametrize("hidepid", [1, 2])
def test_I4_unknown_where_only_a_hidden_proc_could_prove_it(hidepid: int) -> None:
    needs("root")
    with sleeper() as process:
        token = ProcessIdentity.of(process.pid).replace(pidfd_inode=None).token
        place = Place(pid_namespace=False, hidepid=hidepid)
        scene = identity_scenes.look_at_as
        facts = run_in(place, scene, uid=OTHER_UID, token=token, signals=[15, 9])
        assert facts["verdict"] == "UNKNOWN"
        assert facts["fates"] == ["refused", "refused"]
        assert process.poll() is None


def test_I4_open_proc_proves_another_users_process_by_its_ticks() -> None:
    needs("root")
    with sleeper() as process:
        token = ProcessIdentity.of(process.pid).replace(pidfd_inode=None).token
        scene = identity_scenes.look_at_as
        facts = run_in(Place(pid_namespace=False), scene, uid=OTHER_UID, token=token, signals=[15])
        assert (facts["verdict"], facts["proof"]) == ("SAME", "start ticks")
        assert facts["fates"] == ["denied"]


def test_I4_token_captured_behind_hidepid_names_the_same_process() -> None:
    needs("root")
    with sleeper() as process:
        place = Place(pid_namespace=False, hidepid=2)
        token = run_in(place, identity_scenes.token_as, uid=OTHER_UID, pid=process.pid)
        captured = ProcessIdentity.parse(token)
        full = ProcessIdentity.of(process.pid)
        assert captured == full.replace(start_ticks=None)
        assert str(captured.verdict()) == "SAME"


@pytest.mark.parametrize("hidepid", [None, 2])
def test_I4_another_users_process_that_ended_is_gone_not_unknown(hidepid: int | None) -> None:
    needs("root")
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)
    place = Place(pid_namespace=False, hidepid=hidepid)
    for record in (identity, identity.replace(pidfd_inode=None)):
        scene = identity_scenes.look_at_as
        facts = run_in(place, scene, uid=OTHER_UID, token=record.token, signals=[15])
        assert facts["verdict"] in ("GONE", "RECYCLED")
        assert facts["fates"] in (["gone"], ["recycled"])


def test_I4_user_may_prove_and_signal_what_is_its_own_behind_hidepid() -> None:
    needs("root")
    with sleeper(OTHER_UID) as process:
        token = ProcessIdentity.of(process.pid).token
        place = Place(pid_namespace=False, hidepid=2)
        scene = identity_scenes.look_at_as
        facts = run_in(place, scene, uid=OTHER_UID, token=token, signals=[15])
        assert (facts["verdict"], facts["fates"]) == ("SAME", ["delivered"])
        assert process.wait(timeout=20) == -15
