"""The processes that are named in a record that can't be read, or believed, as a whole."""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.process.identity import ProcessIdentity
from holdfast.process.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.run.directory import RunDirectory

_TOKEN = rb"h[fp]1\.[0-9a-f.]+"


def tokens_in_record(directory: RunDirectory) -> set[str]:
    """Every process that is named anywhere in a record that can't be read as a whole."""
    return _named_in(directory.events_path) | _named_in(directory.signals_path)


def living_named(directory: RunDirectory) -> list[ProcessIdentity]:
    """Those of them that are proven to be alive."""
    named = map(ProcessIdentity.parse, sorted(tokens_in_record(directory)))
    return [identity for identity in named if identity.verdict() is Verdict.SAME]


def say_how_to_reach(living: Sequence[ProcessIdentity]) -> str:
    """A hint how to end processes of which only the tokens are believed."""
    tokens = " ".join(identity.token for identity in living)
    return f"`holdfast signal TERM TOKEN` reaches each of these: {tokens or 'none is known'}"


def _named_in(path: str) -> set[str]:
    import re

    try:
        with open(path, "rb") as file:
            matches = re.findall(_TOKEN, file.read())
    except OSError:
        return set()
    found = {match.rstrip(b".").decode("ascii") for match in matches}
    return {token for token in found if _is_token(token)}


def _is_token(text: str) -> bool:
    try:
        ProcessIdentity.parse(text)
    except HoldfastError:
        return False
    return True
