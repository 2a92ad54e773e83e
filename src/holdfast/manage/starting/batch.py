"""Many starts by one call: all are checked before the first one, and each is a run of its own.

What one of them fails of is its own result. A death in the middle leaves, of each, a supervised run
or nothing, as with any start.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError, InvalidName, InvalidOption, WrongUse, as_our_error
from holdfast.manage.operations import room_for
from holdfast.manage.starting.config import layered, preset_names
from holdfast.manage.starting.elsewhere import is_placed
from holdfast.manage.starting.request import StartRequest
from holdfast.manage.starting.start import start_run
from holdfast.manage.together import together
from holdfast.options import OPTIONS
from holdfast.run.names import check_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from holdfast.manage.operations import Steps
    from holdfast.manage.run import Run
    from holdfast.manage.starting.elsewhere import OpenFleet, Prepared
    from holdfast.run.directory import RunDirectory
    from holdfast.run.home import Home

    Started = RunDirectory | Run | HoldfastError
    Told = Callable[[int, Started], None]

AT_ONCE = (
    8  # a start waits for its shim: more of them than cores, and not so many that all are late
)
_DESCRIPTORS_EACH = 6
_COMMAND = ("argv", "command")
_MERGED = ("env", "tags")


class Batch:
    """What holds for all requests of one call.

    `defaults` are keywords of `start` that hold for every item which does not say otherwise; `env`
    and `tags` are put together. A `name` becomes NAME-1, NAME-2 and so on. A `key` is completed by
    what each item asks for: a second batch with that key starts those alone that are new.
    """

    def __init__(
        self,
        defaults: Mapping[str, Any],
        *,
        name: str | None,
        key: str | None,
        label: Callable[[int], str] | None,
        with_config: bool,
        prepare: Callable[[dict[str, Any]], Prepared],
    ) -> None:
        """`label` names an item, counted from 1, in errors; `with_config`: [defaults] hold too;
        `prepare` checks a start that is meant for another machine."""
        self._prepare = prepare
        self._defaults = defaults
        self._name = name
        self._key = check_key(key)
        self._label = label or "request {}".format
        self._with_config = with_config
        self._names: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def check(self, items: Sequence[Any]) -> list[StartRequest | Prepared]:
        """The checked requests; the error of the first that can't be used: nothing is started."""
        found: list[StartRequest | Prepared] = []
        bad: list[tuple[int, WrongUse]] = []
        for number, item in enumerate(items, start=1):
            try:
                found.append(self._request(number, item))
            except WrongUse as error:
                bad.append((number, error))
        if bad:
            raise self._refusal(bad)
        return found

    def _request(self, number: int, item: Any) -> StartRequest | Prepared:
        own = _keywords(item)
        options = {**self._defaults, **own}
        for table in _MERGED:
            options[table] = {**(self._defaults.get(table) or {}), **(own.get(table) or {})}
        if self._name is not None:
            options.setdefault("name", f"{self._name}-{number}")
        if self._key is not None:
            options.setdefault("key", self._key_of(own))
        presets = preset_names(options.pop("preset", None) or ())
        if presets or self._with_config:
            options = layered(options, presets, with_defaults=self._with_config)
        request = self._prepare(options) if is_placed(options) else StartRequest(**options)
        if "name" in options:
            self._refuse_twice(number, request.name)
        return request

    def _refuse_twice(self, number: int, name: str) -> None:
        before = self._names.setdefault(name.lower(), number)
        if before != number:
            message = f"the name {name} is that of {self._label(before)} too"
            raise InvalidName(message, hint="a name has one live run: give each its own")

    def _key_of(self, own: Mapping[str, Any]) -> str:
        """The key with a digest of what is asked for, which may hold secrets; equal ones count."""
        import hashlib
        import json

        text = json.dumps(own, sort_keys=True, default=repr)
        key = f"{self._key}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        count = self._keys[key] = self._keys.get(key, 0) + 1
        return key if count == 1 else f"{key}-{count}"

    def _refusal(self, bad: list[tuple[int, WrongUse]]) -> WrongUse:
        number, first = bad[0]
        more = f" (and {len(bad) - 1} more of them)" if len(bad) > 1 else ""
        message = f"{self._label(number)}: {first.message}{more}; nothing was started"
        numbers = [number for number, _ in bad]
        return type(first)(message, hint=first.hint, **{**first.fields, "requests": numbers})


