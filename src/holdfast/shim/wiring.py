"""Puts a supervised run's watchers, observer, control socket and signals in place."""

from __future__ import annotations

from holdfast.errors import is_shortage
from holdfast.options import WATCHED
from holdfast.shim.control import ControlServer
from holdfast.shim.stdio import LogSize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.options import Wanted
    from holdfast.shim.control import Client
    from holdfast.shim.pty.terminal import Terminal
    from holdfast.shim.requests import Requests
    from holdfast.shim.rescue.neighbours import Neighbours
    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.watching.agent_watch import AgentWatch
    from holdfast.shim.watching.output_watch import OutputWatch
    from holdfast.shim.watching.watcher import Watcher

_JOIN_SECONDS = 0.02  # a run that is over by then needs no neighbour


def equip(supervisor: Supervisor) -> None:
    """Called once per shim, before its loop runs; each piece may fail without harm to the run."""
    supervisor.listen()
    supervisor.guarded("notices", lambda: _notify(supervisor))
    supervisor.until_done(lambda: _Parts(supervisor).attach())


def serve(supervisor: Supervisor) -> None:
    """Open the control socket; the loop answers."""
    terminal = None
    if supervisor.spec.pty:
        terminal = _terminal(supervisor)
        supervisor.after_ending.append(terminal.part)
        supervisor.after_release.append(terminal.say_last_words)
    company = _Company(supervisor, terminal)
    server = ControlServer(supervisor.loop, supervisor.directory.path, company.handle)
    supervisor.on_running.append(company.begin)
    if supervisor.spec.waits is not None:
        supervisor.on_waiting.append(company.begin)
    supervisor.after_ending.append(company.close)
    supervisor.journal.publish = server.publish
    supervisor.after_ending.append(server.close)


class _Company:
    """Answers requests, and watches the neighbour shim.

    What they need is loaded for the first request or a moment after the start (`main.py` loads it
    earlier where a run goes on): a run that is over by then needs neither.
    """

    def __init__(self, supervisor: Supervisor, terminal: Terminal | None) -> None:
        self._supervisor, self._terminal = supervisor, terminal
        self._requests: Requests | None = None
        self._neighbours: Neighbours | None = None

    def handle(self, client: Client, verb: str, request: dict[str, Any]) -> None:
        if self._requests is None:
            self._requests = self._make_requests()
        self._requests.handle(client, verb, request)

    def begin(self) -> None:
        """The run has begun: find a neighbour soon, and become one."""
        supervisor = self._supervisor
        supervisor.loop.after(
            "join neighbours", _JOIN_SECONDS, lambda: supervisor.until_done(self._join)
        )

    def close(self) -> None:
        """Our run is over."""
        self._supervisor.loop.cancel("join neighbours")
        if self._neighbours is not None:
            self._neighbours.close()

    def _join(self) -> None:
        self._ring().join()

    def _ring(self) -> Neighbours:
        if self._neighbours is None:
            from holdfast.shim.rescue.neighbours import Neighbours

            self._neighbours = Neighbours(self._supervisor)
        return self._neighbours

    def _make_requests(self) -> Requests:
        from holdfast.shim.requests import Requests
        from holdfast.shim.rescue.neighbours import VERB

        requests = Requests(self._supervisor)
        if self._terminal is not None:
            requests.serve_terminal(self._terminal)
        requests.verbs[VERB] = self._ring().told
        if self._supervisor.spec.waits is not None:
            from holdfast.shim.waiting.waiting import serve_waiting

            serve_waiting(self._supervisor, requests)
        return requests


def _terminal(supervisor: Supervisor) -> Terminal:
    from holdfast.shim.pty.terminal import Terminal

    terminal = Terminal(supervisor)
    supervisor.use_terminal = terminal.use
    supervisor.before_ending.append(terminal.drain)
    if supervisor.terminal is not None:
        terminal.use(supervisor.terminal)
    return terminal


def _notify(supervisor: Supervisor) -> None:
    command = supervisor.spec.wanted.notify
    if command is not None:
        from holdfast.shim.notify import Notifier

        notifier = Notifier(supervisor, command)
        supervisor.after_ending.append(notifier.ended)
        supervisor.tell = notifier.tell


