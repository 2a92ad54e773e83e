"""Why a button of the page would do nothing now, in `manage`'s words: the page has no rules."""

from __future__ import annotations

from holdfast.manage.words.possible import Deed, recovered_there, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.manage.info import RunInfo

_BUTTONS = (
    *(Deed.STOP, Deed.PAUSE, Deed.RESUME, Deed.RERUN, Deed.RECOVER, Deed.REMOVE),
    *(Deed.SEND, Deed.APPROVE, Deed.DENY),
)


def refusals(info: RunInfo, node: str = "") -> dict[str, str]:
    """Why each action is impossible; empty: it is not. `node`: where the run is, if not here."""
    found = {deed.value: why_not(deed, info) for deed in _BUTTONS}
    if node:
        found[Deed.RECOVER.value] = recovered_there(info.name or info.id, node)
    return found
