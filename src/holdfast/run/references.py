"""Which run a person means: a name, an id, or the beginning of an id."""

from __future__ import annotations

from holdfast.errors import HoldfastError, InvalidName, RunNotFound, WrongType
from holdfast.run.claims import read_name
from holdfast.run.directory import RunDirectory
from holdfast.run.names import check_name, is_id, is_id_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.run.home import Home

SHORTEST_PREFIX = 4


def resolve(home: Home, reference: str) -> str:
    """The id that is meant. InvalidName when malformed or ambiguous, RunNotFound when none."""
    if not isinstance(reference, str):
        raise WrongType(
            f"a run is named by a str, not {type(reference).__name__}",
            hint="pass its name, its id, or the beginning of its id",
        )
    check_name(reference)
    return (
        find_by_name(home, reference)
        or _by_id(home, reference.lower())
        or _by_spec(home, reference)  # of a run that was unpacked: no claim leads to it
        or _missing(home, reference)
    )


def find_by_name(home: Home, name: str) -> str | None:
    """The newest run of that name; None: there is none."""
    led_to = read_name(home, name)
    if led_to is None:
        return None
    if is_id(led_to) and RunDirectory(home, led_to).is_known():
        return led_to
    # The name was used, and what it leads to was removed or can't be read: ask every spec.
    return _by_spec(home, name)


def _by_spec(home: Home, name: str) -> str | None:
    for run_id in reversed(home.run_ids()):
        if _name_of(home, run_id) == name.lower():
            return run_id
    return None


def _by_id(home: Home, prefix: str) -> str | None:
    if not is_id_prefix(prefix) or len(prefix) < SHORTEST_PREFIX:
        return None
    if is_id(prefix):
        return prefix if RunDirectory(home, prefix).is_known() else None
    every = {*home.run_ids(), *home.run_ids(active=True)}
    fitting = sorted(run_id for run_id in every if run_id.startswith(prefix))
    fitting = [run_id for run_id in fitting if RunDirectory(home, run_id).is_known()]
    if len(fitting) > 1:
        shown = ", ".join(fitting[:5]) + (", ..." if len(fitting) > 5 else "")
        raise InvalidName(
            f"{prefix} is the beginning of {len(fitting)} ids", hint=f"say which: {shown}"
        )
    return fitting[0] if fitting else None


def _missing(home: Home, reference: str) -> str:
    import difflib

    names = [name for name in home.names() if name != reference.lower()]  # it leads nowhere
    near = difflib.get_close_matches(reference.lower(), names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`holdfast ls --all` shows every run"
    raise RunNotFound(f"there is no run {reference}", hint=hint, run=reference, near=near)


def _name_of(home: Home, run_id: str) -> str | None:
    try:
        return RunDirectory(home, run_id).read_spec().name.lower()
    except (HoldfastError, OSError):
        return None
