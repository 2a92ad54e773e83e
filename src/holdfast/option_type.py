"""What an option of a run is; `options.py` declares each."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

PAIRS = ("variables", "tags")  # K=V; a mapping in the library, a table in config.toml
_REPEATED = ("files", "preset", "runs", *PAIRS)


class Option:
    """One option of a run. `field` is where `wanted` keeps it; "": the start consumes it."""

    declared: ClassVar[dict[str, Option]] = {}  # all, by name
    const = True  # of a flag
    value_of = str  # the word that was typed, for the library to read

    def __init__(
        self,
        name: str,
        kind: str | tuple[str, ...],
        group: str,
        text: str,
        *,
        default: object = None,
        short: str = "",
        flag: str = "",
        metavar: str = "",
        in_config: bool = True,
        watched: bool = False,
        adjustable: bool = False,
    ) -> None:
        """`name` is the library's keyword and the key in config.toml; `text` is the help.

        `kind` is a key of `KINDS` in `manage/starting/option_values.py`, or the words to choose
        from. `watched`: a watcher of `shim/watching/watchers.py` acts on it. `adjustable`:
        `adjust` changes it while the run goes on.
        """
        self.name, self.kind, self.group, self.text = name, kind, group, text
        self.default, self.metavar, self.in_config = default, metavar, in_config
        self.watched, self.adjustable = watched, adjustable
        long = flag or f"--{name.replace('_', '-')}"
        self.flags = (short, long) if short else (long,)
        self.is_flag = kind == "flag"
        self.repeats = kind in _REPEATED
        self.field = ""
        self.declared[name] = self

    def __set_name__(self, record: type, field: str) -> None:
        """It is declared as a field: the record has its default there."""
        self.field = field
        setattr(record, field, self.default)
