"""The gate: what becomes of each signal, with real processes."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from holdfast.errors import InvalidOption
from holdfast.process import procfs
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import parse_signal, send_signal, signal_held, signal_name
from tests.support.places import sleeper
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGRTMIN]
)
def test_delivered_with_the_proof(number: signal.Signals) -> None:
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)
        delivery = send_signal(identity, number)
        assert (delivery.identity, delivery.signal) == (identity, number)
        assert delivery.delivered
        assert str(delivery.proof) == "pidfd inode"
        assert process.wait(timeout=20) == -number


def test_every_number_that_the_kernel_knows_can_be_sent() -> None:
    number = signal.SIGRTMIN + 3
    with sleeper() as process:
        assert send_signal(ProcessIdentity.of(process.pid), number).delivered
        assert process.wait(timeout=20) == -number


@pytest.mark.parametrize("number", [-1, 65, 1000])
def test_number_that_is_no_signal_reaches_nobody(number: int) -> None:
    with sleeper() as process:
        with pytest.raises((ValueError, InvalidOption)):
            send_signal(ProcessIdentity.of(process.pid), number)
        assert process.poll() is None


def test_stop_and_continue() -> None:
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)

        def state() -> str:
            return str(procfs.read_stat(process.pid).state)

        assert send_signal(identity, signal.SIGSTOP).delivered
        eventually(lambda: state() == "stopped", why="SIGSTOP")
        assert send_signal(identity, signal.SIGCONT).delivered
        eventually(lambda: state() == "sleeping", why="SIGCONT")


def test_gone_after_the_end_zombie_or_reaped() -> None:
    with sleeper() as process:
        identity = ProcessIdentity.of(process.pid)
        with identity.hold() as held:
            process.kill()
            eventually(held.has_exited, why="it ended")
            assert str(send_signal(identity, signal.SIGTERM).fate) == "gone"
            process.wait()
            assert str(signal_held(held, signal.SIGTERM).fate) == "gone"
    assert str(send_signal(identity, signal.SIGTERM).fate) == "gone"


def test_refused_signal_says_why() -> None:
    with sleeper() as process:
        delivery = send_signal(ProcessIdentity(process.pid), signal.SIGTERM)
        assert str(delivery.fate) == "refused"
        assert str(process.pid) in delivery.evidence
        assert not delivery.delivered


@pytest.mark.parametrize("text", ["TERM", "SIGTERM", "term", "sigterm", "15", " TERM "])
def test_names_of_one_signal(text: str) -> None:
    assert parse_signal(text) == signal.SIGTERM


@pytest.mark.parametrize("text", ["", "0", "-9", "9.0", "SIG", "NOPE", "65", "1e1", "\u0661"])
def test_texts_that_name_no_signal(text: str) -> None:
    with pytest.raises(InvalidOption):
        parse_signal(text)


@pytest.mark.parametrize("number", sorted(signal.valid_signals()))
def test_name_and_number_of_every_signal_belong_together(number: Any) -> None:
    assert parse_signal(str(int(number))) == number
    for _ in range(2):  # found, then known
        assert signal_name(number)


def test_of_several_names_of_a_signal_one_is_said() -> None:
    assert [signal_name(signal.SIGABRT), signal_name(signal.SIGIOT)] == ["SIGABRT"] * 2
    assert signal_name(99) == "signal 99"
