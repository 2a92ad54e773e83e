"""What a client of the control socket may ask, and what each request does."""

from __future__ import annotations

from holdfast.errors import HoldfastError, IdentityUnproven
from holdfast.process.signals import parse_signal
from holdfast.run.outcomes import StopCause
from holdfast.shim.control import Client
from holdfast.shim.stdio import StdinWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.shim.pty.terminal import Terminal
    from holdfast.shim.supervisor import Supervisor

_STDIN_RETRY_SECONDS = 0.05
_LONGEST_SECONDS = 10.0 * 365 * 86400  # a timer that is set further ahead fails
_LONGEST_TEXT = 4096


class Requests:
    """Routes a request by its verb."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._stdin = StdinWriter(supervisor.directory)
        self._terminal: Terminal | None = None
        self.verbs: dict[str, Callable[[Client, dict[str, Any]], None]] = {
            "ping": self._ping,
            "stop": self._stop,
            "signal": self._signal,
            "send": self._send,
            "subscribe": self._subscribe,
            "pause": self._pause,
            "unpause": self._unpause,
            "adjust": self._adjust,
            "hook": self._hook,
            "hook_done": self._hook_done,
            "answer": self._answer,
        }

    def serve_terminal(self, terminal: Terminal) -> None:
        """A --pty run takes its input through the terminal, and can be attached to."""
        self._terminal = terminal
        self.verbs.update(attach=self._attach, input=terminal.input, resize=terminal.resize)

    def handle(self, client: Client, verb: str, request: dict[str, Any]) -> None:
        """Answer every request, also one that we do not know."""
        serve = self.verbs.get(verb)
        if serve is None:
            said = f"unknown request {verb[:80]!r}"
            client.answer({"ok": False, "code": "unknown-request", "error": said})
            return
        try:
            serve(client, request)
        except IdentityUnproven as error:
            client.answer({"ok": False, "code": "unproven", "error": str(error)})
        except (HoldfastError, ValueError, TypeError, KeyError) as error:
            client.answer({"ok": False, "error": str(error)})

    def _attach(self, client: Client, request: dict[str, Any]) -> None:
        assert self._terminal is not None
        if request.get("read_only") is not True:
            self._refuse_inside(client, request)
        self._terminal.attach(client, request)

    def _ping(self, client: Client, _request: dict[str, Any]) -> None:
        client.answer({"ok": True})

    def _stop(self, client: Client, request: dict[str, Any]) -> None:
        cause = StopCause(_text(request, "cause") or StopCause.USER)
        grace = _seconds(request, "grace_seconds")
        sig, detail = _text(request, "signal"), _text(request, "detail")
        if sig is not None:
            parse_signal(sig)
        by = {**client.peer, "word": _word(request.get("by"))}
        client.answer({"ok": True})
        client.subscribed = bool(request.get("wait"))
        self._supervisor.begin_stop(
            cause,
            detail or _who(client, cause),
            by=by,
            sig=sig,
            grace_seconds=grace,
        )

    def _signal(self, client: Client, request: dict[str, Any]) -> None:
        sig = parse_signal(_text(request, "signal") or "")
        to = _text(request, "to") or "workload"
        if to == "workload":
            fate = self._supervisor.signal_workload(sig, client.peer)
        else:
            from holdfast.shim.passing import pass_on

            fate = pass_on(self._supervisor, sig, client.peer, to_group=to == "group")
        client.answer({"ok": True, "fate": fate})

    def _send(self, client: Client, request: dict[str, Any]) -> None:
        import binascii

        data = binascii.a2b_base64(request["base64"])
        self._refuse_inside(client, request)
        if self._terminal is not None:
            refused = self._terminal.write(data)
        elif self._supervisor.spec.wanted.stdin == "pipe":
            refused = self._stdin.write(data)
            try:
                self._flush_stdin()
            except OSError as error:  # the run's directory, or the pipe in it, was removed
                refused = f"its stdin can't be opened: {error.strerror}"
        else:
            client.answer({"ok": False, "code": "no-stdin", "error": "it has no stdin to write to"})
            return
        if refused is not None:
            client.answer({"ok": False, "code": "busy", "error": refused})
        else:
            client.answer({"ok": True})

    def _refuse_inside(self, client: Client, request: dict[str, Any]) -> None:
        """A run that types into itself would answer its own agent's questions; a budget that its
        agent can raise is none."""
        from holdfast.shim.watching.peers import Peers

        Peers(self._supervisor).refuse_inside(client, request.get("asked_by"))

    def _flush_stdin(self) -> None:
        if not self._stdin.flush():
            self._supervisor.loop.after("stdin", _STDIN_RETRY_SECONDS, self._flush_stdin)

    def _pause(self, client: Client, _request: dict[str, Any]) -> None:
        when_calm = lambda: client.answer({"ok": True})  # noqa: E731
        self._supervisor.pausing().pause(dict(client.peer), when_calm)

    def _unpause(self, client: Client, _request: dict[str, Any]) -> None:
        from holdfast.shim.pausing import BudgetUsedUp

        try:
            self._supervisor.pausing().unpause(dict(client.peer))
        except BudgetUsedUp as error:
            client.answer({"ok": False, "error": str(error), "limit": error.limit})
        else:
            client.answer({"ok": True})

    def _adjust(self, client: Client, request: dict[str, Any]) -> None:
        from holdfast.shim.adjusting import adjust, touches_budget

        if touches_budget(request.get("changes")):
            self._refuse_inside(client, request)
        client.answer(adjust(self._supervisor, request.get("changes"), dict(client.peer)))

    def _hook(self, client: Client, request: dict[str, Any]) -> None:
        hooks = self._supervisor.hooks
        if hooks is None:
            # The command runs before all that watches it is in place.
            is_early = self._supervisor.spec.agent is not None and not self._supervisor.is_equipped
            client.answer({"ok": False, "code": "later" if is_early else "no-hooks"})
        else:
            hooks.take(client, request)

    def _hook_done(self, client: Client, _request: dict[str, Any]) -> None:
        if self._supervisor.hooks is not None:
            self._supervisor.hooks.attention.acknowledged(client)

    def _answer(self, client: Client, request: dict[str, Any]) -> None:
        from holdfast.shim.watching.peers import Peers

        by = Peers(self._supervisor).refuse_inside(client, request.get("asked_by"))
        if self._supervisor.hooks is None:
            raise ValueError("its agent reports nothing, so nothing is asked")
        self._supervisor.hooks.attention.answer(client, request, by)

    def _subscribe(self, client: Client, _request: dict[str, Any]) -> None:
        client.subscribed = True
        client.answer({"ok": True, "last_seq": self._supervisor.journal.facts.last_seq})


def _who(client: Client, cause: StopCause) -> str:
    if cause is StopCause.OUTER:
        return "the run that it was started in was stopped"
    return f"asked by uid {client.peer['uid']} (pid {client.peer['pid']})"


def _text(request: dict[str, Any], name: str) -> str | None:
    value = request.get(name)
    if value is not None and type(value) is not str:
        raise ValueError(f"{name} is not a text")
    return None if value is None else value[:_LONGEST_TEXT]


def _seconds(request: dict[str, Any], name: str) -> float | None:
    value = request.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not (value <= 0 or value > 0):  # NaN is neither
        raise ValueError(f"{name} is not a number of seconds")
    return float(min(max(0, value), _LONGEST_SECONDS))


def _word(by: object) -> object:
    """The requester, as the client names it: a text, or what the shim of an outer run names."""
    if isinstance(by, dict):
        known = {name: by.get(name) for name in ("pid", "uid", "gid", "word")}
        return {name: one for name, one in known.items() if type(one) in (int, str)}
    return by[:_LONGEST_TEXT] if isinstance(by, str) else None
