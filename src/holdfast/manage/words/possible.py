"""What can't be done to a run now, and why, in one sentence: before it is tried. Pure.

For the live screen and the web page, which grey what is impossible and have no rules of their own.
It never decides: who acts asks the library, which may refuse what seemed possible here.
"""

from __future__ import annotations

from holdfast.lean import StrEnum
from holdfast.run.facts import State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.manage.info import RunInfo


class Deed(StrEnum):
    """What people do to runs."""

    ATTACH = "attach"
    SEND = "send"
    APPROVE = "approve"
    DENY = "deny"
    STOP = "stop"
    HURRY = "hurry"
    PAUSE = "pause"
    RESUME = "resume"
    RERUN = "rerun"
    RECOVER = "recover"
    REMOVE = "remove"
    ARCHIVE = "archive"
    TOKEN = "token"


def why_not(deed: Deed, info: RunInfo) -> str:
    """Why it is impossible; empty: it is possible."""
    check = _CHECKS.get(deed)
    return "" if check is None else check(info)


def permissions_asked(info: RunInfo) -> list[dict[str, Any]]:
    """What the agent asks permission for; what else it waits for only its terminal can answer."""
    asked = info.attention or {}
    return [one for one in (asked, *asked.get("others", ())) if one.get("kind") == "permission"]


def recovered_there(name: str, node: str) -> str:
    """Why a run on another machine is not recovered from here."""
    return f"{name} is on {node}: `holdfast recover` there looks after it"


def _name(info: RunInfo) -> str:
    return info.name or info.id


def _ended(info: RunInfo) -> str:
    return "" if info.is_active else f"{_name(info)} has ended ({info.outcome})"


def _attach(info: RunInfo) -> str:
    name = _name(info)
    if info.pty is False:
        return f"{name} has no terminal: it was started without --pty"
    if info.state is State.ORPHANED:
        return f"{name} has lost its terminal: that went with the shim that died"
    if info.state is State.QUEUED:
        return f"{name} has not begun: it is queued"
    return _ended(info)


def _send(info: RunInfo) -> str:
    if not info.pty and (info.wanted or {}).get("stdin") != "pipe":
        return f"{_name(info)} was started without a stdin to write to (--pty or --stdin pipe)"
    return _ended(info)


def _answer(info: RunInfo) -> str:
    if info.attention is None:
        return f"{_name(info)} asks nothing"
    if not permissions_asked(info):
        return f"{_name(info)} asks for no permission: its terminal can answer"
    if (info.wanted or {}).get("approve") != "ask":
        return f"{_name(info)} was started without --approve ask: its terminal can answer"
    return ""


def _stop(info: RunInfo) -> str:
    keeps = (info.wanted or {}).get("leftovers") == "keep"
    return "" if keeps or info.has_survivors else _ended(info)


def _hurry(info: RunInfo) -> str:
    return "" if info.state is State.STOPPING else f"{_name(info)} is not being stopped"


def _pause(info: RunInfo) -> str:
    if info.state is State.STOPPING:
        return f"{_name(info)} is being stopped"
    return _ended(info)


def _resume(info: RunInfo) -> str:
    if info.is_active:
        return f"{_name(info)} is {info.state}: a session goes on once its run has ended"
    return "" if info.session is not None else f"{_name(info)} has no session of an agent"


def _rerun(info: RunInfo) -> str:
    return f"{_name(info)} is {info.state}: stop it first" if info.state.holds_name else ""


def _recover(info: RunInfo) -> str:
    from holdfast.manage.words.views import is_odd

    return "" if is_odd(info) else _ended(info) or f"{_name(info)} is supervised"


def _remove(info: RunInfo) -> str:
    name = _name(info)
    if info.state is State.UNKNOWN:
        return f"what is alive of {name} is not known: `holdfast rm --force {info.id}` goes on"
    return f"{name} is {info.state}: stop it first" if info.is_active else ""


def _token(info: RunInfo) -> str:
    return "" if info.workload or info.shim else f"no process of {_name(info)} is recorded"


_CHECKS: dict[Deed, Callable[[RunInfo], str]] = {
    Deed.ATTACH: _attach,
    Deed.SEND: _send,
    Deed.APPROVE: _answer,
    Deed.DENY: _answer,
    Deed.STOP: _stop,
    Deed.HURRY: _hurry,
    Deed.PAUSE: _pause,
    Deed.RESUME: _resume,
    Deed.RERUN: _rerun,
    Deed.RECOVER: _recover,
    Deed.REMOVE: _remove,
    Deed.ARCHIVE: _remove,
    Deed.TOKEN: _token,
}