class _Parts:
    """All that watches one run: made as a whole, or not at all, before the supervisor has any."""

    def __init__(self, supervisor: Supervisor) -> None:
        from holdfast.shim.observer import Observer

        spec = supervisor.spec
        self._supervisor = supervisor
        self._observer = Observer(supervisor)
        self._log = LogSize(supervisor, supervisor.journal.facts.attempt.log_start_byte)
        asked = _asked_watchers(spec.wanted)
        self._output: OutputWatch | None = None
        is_read = spec.agent is not None or any(one.reads_output for one in asked)
        if is_read or spec.wanted.log_max_bytes is not None:
            self._output = _watch_output(supervisor, self._log)
        self._watchers = {one.field: self._make(one) for one in asked}
        self._agent = self._watch_agent() if spec.agent is not None else None

    def _make(self, kind: type[Watcher]) -> Watcher:
        value = getattr(self._supervisor.spec.wanted, kind.field)
        return kind(self._supervisor, self._output, self._observer, value)

    def _beginning(self, field: str) -> Callable[[], None]:
        """Begin to watch by an option, with the value that it has then."""

        def begin() -> None:
            if field in self._watchers:
                self._watchers[field].begin()

        return begin

    def adjust(self, fields: Iterable[str]) -> None:
        """These options of the run have other values now: watch by those."""
        supervisor = self._supervisor
        asked = {one.field: one for one in _asked_watchers(supervisor.spec.wanted)}
        for field in fields:
            is_known = field in self._watchers
            if is_known:
                self._watchers.pop(field).end()
            if field in asked:
                self._watchers[field] = self._make(asked[field])
                if is_known:
                    supervisor.begin_again(self._watchers[field].begin)
                else:
                    supervisor.add_watchers([self._beginning(field)])

    def _rest(self) -> None:
        """Until the next attempt there is nothing to look at."""
        self._observer.rest()
        for watcher in self._watchers.values():
            watcher.rest()

    def _watch_agent(self) -> AgentWatch | None:
        """None: its profile can't be read."""
        from holdfast.shim.watching.agent_watch import AgentWatch

        assert self._output is not None
        try:
            return AgentWatch(self._supervisor, self._output, str(self._supervisor.spec.agent))
        except Exception as error:
            if is_shortage(error):
                raise
            self._supervisor.journal.record_fault("agent", error)
            return None

    def attach(self) -> None:
        """From here on they are called; at once, if the command runs already."""
        supervisor, observer, output = self._supervisor, self._observer, self._output
        supervisor.on_exit.append(observer.last_look)
        supervisor.on_succession.append(observer.follow_heir)
        supervisor.usage = observer.usage
        supervisor.log_size = self._log.look  # each sample asks
        if output is None:
            supervisor.before_ending.append(self._log.last_look)
        else:
            supervisor.has_unread = lambda: output.is_behind(self._log.look())
            supervisor.before_ending.append(output.drain)
            supervisor.out_of_time.append(output.skip)
        if self._agent is not None:
            supervisor.on_rest.append(self._agent.attempt_over)
            supervisor.resume_words = self._agent.resume_words
            supervisor.hooks = self._agent.listen_to_hooks()
            if supervisor.hooks is not None:
                supervisor.on_rest.append(supervisor.hooks.attention.clear)
            observer.sought = self._agent.sought
            supervisor.before_ending.append(self._agent.last_look)
        supervisor.on_rest.append(self._rest)
        supervisor.is_equipped = True
        supervisor.adjust_watchers = self.adjust
        supervisor.memory_bytes = observer.memory_bytes
        begins = list(map(self._beginning, self._watchers))
        begins.append(observer.begin)
        if output is not None:
            begins.append(output.begin)
        supervisor.add_watchers(begins)


def _asked_watchers(wanted: Wanted) -> list[type[Watcher]]:
    """Most runs ask for none, and need not load them."""
    if all(getattr(wanted, field) in (None, False) for field in WATCHED):
        return []
    from holdfast.shim.watching.watchers import asked_watchers

    return asked_watchers(wanted)


def _watch_output(supervisor: Supervisor, log: LogSize) -> OutputWatch:
    from holdfast.shim.watching.output_watch import OutputWatch

    return OutputWatch(supervisor, log)
