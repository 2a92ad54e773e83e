"""I5, I6: records that name too little, and records that name nothing or everybody."""

from __future__ import annotations

import math
import signal
from typing import Any

import pytest

from holdfast.errors import InvalidPid, InvalidToken, ProcessGone
from holdfast.process.identity import ProcessIdentity
from holdfast.process.signals import send_signal
from tests.support.places import sleeper

HEX_BOOT = "0123456789abcdef" * 2


def test_I5_bare_pid_is_readable_but_unverified() -> None:
    with sleeper() as process:
        look = ProcessIdentity(process.pid).look()
        assert str(look.verdict) == "UNKNOWN"
        assert look.proof is None
        assert "unverified" in look.evidence


def test_I5_bare_pid_is_signalled_only_on_the_callers_word() -> None:
    with sleeper() as process:
        record = ProcessIdentity(process.pid)
        refused = send_signal(record, signal.SIGTERM)
        assert (str(refused.fate), refused.proof) == ("refused", None)
        assert process.poll() is None
        trusted = send_signal(record, signal.SIGTERM, trust_pid=True)
        assert (str(trusted.fate), trusted.proof) == ("delivered", None)
        assert process.wait(timeout=20) == -signal.SIGTERM


def test_I5_bare_pid_of_nobody_is_gone() -> None:
    with sleeper() as process:
        record = ProcessIdentity(process.pid)
    assert str(record.verdict()) == "GONE"
    assert str(send_signal(record, signal.SIGTERM, trust_pid=True).fate) == "gone"


def test_I5_pid_and_ticks_without_a_boot_are_unverified_too() -> None:
    """The same ticks come again after a reboot: a missing part never counts as a match."""
    with sleeper() as process:
        ticks = ProcessIdentity.of(process.pid).start_ticks
        assert ticks is not None
        record = ProcessIdentity(process.pid, ticks)
        assert str(record.verdict()) == "UNKNOWN"
        assert str(send_signal(record, signal.SIGTERM).fate) == "refused"
        assert process.poll() is None


def test_I5_trust_never_overrides_proof_that_it_is_another_process() -> None:
    with sleeper() as process:
        ours = ProcessIdentity.of(process.pid)
        assert ours.pidfd_inode is not None
        assert ours.start_ticks is not None
        strangers = {
            "recycled": ours.replace(pidfd_inode=ours.pidfd_inode - 1),
            "gone": ours.replace(boot_id=HEX_BOOT),
            "refused": ours.replace(host="00112233"),
        }
        for fate, record in strangers.items():
            assert str(send_signal(record, signal.SIGKILL, trust_pid=True).fate) == fate
        ticks = ProcessIdentity(process.pid, ours.start_ticks + 1)
        assert str(send_signal(ticks, signal.SIGKILL, trust_pid=True).fate) == "recycled"
        assert process.poll() is None


def test_I5_token_of_a_bare_pid_stays_unverified_after_a_round_trip() -> None:
    with sleeper() as process:
        record = ProcessIdentity.parse(ProcessIdentity(process.pid).token)
        assert str(record.verdict()) == "UNKNOWN"
        assert str(send_signal(record, signal.SIGTERM).fate) == "refused"
        assert process.poll() is None


@pytest.mark.parametrize("pid", [0, -1, -4242, 2**31, 2**63, 10**30])
def test_I6_numbers_that_are_no_pid_are_refused(pid: int) -> None:
    with pytest.raises(InvalidPid):
        ProcessIdentity.of(pid)


@pytest.mark.parametrize("pid", [True, False, 1.0, math.nan, math.inf, "1", b"1", None, [1]])
def test_I6_what_is_no_number_is_refused(pid: Any) -> None:
    with pytest.raises((InvalidPid, TypeError)):
        ProcessIdentity.of(pid)


