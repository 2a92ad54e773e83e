"""`holdfast signal SIG TARGET`: signal a process, only if it is proven to be the same one."""

from __future__ import annotations

from holdfast.cli.arguments.target import find_target, is_path
from holdfast.cli.text import streams
from holdfast.errors import Failed, HoldfastError, IdentityUnproven, ProcessGone
from holdfast.manage.plaintext import printable
from holdfast.process.signals import Fate, parse_signal, send_signal, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from holdfast.cli.arguments.parser import Parser
    from holdfast.manage.run import Run
    from holdfast.process.identity import ProcessIdentity
    from holdfast.process.signals import Delivery

_WHY = "holdfast signal"


def add_arguments(parser: Parser) -> None:
    """SIG and its target."""
    parser.add_argument("signal", metavar="SIG", help="TERM, SIGTERM or 15")
    parser.add_argument(
        "target", metavar="TOKEN|PIDFILE|RUN", help="a token, the path of a pid file, or a run"
    )
    parser.add_argument(
        "--trust-pid",
        action="store_true",
        help="signal the PID of a pid file without a start time, which proves nothing",
    )
    parser.epilog = (
        "exit codes: 0 delivered, 3 it has ended (its PID may belong to another process: no\n"
        "signal was sent), 4 not proven, so not signalled, 1 the kernel denied it"
    )


def run(args: Namespace) -> int:
    """Send it, and print what happened."""
    number = parse_signal(args.signal)
    target = find_target(args.target)
    if target.run is None:
        delivery = send_signal(target.identity, number, trust_pid=args.trust_pid)
    else:
        delivery = _signal_run(target.run, target.identity, number)
    document = _document(delivery)
    if not delivery.delivered:
        raise _error(delivery, args.target, document)
    if args.json:
        streams.say_json({"schema": 1, **document})
    elif not args.quiet:
        proof = f" ({delivery.proof})" if delivery.proof else f": {delivery.evidence}"
        streams.say(f"{signal_name(number)} delivered to {target.identity.pid}{printable(proof)}")
    return 0


def _signal_run(run: Run, identity: ProcessIdentity, number: int) -> Delivery:
    """Announced first: the shim may see the process end before we could record the signal."""
    from holdfast.manage.stopping import refuse_unproven
    from holdfast.run.signal_log import announcement, signal_row

    refuse_unproven(run.directory)
    _record(run, announcement(identity, number, _WHY))
    delivery = send_signal(identity, number)
    _record(run, signal_row(delivery, _WHY))
    return delivery


def _record(run: Run, row: dict[str, Any]) -> None:
    """A run's history names every signal to it; a failure to write it is only a warning."""
    try:
        run.directory.append_signal(row)
    except FileNotFoundError:  # it was removed meanwhile, and its history with it
        pass
    except OSError as error:
        streams.warn(f"the history of signals of {run.id} can't be written: {error.strerror}")


def _document(delivery: Delivery) -> dict[str, Any]:
    return {
        "signal": signal_name(delivery.signal),
        "fate": delivery.fate.value,
        "identity": delivery.identity.to_json(),
        "proof": delivery.proof.value if delivery.proof else None,
        "evidence": delivery.evidence,
    }


def _error(delivery: Delivery, target: str, document: dict[str, Any]) -> HoldfastError:
    if delivery.fate in (Fate.GONE, Fate.RECYCLED):
        message = f"{delivery.evidence}; no process was signalled"
        return ProcessGone(message, document=document)
    if delivery.fate is Fate.DENIED:
        return Failed(
            f"denied: {delivery.evidence}",
            hint="signal it as its owner or as root",
            document=document,
        )
    if _is_bare(delivery.identity):
        name = target if is_path(target) else str(delivery.identity.pid)
        return IdentityUnproven(
            f"{name} names {delivery.identity.pid} without a start time; not signalled",
            hint=f"check it with `ps {delivery.identity.pid}`; --trust-pid signals it anyway",
            document=document,
        )
    hint = "--trust-pid signals it anyway" if delivery.identity.boot_id is None else None
    message = f"{delivery.evidence}; not signalled"
    return IdentityUnproven(message, hint=hint, document=document)


def _is_bare(identity: ProcessIdentity) -> bool:
    return identity.start_ticks is None and identity.create_time is None and not identity.boot_id
