"""The stat line: the name may hold any byte; the fields behind it are still found."""

from __future__ import annotations

import os

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import ProcessUnreadable
from holdfast.process import procfs
from holdfast.process.procfs import ProcessState, parse_stat

LETTERS = "RSDTtZXxI"
comms = st.binary(max_size=15) | st.sampled_from([b"a) R 1 (b", b")", b"(", b"a\nb", b"))) S 1"])
numbers = st.lists(st.integers(-1, 2**64 - 1), min_size=49, max_size=52)


def line_of(pid: int, comm: bytes, letter: str, fields: list[int]) -> bytes:
    rest = " ".join(map(str, fields)).encode()
    return b"%d (%b) %b %b\n" % (pid, comm, letter.encode(), rest)


@given(st.integers(1, 2**31 - 1), comms, st.sampled_from(LETTERS), numbers)
@example(1, b"a) R 1 (b", "S", list(range(49)))
@example(1, b"x) Z 9 9 9 9", "R", list(range(49)))
def test_fields_are_found_behind_any_name(
    pid: int, comm: bytes, letter: str, fields: list[int]
) -> None:
    stat = parse_stat(line_of(pid, comm, letter, fields))
    assert stat.pid == pid
    assert stat.comm == comm.decode(errors="backslashreplace")
    assert stat.state is not ProcessState.UNKNOWN
    # Numbers as in proc(5), where the state is field 3.
    assert stat.ppid == fields[4 - 4]
    assert stat.pgrp == fields[5 - 4]
    assert stat.session == fields[6 - 4]
    assert stat.has_execed == (fields[9 - 4] & 0x40 == 0)
    assert stat.cpu_ticks == fields[14 - 4] + fields[15 - 4]
    assert stat.waited_ticks == fields[16 - 4] + fields[17 - 4]
    assert stat.threads == fields[20 - 4]
    assert stat.start_ticks == fields[22 - 4]
    assert stat.rss_bytes == fields[24 - 4] * os.sysconf("SC_PAGE_SIZE")
    assert stat.stack_start == (fields[28 - 4] if fields[28 - 4] > 1 else None)


@given(st.sampled_from(LETTERS), numbers, st.sampled_from([0, 1]), st.integers(0, 2**16 - 1))
def test_exit_status_counts_only_where_the_kernel_shows_it(
    letter: str, fields: list[int], shown: int, status: int
) -> None:
    fields[35 - 4], fields[52 - 4] = shown, status
    stat = parse_stat(line_of(1, b"x", letter, fields))
    readable = shown == 1 and letter == "Z"
    assert stat.exit_status == (status if readable else None)


@given(st.binary(max_size=400) | st.binary(max_size=30).map(lambda b: b"1 (" + b + b") S 1 2 3"))
@example(b"")
@example(b"()")
@example(b")(")
@example(b"1 (x)")
@example(b"1 (x) ")
@example(b"1 (x) \xff" + b" 1" * 49)
def test_any_bytes_are_a_stat_or_a_typed_error(line: bytes) -> None:
    try:
        stat = parse_stat(line)
    except ProcessUnreadable:
        return
    assert isinstance(stat.start_ticks, int)
    assert isinstance(stat.comm, str)


@given(comms, st.integers(0, 300))
def test_line_cut_anywhere_is_never_misread(comm: bytes, length: int) -> None:
    """Either the fields are those of the whole line, or it is an error."""
    fields = list(range(1000, 1049))
    whole = line_of(77, comm, "S", fields)
    expected = parse_stat(whole)
    try:
        stat = parse_stat(whole[:length])
    except ProcessUnreadable:
        return
    # Cut inside the last number that is needed, nothing can show it; the rest must be right.
    assert stat.replace(stack_start=expected.stack_start) == expected


def test_own_stat_agrees_with_the_system() -> None:
    stat = procfs.read_stat(os.getpid())
    assert (stat.pid, stat.ppid) == (os.getpid(), os.getppid())
    assert (stat.pgrp, stat.session) == (os.getpgrp(), os.getsid(0))
    assert stat.state is ProcessState.RUNNING
    assert stat.rss_bytes > 100 * 4096
    assert stat.has_execed