def test_I6_largest_pid_that_the_kernel_takes_is_just_gone() -> None:
    with pytest.raises(ProcessGone):
        ProcessIdentity.of(2**31 - 1)


@pytest.mark.parametrize("target", [0, -1, 1, 4242, "1", None, math.nan])
def test_I6_signal_to_a_number_is_a_type_error(target: Any) -> None:
    with pytest.raises(TypeError, match="ProcessIdentity"):
        send_signal(target, signal.SIGTERM)


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**64, 10**30])
@pytest.mark.parametrize("trust_pid", [False, True])
def test_I6_identity_made_by_hand_can_not_reach_a_group_or_everybody(
    pid: int, trust_pid: bool
) -> None:
    with pytest.raises(InvalidPid):
        send_signal(ProcessIdentity(pid), signal.SIGTERM, trust_pid=trust_pid)


CORRUPT = {
    "empty": "",
    "blank": " ",
    "prefix only": "hf1.",
    "pid zero": f"hf1.0.1.1.1.{HEX_BOOT}.01234567",
    "pid negative": f"hf1.-1.1.1.1.{HEX_BOOT}.01234567",
    "pid huge": f"hf1.{2**31}.1.1.1.{HEX_BOOT}.01234567",
    "pid not a number": f"hf1.one.1.1.1.{HEX_BOOT}.01234567",
    "pid in other digits": f"hf1.\u0661\u0662.1.1.1.{HEX_BOOT}.01234567",
    "pid with a sign": f"hf1.+1.1.1.1.{HEX_BOOT}.01234567",
    "pid with underscores": f"hf1.1_0.1.1.1.{HEX_BOOT}.01234567",
    "leading zero": f"hf1.01.1.1.1.{HEX_BOOT}.01234567",
    "ticks negative": f"hf1.1.-1.1.1.{HEX_BOOT}.01234567",
    "ticks nan": f"hf1.1.nan.1.1.{HEX_BOOT}.01234567",
    "part missing": f"hf1.1.1.1.{HEX_BOOT}.01234567",
    "part too many": f"hf1.1.1.1.1.1.{HEX_BOOT}.01234567",
    "boot id short": f"hf1.1.1.1.1.{HEX_BOOT[:-1]}.01234567",
    "boot id upper": f"hf1.1.1.1.1.{HEX_BOOT.upper()}.01234567",
    "host long": f"hf1.1.1.1.1.{HEX_BOOT}.012345678",
    "newline behind": f"hf1.1.1.1.1.{HEX_BOOT}.01234567\n",
    "space before": f" hf1.1.1.1.1.{HEX_BOOT}.01234567",
    "nul behind": f"hf1.1.1.1.1.{HEX_BOOT}.01234567\0",
    "cut": f"hf1.1.1.1.1.{HEX_BOOT}",
    "two": f"hf1.1.1.1.1.{HEX_BOOT}.01234567 hf1.1.1.1.1.{HEX_BOOT}.01234567",
    "later version": f"hf2.1.1.1.1.{HEX_BOOT}.01234567",
    "surrogate": "hf1.\udcff",
    "a megabyte": "hf1." + "9" * 1_000_000,
    "portable": "hp1.",
    "portable pid zero": "hp1.0.1.1",
}


@pytest.mark.parametrize("token", CORRUPT.values(), ids=CORRUPT)
def test_I6_corrupt_token_is_a_clear_error(token: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        ProcessIdentity.parse(token)
    assert len(str(caught.value)) < 400
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("token", [None, 1, b"hf1.1", ["hf1.1"]])
def test_I6_token_that_is_no_text_is_a_clear_error(token: Any) -> None:
    with pytest.raises((InvalidToken, TypeError)):
        ProcessIdentity.parse(token)


@pytest.mark.parametrize("document", [{}, {"pid": 1}, {"token": None}, {"token": 5}])
def test_I6_recorded_identity_without_a_token_is_a_clear_error(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        ProcessIdentity.from_json(document)
