"""The portable backend on Linux, with real processes: what it proves, and what it does not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from holdfast.errors import IdentityUnproven, InvalidPid, ProcessGone
from holdfast.process import this_host
from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile import PidFile
from holdfast.process.signals import send_signal
from holdfast.process.verdict import Verdict
from tests.support.places import sleeper


@pytest.fixture(autouse=True)
def _portable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOLDFAST_PROCESS_BACKEND", "portable")
    this_host._places.clear()
    yield
    this_host._places.clear()


def test_capture_and_look():
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        assert ours.create_time is not None
        assert abs(ours.create_time / 1e6 - time.time()) < 60
        assert ours == ProcessIdentity.of(process.pid) == ProcessIdentity.parse(ours.token)
        look = ours.look()
        assert (look.verdict, str(look.proof)) == (Verdict.SAME, "create_time")
        assert "weaker" in look.evidence
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ours.verdict() is Verdict.GONE  # a zombie has ended
    assert ours.verdict() is Verdict.GONE
    with pytest.raises(ProcessGone):
        ProcessIdentity.of(process.pid)


@pytest.mark.parametrize("pid", [0, -1, 2**31])
def test_I6_no_group_and_nobody_is_reached(pid):
    with pytest.raises(InvalidPid):
        ProcessIdentity.of(pid)
    with pytest.raises(InvalidPid):
        send_signal(ProcessIdentity(pid), signal.SIGTERM, trust_pid=True)


def test_I1_another_creation_time_is_recycled_and_not_signalled():
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        earlier = ours.replace(create_time=(ours.create_time or 0) - 60_000_000)
        assert earlier.verdict() is Verdict.RECYCLED
        assert "sleep now" in earlier.look().evidence
        assert str(send_signal(earlier, signal.SIGKILL, trust_pid=True).fate) == "recycled"
        assert earlier.wait(0) is True
        assert process.poll() is None


def test_a_clock_step_or_another_boot_is_unknown():
    """Both move boot and creation time alike: neither SAME nor RECYCLED could be proven."""
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        moved = ours.replace(
            create_time=(ours.create_time or 0) - 3600_000_000,
            boot_id=str(int(ours.boot_id or 0) - 3600),
        )
        assert moved.verdict() is Verdict.UNKNOWN
        assert str(send_signal(moved, signal.SIGKILL).fate) == "refused"
        assert process.poll() is None


def test_what_it_cannot_compare_is_unknown():
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        strangers = [
            ours.replace(host="01234567"),
            ProcessIdentity(process.pid),
            ProcessIdentity(process.pid, 12345),
            ProcessIdentity(process.pid, 1, 2, 3, "0" * 31 + "1", this_host.place().host),
        ]
        for record in strangers:
            assert record.verdict() is Verdict.UNKNOWN
            assert str(send_signal(record, signal.SIGKILL).fate) == "refused"
            with pytest.raises(IdentityUnproven):
                record.wait(0)
        assert process.poll() is None


def test_I5_a_bare_pid_needs_the_callers_word():
    with sleeper() as process:
        record = ProcessIdentity(process.pid)
        delivery = send_signal(record, signal.SIGTERM, trust_pid=True)
        assert str(delivery.fate) == "delivered"
        assert "vouches" in delivery.evidence
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert record.verdict() is Verdict.GONE


def test_signalled_after_one_more_look_and_the_race_is_said():
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        delivery = send_signal(ours, signal.SIGTERM)
        assert delivery.delivered
        assert "race" in delivery.evidence
        assert process.wait(timeout=30) == -signal.SIGTERM
    assert str(send_signal(ours, signal.SIGTERM).fate) == "gone"


def test_waiting():
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        assert ours.wait(0.05) is False
        process.kill()
        assert ours.wait(30) is True


def test_pid_files_work_the_same(tmp_path):
    path = tmp_path / "x.pid"
    with PidFile(path).hold() as me:
        assert me.token.startswith("hp1.")
        assert PidFile(path).read() == me
    with sleeper() as process:
        alive = ProcessIdentity.of(process.pid)
        path.write_text(f"{alive.pid} {alive.token}\n")
        with pytest.raises(Exception, match=f"held by {alive.pid}"), PidFile(path).hold():
            pass
    with PidFile(path).hold():
        pass