def _keywords(item: Any) -> dict[str, Any]:
    """The keywords of `start` that an item stands for: a mapping of them, or a command's words.

    An error is an item that could not be read: so all that can't be used are told at once.
    """
    if isinstance(item, WrongUse):
        raise item
    try:
        given = dict(item) if hasattr(item, "keys") else {"argv": item}
    except (TypeError, ValueError):
        raise InvalidOption("not a mapping of options", option="request") from None
    options = {}
    for key, value in given.items():
        name = str(key).replace("-", "_")
        name = "argv" if name in _COMMAND else name
        if name in options:
            raise InvalidOption(f"{key} is there twice", option=name)
        if name != "argv" and name not in OPTIONS:
            known = ", ".join(("command", *OPTIONS))
            raise InvalidOption(
                f"there is no option {key!r}", hint=f"there are {known}", option=key
            )
        options[name] = value
    if "argv" not in options:
        hint = 'such as {"command": ["sleep", "60"]}'
        raise InvalidOption("there is no command to run", hint=hint, option="command")
    for table in _MERGED:
        if not hasattr(options.get(table) or {}, "keys"):
            raise InvalidOption(f"{table} is no mapping of texts", option=table)
    return options


def start_many_steps(
    home: Home,
    notice: Callable[[str], None],
    requests: Sequence[Any],
    *,
    name: str | None = None,
    key: str | None = None,
    label: Callable[[int], str] | None = None,
    with_config: bool = False,
    told: Told = lambda _place, _started: None,
    **defaults: Any,
) -> Steps[list[Started]]:
    """Check them all, then start them; `told` gets each result as it comes."""
    elsewhere = _Elsewhere(home, notice)
    batch = Batch(
        defaults,
        name=name,
        key=key,
        label=label,
        with_config=with_config,
        prepare=elsewhere.prepare,
    )
    return _start_all(home, batch.check(list(requests)), notice, told, elsewhere)


class _Elsewhere:
    """The other machines that a batch is about, opened when the first of its lines names one."""

    def __init__(self, home: Home, notice: Callable[[str], None]) -> None:
        self._home, self._notice = home, notice
        self._opened: OpenFleet | None = None

    def prepare(self, options: dict[str, Any]) -> Prepared:
        if self._opened is None:
            from holdfast.manage.runs import Runs
            from holdfast.manage.starting.elsewhere import fleet

            self._opened = fleet().open_fleet(Runs(self._home.path, notice=self._notice))
        argv = options.pop("argv")
        return self._opened.prepare(argv, options)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def _start_all(
    home: Home,
    requests: Sequence[StartRequest | Prepared],
    notice: Callable[[str], None],
    told: Told,
    elsewhere: _Elsewhere,
) -> Steps[list[Started]]:
    """Start them, some at a time; each one's run or error, in order, and to `told` as it comes."""

    def steps(request: StartRequest | Prepared) -> Steps[RunDirectory | Run]:
        if isinstance(request, StartRequest):
            return start_run(home, request, notice)
        return request.steps()

    starts = [_start(place, steps(request), told) for place, request in enumerate(requests)]
    at_once = min(AT_ONCE, room_for(_DESCRIPTORS_EACH))
    try:
        return (yield from together(starts, at_once))
    finally:
        elsewhere.close()


def _start(place: int, steps: Steps[RunDirectory | Run], told: Told) -> Steps[Started]:
    started: Started
    try:
        started = yield from steps
    except (HoldfastError, OSError) as error:
        started = as_our_error(error)
    told(place, started)
    return started
