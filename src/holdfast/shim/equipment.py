"""Puts a supervised run's watchers, observer, control socket and signals in place."""

from __future__ import annotations

from holdfast.lean import signal
from holdfast.run.outcomes import StopCause
from holdfast.shim.control import ControlServer
from holdfast.shim.observer import Observer
from holdfast.shim.output_watch import OutputWatch
from holdfast.shim.requests import Requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.shim.supervisor import Supervisor
    from holdfast.shim.terminal import Terminal


def equip(supervisor: Supervisor) -> None:
    """Called once per shim, before its loop runs; each piece may fail without harm to the run."""
    supervisor.guarded("control", lambda: _serve(supervisor))
    supervisor.guarded("notices", lambda: _notify(supervisor))
    supervisor.guarded("watchers", lambda: _watch(supervisor))
    supervisor.loop.on_signal(signal.SIGTERM, lambda: _signalled(supervisor))


def _signalled(supervisor: Supervisor) -> None:
    supervisor.begin_stop(StopCause.SHIM_SIGNALLED, "the shim was sent SIGTERM")


def _serve(supervisor: Supervisor) -> None:
    requests = Requests(supervisor)
    if supervisor.spec.pty:
        terminal = _terminal(supervisor)
        requests.serve_terminal(terminal)
        supervisor.after_ending.append(terminal.part)
        supervisor.after_release.append(terminal.say_last_words)
    server = ControlServer(supervisor.loop, supervisor.directory.path, requests.handle)
    supervisor.journal.publish = server.publish
    supervisor.after_ending.append(server.close)


def _watch_agent(supervisor: Supervisor, output: OutputWatch, observer: Observer) -> None:
    from holdfast.shim.agent_watch import AgentWatch

    watch = AgentWatch(supervisor, output, str(supervisor.spec.agent))
    observer.sought = watch.sought
    supervisor.before_ending.append(watch.last_look)


def _terminal(supervisor: Supervisor) -> Terminal:
    from holdfast.shim.terminal import Terminal

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


def _watch(supervisor: Supervisor) -> None:
    wanted = supervisor.spec.wanted
    observer = Observer(supervisor)
    output = OutputWatch(supervisor, supervisor.journal.facts.log_start_byte)
    supervisor.on_exit.append(observer.last_look)
    supervisor.on_succession.append(observer.follow_heir)
    supervisor.before_ending.append(output.drain)
    supervisor.out_of_time.append(output.skip)
    supervisor.log_size = output.check_size  # each sample asks
    supervisor.usage = observer.usage
    began = [observer.begin]
    limits = (wanted.timeout_seconds, wanted.idle_timeout_seconds, wanted.memory_max_bytes)
    if wanted.done_when is not None or limits != (None, None, None):
        began = [*_limit(supervisor, output, observer), *began]
    if supervisor.spec.agent is not None:
        supervisor.guarded("agent", lambda: _watch_agent(supervisor, output, observer))
    began.append(output.begin)
    supervisor.on_running.extend(began)


def _limit(
    supervisor: Supervisor, output: OutputWatch, observer: Observer
) -> list[Callable[[], None]]:
    """The watchers that were asked for; most runs have none, and need not load them."""
    from holdfast.shim.watchers import Deadline, DoneWhen, MemoryLimit, Silence

    wanted = supervisor.spec.wanted
    began = [Deadline(supervisor, output).begin]
    if wanted.done_when is not None:
        DoneWhen(supervisor, output)
    if wanted.idle_timeout_seconds is not None:
        began.append(Silence(supervisor, observer).begin)
    if wanted.memory_max_bytes is not None:
        began.append(MemoryLimit(supervisor, observer).begin)
    return began
