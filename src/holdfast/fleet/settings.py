"""`[fleet]` of config.toml, checked; and what WHERE means.

WHERE is `ssh:HOST`, `slurm[:PARTITION]`, `ray[:NODE]`, or NAME of an `[fleet.engine.NAME]`. Such a
table may say more about a host than its name does: where its holdfast lies, how ssh gets there.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, InvalidOption, InvalidProfile, argument
from holdfast.fleet.placement import ENGINES
from holdfast.manage.starting.config import load_config
from holdfast.record import Record
from holdfast.run.units import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

HOME = "home"
_ANSWER_SECONDS = 20.0
_SCHEMES = ("postgresql://", "postgres://")


class EngineSettings(Record):
    """How one engine, or one host, is reached. Empty: its own default."""

    kind: str
    host: str = ""  # ssh: what to connect to, if it is not the name
    command: str = "holdfast"  # the node's own
    home: str = ""  # HOLDFAST_HOME there
    options: tuple[str, ...] = ()  # for ssh, sbatch
    answer_seconds: float = _ANSWER_SECONDS  # no answer by then: it does not answer


class FleetSettings(Record):
    """What the file says about other machines."""

    path: str
    ledger: str = HOME  # or postgresql://...
    engines: dict[str, EngineSettings] = {}


class FleetTarget(Record):
    """One place to run something."""

    where: str  # as it was asked for
    kind: str
    name: str  # the host, partition or node; "": the engine chooses
    settings: EngineSettings


def load_settings() -> FleetSettings:
    """The checked table; InvalidProfile names the key that is wrong."""
    config = load_config()
    return check_settings(config.path, config.fleet)


def check_settings(path: str, table: dict[str, Any]) -> FleetSettings:
    """What the table says."""
    for key in table:
        if key not in ("ledger", "engine"):
            _mistake(
                path, f"fleet.{key}", "is not known", "it may have ledger and [fleet.engine.NAME]"
            )
    ledger = table.get("ledger", HOME)
    if not isinstance(ledger, str) or not (ledger == HOME or ledger.startswith(_SCHEMES)):
        _mistake(path, "fleet.ledger", "is neither home nor postgresql://HOST/DATABASE")
    user, at, _ = ledger.partition("://")[2].partition("@")
    if at and ":" in user:
        _mistake(path, "fleet.ledger", "has a password in it", "put that into ~/.pgpass")
    engines = table.get("engine", {})
    if not isinstance(engines, dict):
        _mistake(path, "fleet.engine", "is not a table", "write [fleet.engine.NAME] above its keys")
    return FleetSettings(
        path, ledger, {name: _engine(path, name, value) for name, value in engines.items()}
    )


def target_of(where: str, settings: FleetSettings | None = None) -> FleetTarget:
    """What WHERE means; InvalidOption when it means nothing."""
    known = settings or load_settings()
    kind, colon, name = where.partition(":")
    if not colon and where in known.engines and known.engines[where].kind == "ssh":
        kind, name = "ssh", where
    elif not colon and where in known.engines:
        return FleetTarget(where, known.engines[where].kind, "", known.engines[where])
    if kind not in ENGINES or (kind == "ssh" and not name) or name.startswith("-"):
        raise InvalidOption(
            f"{argument('on')}: {where!r} is no place to run something",
            hint="ssh:HOST, slurm[:PARTITION], ray[:NODE]; or NAME of [fleet.engine.NAME]",
            option="on",
            value=where,
        )
    found = known.engines.get(name if kind == "ssh" else kind)
    if found is not None and found.kind != kind:
        raise InvalidOption(
            f"{argument('on')}: [fleet.engine.{name}] of {known.path} is of kind {found.kind}",
            option="on",
            value=where,
        )
    return FleetTarget(where, kind, name, found or EngineSettings(kind))


def _engine(path: str, name: str, table: Any) -> EngineSettings:
    where = f"fleet.engine.{name}"
    if not isinstance(table, dict):
        _mistake(path, where, "is not a table", f"write [{where}] above its keys")
    if table.get("kind") not in ENGINES:
        _mistake(path, f"{where}.kind", f"is not one of {', '.join(ENGINES)}")
    fields = {}
    for key, value in table.items():
        if key not in _READERS:
            _mistake(path, f"{where}.{key}", "is not known", f"keys are: {', '.join(_READERS)}")
        field, read = _READERS[key]
        try:
            fields[field] = read(value)
        except (TypeError, ValueError, HoldfastError) as error:
            _mistake(path, f"{where}.{key}", f"can't be used: {error}")
    return EngineSettings(**fields)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value or "\n" in value:
        raise ValueError("it should be a text in quotes")
    return value


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("it should be a list of texts")
    return tuple(_text(one) for one in value)


def _seconds(value: Any) -> float:
    return parse_duration(str(value), "answer")


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "kind": ("kind", _text),
    "host": ("host", _text),
    "command": ("command", _text),
    "home": ("home", _text),
    "options": ("options", _words),
    "answer": ("answer_seconds", _seconds),
}


def _mistake(path: str, where: str, what: str, hint: str | None = None) -> NoReturn:
    raise InvalidProfile(f"{path}: {where} {what}", hint=hint, path=path, key=where)
