"""Hosts reached by ssh: it neither queues nor chooses, and holds nothing. The only owner of ssh.

Connections are shared (ControlMaster) for a minute. The words on the far side's command line are
fixed: what is asked goes over stdin, so it is in no process list, and no shell has to quote it.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError, NoAnswer
from holdfast.fleet.channel import Channel, count_sessions
from holdfast.fleet.placement import Reservation
from holdfast.fleet.session import (
    StartSession,
    asked_of,
    check_version,
    commit_over,
    refuse_other_node,
    relay_line,
    tty_word,
)
from holdfast.fleet.sockets import socket_folder
from holdfast.manage.doctor.findings import missing, works
from holdfast.shell_words import command_line, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.fleet.placement import EngineView, Placement
    from holdfast.fleet.placer import NodeCall, StartAnswer
    from holdfast.fleet.request import FleetRequest
    from holdfast.fleet.settings import FleetTarget
    from holdfast.manage.doctor.findings import DoctorFinding
    from holdfast.manage.operations import Steps

_NOT_REACHED = 255  # ssh's own failures
_NOT_FOUND = 127
_PERSIST_SECONDS = 60
_LINES_QUOTED = 3
_CHECK_SECONDS = 10  # that the connection of a check is kept unused
_SESSIONS = 10  # MaxSessions of sshd, by default
_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=5",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    f"ControlPersist={_PERSIST_SECONDS}",
    "LogLevel=ERROR",
)


class SshPlacer:
    """One host."""

    kind = "ssh"

    def __init__(self, target: FleetTarget) -> None:
        self._target = target
        self._settings = target.settings
        self._host = target.settings.host or target.name
        self._sessions: dict[str, StartSession] = {}  # by placement: opened, and not committed
        self._idle: list[StartSession] = []  # that can start more

    def close(self) -> None:
        """Close sessions of nodes that wait for a request."""
        for session in (*self._sessions.values(), *self._idle):
            session.close()
        self._sessions.clear()
        self._idle.clear()

    def reserve(self, placement: Placement, _is_new: bool) -> Steps[Reservation]:
        """The host itself: what is recorded is which node answers there."""
        session = yield from self._open(asked_of(placement.request))
        facts = session.facts
        self._sessions[placement.id] = session
        refuse_other_node(placement, facts)
        return Reservation("ssh", {"host": self._host, "node": facts.node, "name": facts.hostname})

    def commit(
        self, placement: Placement, bound: Reservation, request: FleetRequest | None
    ) -> Steps[StartAnswer | None]:
        """Have the node start it."""
        session = self._sessions.pop(placement.id, None)
        if session is None:
            session = yield from self._open(asked_of(placement.request))
        try:
            answer = yield from commit_over(session, placement, bound.handle["node"], request)
        except BaseException:
            session.close()
            raise
        self._idle.append(session)
        return answer

    def renew(self, _placement: Placement, _bound: Reservation) -> Steps[StartAnswer | None]:
        """A commit is the node's own answer: nothing of it can be lost."""
        yield from ()
        return None

    def look(self, _bound: Reservation) -> Steps[EngineView | None]:
        """ssh has no word about a run."""
        yield from ()
        return None

    def look_at_all(self, bounds: Sequence[Reservation]) -> Steps[list[EngineView | None]]:
        """Nor about many."""
        yield from ()
        return [None] * len(bounds)

    def reach(self, placement: Placement, call: NodeCall) -> Steps[Channel]:
        """The node's own holdfast, over ssh."""
        channel = self._channel("relay", shows_errors=call.shows_errors)
        line = relay_line(call.words, placement.node, columns=call.columns)
        yield from channel.write(line + call.stdin)
        channel.end_input()
        return channel

    def attach_argv(self, placement: Placement, words: Sequence[str]) -> list[str]:
        """The program that runs a command of the node's own holdfast on our terminal."""
        return [*self._ssh("-tt"), self._remote("relay", tty_word(words, placement.node))]

    def cancel(self, _reservation: Reservation) -> Steps[None]:
        """Nothing is held."""
        yield from ()

    def end(self, _bound: Reservation) -> Steps[str | None]:
        """There is nobody else to ask."""
        yield from ()
        return None

    def check(self) -> Steps[list[DoctorFinding]]:
        """Whether one connection carries as many commands at once as ssh's default allows."""
        yield from self._connect()
        opened = yield from count_sessions(self._shared(), _SESSIONS)
        if not opened:
            return []  # no connection: what is wrong is told when the node is asked
        if opened >= _SESSIONS:
            return [works("sessions", f"one connection carries {_SESSIONS} commands at once")]
        return [
            missing(
                "sessions",
                f"one connection carries {opened} commands at once: more need one each",
                "MaxSessions 10 in sshd_config there",
            )
        ]

    def _connect(self) -> Steps[None]:
        """Have a connection of the check's own made, if it can be: none of its room is in use."""
        ssh = self._ssh("-T")
        argv = [ssh[0], *self._own_connection(), *ssh[1:], "exec true"]
        with Channel(argv, self._host, answer_seconds=self._settings.answer_seconds) as channel:
            try:
                yield from channel.hello()
            except HoldfastError:  # it says nothing, and ends
                pass

    def _shared(self) -> list[str]:
        """A session over that connection, and none without it."""
        only = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false")
        ssh = self._ssh("-T")
        return [ssh[0], *self._own_connection(), *only, *ssh[1:], "exec cat"]

    def _own_connection(self) -> list[str]:
        """ssh takes the first of two values."""
        path = self._socket(f"check {os.getpid()}")
        return ["-o", f"ControlPath={path}", "-o", f"ControlPersist={_CHECK_SECONDS}"]

    def _open(self, asked: Sequence[str]) -> Steps[StartSession]:
        if self._idle:
            check_version(self._idle[-1].facts, self._target.where, asked)
            return self._idle.pop()
        session = StartSession(self._channel("start"), self._target.where)
        try:
            yield from session.begin(asked)
        except BaseException:
            session.close()
            raise
        return session

    def _channel(self, verb: str, *, shows_errors: bool = False) -> Channel:
        return Channel(
            [*self._ssh("-T"), self._remote(verb)],
            self._target.where,
            answer_seconds=self._settings.answer_seconds,
            shows_errors=shows_errors,
            explain=self._explained,
        )

    def _ssh(self, terminal: str) -> list[str]:
        options = [
            word for one in (*_OPTIONS, f"ControlPath={self._socket()}") for word in ("-o", one)
        ]
        return ["ssh", *self._settings.options, *options, terminal, "--", self._host]

    def _remote(self, verb: str, *words: str) -> str:
        """One line for the login shell there, whichever that is. The command is the user's text."""
        home = self._settings.home
        prefix = f"env HOLDFAST_HOME={quote(home)} " if home else ""
        return f"exec {prefix}{self._settings.command} fleet {' '.join((verb, *words))}"

    def _socket(self, use: str = "") -> str:
        """Where ssh keeps the shared connection: one for each host and way to it."""
        import hashlib

        way = "\0".join((self._host, *self._settings.options, *([use] if use else []))).encode()
        return f"{socket_folder('ssh')}/{hashlib.sha256(way).hexdigest()[:16]}"

    def _explained(self, error: NoAnswer) -> HoldfastError:
        """What to do about a host on which no holdfast answered."""
        if error.fields.get("status") == _NOT_FOUND:
            return NoAnswer(
                f"there is no {self._settings.command} on {self._host}: {error.fields['said']}",
                hint="install it there; if it is in ~/.local/bin, which such a shell may not look"
                f' into: [fleet.engine.{self._target.name}] command = "~/.local/bin/holdfast"',
            )
        said = error.fields.get("said", "").splitlines()
        words = "; ".join(line.strip() for line in said[-_LINES_QUOTED:] if line.strip())
        status = error.fields.get("status")
        message = error.message
        if status not in (None, _NOT_REACHED):
            words = words or f"it ended with exit code {status}, and said nothing"
            message = f"holdfast on {self._host} did not begin: {words}"
        return NoAnswer(message, hint=f"try it: {self._by_hand()}")

    def _by_hand(self) -> str:
        """What a person can type to see what is wrong."""
        remote = self._remote("node").removeprefix("exec ")
        return command_line(["ssh", *self._settings.options, "--", self._host, remote])
