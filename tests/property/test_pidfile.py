"""I6: whatever bytes a pid file holds, it names one process or is an error."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidPidFile, InvalidToken
from holdfast.process import portable
from holdfast.process.identity import ProcessIdentity
from holdfast.process.pidfile_format import LARGEST, parse_record, write_record
from holdfast.process.verdict import Verdict

PIDS = st.integers(1, 2**31 - 1)
COUNTERS = st.none() | st.integers(1, 10**19)

identities = st.builds(
    ProcessIdentity,
    pid=PIDS,
    start_ticks=COUNTERS,
    pidfd_inode=COUNTERS,
    pid_ns=st.none() | st.integers(1, 2**32 - 1),
    boot_id=st.text("0123456789abcdef", min_size=32, max_size=32).filter(lambda x: set(x) != {"0"}),
    host=st.text("0123456789abcdef", min_size=8, max_size=8).filter(lambda x: set(x) != {"0"}),
)
portable_identities = st.builds(
    ProcessIdentity,
    pid=PIDS,
    boot_id=st.none() | st.integers(1, 10**11).map(str),
    host=st.none() | st.just("0035969e"),
    create_time=st.integers(1, 10**17),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
nearly = st.one_of(
    st.integers().map(lambda n: str(n).encode()),
    st.tuples(st.integers(), st.integers()).map(lambda pair: b"%d %d" % pair),
    st.builds(
        lambda pid, start: json.dumps({"pid": pid, "startToken": start}).encode(),
        json_values,
        json_values,
    ),
    st.builds(lambda i, cut: write_record(i)[:cut], identities, st.integers(0, 120)),
    st.builds(
        lambda i, at, byte: write_record(i)[:at] + bytes([byte]) + write_record(i)[at + 1 :],
        identities,
        st.integers(0, 100),
        st.integers(0, 255),
    ),
)


@given(st.binary(max_size=LARGEST + 10) | nearly)
@example(b"")
@example(b"-1")
@example(b"0")
@example(b"{}")
@example(b'{"pid":' * 500)
def test_any_bytes_name_one_process_or_are_an_error(content):
    try:
        identity = parse_record(content)
    except InvalidPidFile:
        return
    assert type(identity.pid) is int
    assert 0 < identity.pid < 2**31
    assert len(content) <= LARGEST


@given(identities | portable_identities)
def test_what_is_written_is_read_back(identity):
    record = write_record(identity)
    assert parse_record(record) == identity
    assert record.count(b"\n") == 1
    assert record.endswith(b"\n")
    assert len(record) < 250


@given(identities, st.integers(1, 2**31 - 1))
def test_a_token_beside_another_pid_is_an_error(identity, pid):
    record = f"{pid} {identity.token}".encode()
    if pid == identity.pid:
        assert parse_record(record) == identity
        return
    try:
        parse_record(record)
    except InvalidPidFile:
        return
    raise AssertionError(record)


@given(portable_identities)
def test_portable_tokens_are_read_back(identity):
    assert portable.parse(identity.token) == identity == ProcessIdentity.parse(identity.token)


@given(st.text(max_size=60).map(lambda tail: f"hp1.{tail}"))
def test_portable_tokens_of_another_form_are_errors(text):
    try:
        identity = portable.parse(text)
    except InvalidToken:
        return
    assert identity.token == text


@given(st.integers(1, 10**15), st.integers(-(10**9), 10**9))
def test_a_start_time_in_seconds_never_proves_anything(created, shift):
    """Whatever the clock says: RECYCLED or UNKNOWN, and UNKNOWN where a time zone explains it."""
    legacy = ProcessIdentity(1, create_time=created + shift * 1_000_000)
    seen = portable._Seen(None, created, "x")
    verdict = portable._compare_with_text(legacy, legacy.create_time or 0, seen).verdict
    assert verdict in (Verdict.RECYCLED, Verdict.UNKNOWN)
    if shift % 900 == 0 and abs(shift) <= 26 * 3600:
        assert verdict is Verdict.UNKNOWN
    if shift % 900 in range(3, 897):
        assert verdict is Verdict.RECYCLED
