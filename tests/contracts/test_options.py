"""An option of a run is declared once: everything that takes options takes each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import Asked, load
from holdfast.cli.arguments.fast_args import read_quickly
from holdfast.errors import InvalidOption, InvalidProfile
from holdfast.manage.starting.config import load_config
from holdfast.manage.starting.option_values import KINDS, kind_of
from holdfast.manage.starting.request import StartRequest
from holdfast.option_type import PAIRS, Option
from holdfast.options import OPTIONS, Wanted, wanted_options
from holdfast.run.checked_json import mismatch

ROOT = Path(__file__).parents[2]
EMPTY = str(ROOT / "src" / "holdfast" / "run" / "__init__.py")  # a file without variables

# One for which every option can hold.
COMMAND = ["claude", "-p", "hi", "--output-format", "stream-json", "--verbose"]
# Of each kind: a word that it takes, and one that it refuses (None: it refuses none).
WORDS = {
    "text": ("x", None),
    "program": ("x", ""),
    "pattern": ("x+", "("),
    "duration": ("3s", "soon"),
    "interval": ("3s", "soon"),
    "limit": ("3s", "0"),
    "size": ("2G", "much"),
    "count": ("2M", "many"),
    "money": ("2.50", "dear"),
    "signal": ("INT", "NONE"),
    "restart": ("always:2", "sometimes"),
    "on_limit": ("resume:2", "sometimes"),
    "durations": ("5m,1h", "soon"),
    "notices": ("failed,orphan", "sometimes"),
    "secrets": (EMPTY, ""),
    "agent": ("none", None),
    "preset": ("p", None),
    "queue": ("main", "a/b"),
    "priority": ("3", "high"),
    "runs": ("build", None),
    "need": ("auto", "much"),
    "moment": ("2026-11-18T03:00", "soon"),
    "file": ("pipe", None),
    "files": ("/dev/null", None),
    "directory": ("/", None),
    "variables": ("K=V", None),
    "tags": ("K=V", None),
    "where": ("ssh:build1", None),
    "amount": ("2", None),
}

every_option = pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
every_wanted = pytest.mark.parametrize(
    "option", list(wanted_options()), ids=lambda option: option.name
)


def words_of(option: Option) -> tuple[str, str | None]:
    if not isinstance(option.kind, str):
        return option.kind[-1], "nonsense"
    assert option.kind in WORDS, f"the kind {option.kind} of --{option.name} has no row in WORDS"
    return WORDS[option.kind]


def typed(option: Option) -> list[str]:
    return [option.flags[-1]] if option.is_flag else [option.flags[-1], words_of(option)[0]]


def asked_for(option: Option, value: object) -> Wanted:
    options: dict[str, Any] = {option.name: value}
    if option.name == "approve":  # needs somebody to talk to
        return StartRequest(["claude"], pty=True, **options).wanted
    return StartRequest(COMMAND, **options).wanted


@every_option
def test_both_readers_of_the_command_line_take_it(option):
    words = [*typed(option), "true"]
    parser, module = load("run")
    fast = read_quickly("run", module.add_arguments, words, Asked())
    slow = parser.read(*parser.split(words), Asked())
    expected = True if option.is_flag else words_of(option)[0]
    assert getattr(fast, option.name) == ([expected] if option.repeats else expected)
    assert vars(fast) == vars(slow)


@every_option
def test_help_and_docs_explain_it(option):
    assert option.text
    assert option.flags[-1] in load("run")[0].format_help()
    rows = (ROOT / "docs" / "cli.md").read_text().splitlines()
    assert any(f"`{option.flags[-1]}" in row and option.text.split(";")[0] in row for row in rows)


@every_wanted
def test_the_library_takes_it_and_keeps_it_in_its_field(option):
    wanted = asked_for(option, True if option.is_flag else words_of(option)[0])
    kept = getattr(wanted, option.field)
    assert kept != option.default
    assert mismatch(Wanted.__annotations__[option.field], kept) is None


@every_wanted
def test_its_default_is_of_its_own_type(option):
    assert mismatch(Wanted.__annotations__[option.field], option.default) is None
    assert Wanted._defaults[option.field] == option.default


@every_wanted
def test_a_value_that_it_can_not_have_is_refused_by_its_name(option):
    wrong = "yes" if option.is_flag else words_of(option)[1]
    if wrong is None:
        assert kind_of(option).fits is None
        return
    with pytest.raises(InvalidOption, match=f"^{option.name}: ") as refusal:
        asked_for(option, wrong)
    assert refusal.value.expected


@every_option
def test_config_takes_it_where_it_is_declared_so(option, tmp_path):
    path = tmp_path / "config.toml"
    value = "true" if option.is_flag else f'"{words_of(option)[0]}"'
    value = '{K = "V"}' if option.kind in PAIRS else value
    path.write_text(f"[preset.p]\n{option.name.replace('_', '-')} = {value}\n")
    if option.in_config:
        assert list(load_config(str(path)).preset("p")) == [option.name]
    else:
        with pytest.raises(InvalidProfile, match="is not known"):
            load_config(str(path))


def test_every_kind_is_known_and_used():
    kinds = {option.kind for option in OPTIONS.values() if isinstance(option.kind, str)}
    assert kinds - KINDS.keys() == set(), "no row in KINDS of manage/starting/option_values.py"
    assert KINDS.keys() - kinds == set(), "a row of KINDS that no option uses"
    assert kinds - {"flag"} == WORDS.keys(), "WORDS of this file needs a row for each kind"


def test_no_two_options_share_a_flag():
    flags = [flag for option in OPTIONS.values() for flag in option.flags]
    assert len(flags) == len({*flags, "-F", "--foreground"}) - 2


def test_what_is_declared_is_there_everywhere(tmp_path):
    """One declaration is enough, and without it the checks above would fail."""
    path = tmp_path / "config.toml"
    path.write_text('[defaults]\ncolour = "red"\n')
    with pytest.raises(InvalidProfile):
        load_config(str(path))
    before = dict(OPTIONS)
    Option("colour", ("red", "blue"), "what to watch", "how it looks")
    try:
        parser, module = load("run")
        words = ["--colour", "red", "true"]
        assert parser.read(*parser.split(words), Asked()).colour == "red"
        fast = read_quickly("run", module.add_arguments, words, Asked())
        assert fast is not None
        assert fast.colour == "red"
        assert load_config(str(path)).defaults == {"colour": "red"}
    finally:
        OPTIONS.clear()
        OPTIONS.update(before)
