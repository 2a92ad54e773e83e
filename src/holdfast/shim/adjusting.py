"""Changes limits of a run while it goes on: recorded first, then in force, also after an adoption.

A limit that is passed already is refused: to stop a run there is `stop`. Whether a budget can be
held at all is for the asker to say (`manage/changing/adjusting.py`).
"""

from __future__ import annotations

from holdfast.options import ADJUSTABLE, Wanted
from holdfast.process.clock import boottime
from holdfast.run.checked_json import mismatch
from holdfast.run.crashpoints import crash_point
from holdfast.run.events import Kind
from holdfast.run.usage.budget import LIMITS, in_words, used_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.shim.supervisor import Supervisor

    Json = dict[str, Any]

_WORDS = {"on_budget": ("stop", "pause")}
_MAY_BE_ZERO = ("grace_seconds",)
_MOST = {"float": 36500 * 86400.0, "int": 2**62}  # beyond a century a timer means nothing


def touches_budget(asked: object) -> bool:
    """Whether the request changes a budget; refused from inside the run."""
    return isinstance(asked, dict) and any(name in asked for name in (*LIMITS, "on_budget"))


def adjust(supervisor: Supervisor, asked: object, by: Json) -> Json:
    """The answer. ValueError says what is wrong with the request."""
    if supervisor.stop_cause is not None:
        raise ValueError("it is being stopped")
    changes = _checked(asked)
    passed = next(filter(None, (_passed(supervisor, *one) for one in changes.items())), None)
    if passed is not None:
        return {"ok": False, "code": "passed", "error": passed}
    before = {name: getattr(supervisor.spec.wanted, name) for name in changes}
    supervisor.journal.record(Kind.ADJUSTED, changes=changes, before=before, by=by)
    crash_point("shim.adjusted")
    supervisor.spec = supervisor.spec.adjusted(changes)
    supervisor.adjust_watchers(changes)
    return {"ok": True, "before": before}


def _checked(asked: object) -> Json:
    if not isinstance(asked, dict) or not asked:
        raise ValueError("no changes")
    for name, value in asked.items():
        if name not in ADJUSTABLE:
            raise ValueError(f"{str(name)[:80]!r} can't be changed")
        annotation = Wanted.__annotations__[name]
        if mismatch(annotation, value) is not None or not _is_usable(name, annotation, value):
            raise ValueError(f"{name} can't be {str(value)[:80]!r}")
    return asked


def _is_usable(name: str, annotation: str, value: Any) -> bool:
    if value is None:
        return True
    if name in _WORDS:
        return value in _WORDS[name]
    least = 0 if name in _MAY_BE_ZERO else 1e-9
    return bool(least <= value <= _MOST[annotation.partition(" ")[0]])


def _passed(supervisor: Supervisor, name: str, value: Any) -> str | None:
    """What the run has come to, where that is beyond the limit already; None: it is not."""
    facts = supervisor.journal.facts
    if value is None:
        return None
    from holdfast.run.units import size, span  # not for a shim that gets no such request

    if name == "timeout_seconds" and facts.began_boottime is not None:
        ran = boottime() - facts.began_boottime
        return f"it has run for {span(round(ran))} already" if ran >= value else None
    if name == "memory_max_bytes":
        used = supervisor.memory_bytes(value)
        is_more = used is not None and used > value
        return f"it uses {size(used)} of memory already" if is_more else None
    if name in LIMITS:
        spent = used_of(name, facts.usage)
        is_more = spent is not None and spent > value
        return f"it has used {in_words(name, spent or 0, value)} already" if is_more else None
    return None
