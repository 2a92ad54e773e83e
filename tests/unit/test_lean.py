"""What stands for parts of the standard library does what they do."""

from __future__ import annotations

import copy
import enum
import json
import pickle
import signal as real_signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.lean import StrEnum, json_text, read_json, spaced_json_text
from holdfast.process.signals import parse_signal, signal_name
from holdfast.process.verdict import Proof, Verdict
from holdfast.run.events import Kind


class Real(enum.StrEnum):
    """A thing."""

    ONE = "1 one"
    TWO = "two"

    @property
    def loud(self) -> str:
        return self.upper()


class Lean(StrEnum):
    """A thing."""

    ONE = "1 one"
    TWO = "two"

    @property
    def loud(self) -> str:
        return self.upper()


@pytest.mark.parametrize(
    "ask",
    [
        lambda words: [str(word) for word in words],
        lambda words: [f"{word:>7}" for word in words],
        lambda words: words.ONE.name + words("two").name + words["TWO"].value,
        lambda words: (len(words), "two" in words.__members__, words.TWO in words),
        lambda words: (words.ONE == "1 one", words.ONE != words.TWO, words.ONE < words.TWO),
        lambda words: {words.ONE: 1}["1 one"],
        lambda words: json.dumps({words.ONE: words.TWO}),
        lambda words: (type(words.ONE.value), type(str(words.ONE)), isinstance(words.ONE, str)),
        lambda words: words.TWO.loud,
        lambda words: words.__doc__,
        lambda words: words(words.ONE) is words.ONE,
        lambda words: hash(words.ONE) == hash("1 one"),
        lambda words: repr(words.ONE).replace(words.__name__, ""),
    ],
)
def test_words_do_what_those_of_enum_do(ask):
    assert ask(Lean) == ask(Real)


@pytest.mark.parametrize("value", ["three", "ONE", "", None, 1, [], {}])
def test_what_is_no_word_is_refused_alike(value):
    for words in (Lean, Real):
        with pytest.raises(ValueError, match=f"is not a valid {words.__name__}"):
            words(value)


def test_a_word_stays_itself():
    for word in (*Verdict, *Proof, *Kind):
        assert copy.copy(word) is copy.deepcopy(word) is pickle.loads(pickle.dumps(word)) is word


def test_the_words_are_fixed():
    with pytest.raises(AttributeError, match="fixed"):
        Lean.ONE = "another"  # type: ignore[misc]


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),  # lone surrogates too: arguments may hold any bytes
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(documents)
def test_json_is_written_as_by_json(document):
    assert json_text(document) == json.dumps(document, separators=(",", ":"), allow_nan=False)
    assert spaced_json_text(document) == json.dumps(document)
    assert spaced_json_text({"figure": float("nan")}) == json.dumps({"figure": float("nan")})


@given(documents)
def test_json_is_read_as_by_json(document):
    for text in (json.dumps(document), json.dumps(document, indent=1) + "\n"):
        assert read_json(text) == json.loads(text)


@given(st.text(alphabet='{}[]",:0123456789.eE+-tfnrualsINyi \t\n\r\\\ufeff\x00', max_size=20))
def test_any_text_is_read_or_refused_as_by_json(text):
    def outcome(read):
        try:
            return repr(read(text))
        except ValueError as error:
            return type(error).__name__

    assert outcome(read_json) == outcome(json.loads)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a', '{"a":', '"\\x"', "[1,", "nonsense", "[] 1", "\0"]
)
def test_text_that_is_no_json_is_refused_in_a_lean_process(text):
    """Here `json` is loaded, on which the C scanner leans for its errors."""
    code = (
        "import sys; from holdfast.lean import read_json; assert 'json' not in sys.modules\n"
        f"try: read_json({text!r})\nexcept ValueError as error: print(type(error).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "JSONDecodeError\n", done.stderr


def test_what_no_json_holds_is_refused():
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            json_text({"figure": value})
    with pytest.raises(TypeError, match="set is not for JSON"):
        json_text({"what": set()})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        json_text(endless)
    with pytest.raises(RecursionError):
        read_json("[" * 100_000)


def test_without_the_c_module_the_real_one_does_it():
    code = (
        "import sys; sys.modules['_json'] = None; from holdfast.lean import *\n"
        "print(json_text({'a': [1, 'é']}), read_json(' [1.5, null] '), spaced_json_text([1, 2]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == '{"a":[1,"\\u00e9"]} [1.5, None] [1, 2]\n', done.stderr


def test_signals_have_the_names_of_the_standard_library():
    for number in range(1, 65):
        try:
            expected = real_signal.Signals(number).name
        except ValueError:
            expected = f"signal {number}"
        assert signal_name(number) == expected
    for name, known in real_signal.Signals.__members__.items():
        assert parse_signal(name) == parse_signal(name.removeprefix("SIG").lower()) == known
