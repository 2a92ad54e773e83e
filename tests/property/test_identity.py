"""Tokens: whatever an identity holds survives the round trip; nothing else is taken for one."""

from __future__ import annotations

import pickle

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidToken
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict

HEX = "0123456789abcdef"
pids = st.integers(1, 2**31 - 1)
u64 = st.none() | st.integers(1, 2**64 - 1)
boot_ids = st.none() | st.text(HEX, min_size=32, max_size=32).filter(lambda text: text.strip("0"))
hosts = st.none() | st.text(HEX, min_size=8, max_size=8).filter(lambda text: text.strip("0"))
identities = st.builds(
    ProcessIdentity,
    pid=pids,
    start_ticks=u64,
    pidfd_inode=u64,
    pid_ns=st.none() | st.integers(1, 2**32 - 1),
    boot_id=boot_ids,
    host=hosts,
)


@given(identities)
def test_token_round_trip(identity: ProcessIdentity) -> None:
    token = identity.token
    assert ProcessIdentity.parse(token) == identity
    assert token.isascii()
    assert token.isprintable()
    assert not set(token) & set(" \t\r\n")


@given(identities)
def test_json_and_pickle_round_trip(identity: ProcessIdentity) -> None:
    assert ProcessIdentity.from_json(identity.to_json()) == identity
    assert pickle.loads(pickle.dumps(identity)) == identity  # our own bytes


@given(identities, identities)
def test_tokens_are_equal_exactly_when_identities_are(
    one: ProcessIdentity, other: ProcessIdentity
) -> None:
    assert (one.token == other.token) == (one == other)
    if one == other:
        assert hash(one) == hash(other)


digits = st.text("0123456789-+_ .e\u0661", max_size=22) | st.integers().map(str)
almost = st.tuples(
    st.sampled_from(["hf1", "hp1", "hf2", "HF1", ""]),
    st.lists(digits | st.text(HEX, max_size=34), min_size=3, max_size=8),
).map(lambda parts: ".".join([parts[0], *parts[1]]))


@given(st.text() | almost | identities.map(lambda i: i.token + "\n"))
@example("hf1.")
@example("hp1.")
@example("hp1.1.nan.00000000")
@example("hf1.1.0.0.0." + "0" * 32 + "." + "0" * 8)
def test_any_text_is_an_identity_or_invalid(text: str) -> None:
    try:
        identity = ProcessIdentity.parse(text)
    except InvalidToken:
        return
    assert identity.token == text
    assert 0 < identity.pid < 2**31


@given(st.data())
def test_token_with_one_change_is_another_identity_or_invalid(data: st.DataObject) -> None:
    identity = data.draw(identities)
    token = identity.token
    at = data.draw(st.integers(0, len(token) - 1))
    changed = token[:at] + data.draw(st.characters()) + token[at + 1 :]
    try:
        parsed = ProcessIdentity.parse(changed)
    except InvalidToken:
        return
    assert (parsed == identity) == (changed == token)


@given(identities)
def test_made_up_identity_is_never_taken_for_a_live_process(identity: ProcessIdentity) -> None:
    """A look never raises for a well-formed record, and never says SAME of a made-up one."""
    look = identity.look()
    assert look.verdict is not Verdict.SAME
    assert look.evidence


@given(st.data())
def test_each_changed_part_of_a_live_identity_is_noticed(data: st.DataObject) -> None:
    ours = ProcessIdentity.current()
    strategies = {
        "pidfd_inode": st.integers(1, 2**63),
        "boot_id": boot_ids.filter(bool),
        "host": hosts.filter(bool),
    }
    part = data.draw(st.sampled_from(sorted(strategies)))
    value = data.draw(strategies[part])
    changed = ours.replace(**{part: value})
    assert (changed.verdict() is Verdict.SAME) == (changed == ours)


@given(st.data())
def test_short_verdict_agrees_with_the_full_look(data: st.DataObject) -> None:
    """`verdict` has a short way for the common case: it must never differ."""
    ours = ProcessIdentity.current()
    changed = ours.replace(
        pidfd_inode=data.draw(st.sampled_from([ours.pidfd_inode, None, 1])),
        start_ticks=data.draw(st.sampled_from([ours.start_ticks, None, 1])),
        pid_ns=data.draw(st.sampled_from([ours.pid_ns, None, 1])),
        boot_id=data.draw(st.sampled_from([ours.boot_id, None, "1" * 32])),
        host=data.draw(st.sampled_from([ours.host, None, "1" * 8])),
    )
    assert changed.verdict() is changed.look().verdict
