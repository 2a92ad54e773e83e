"""Keeps secrets out of events, the index and every screen.

Three tables: options that take a secret, variables that hold one, and the shapes of well-known
ones. In free text only what can hardly be anything else is replaced: a prompt must stay readable.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REDACTED = "[redacted]"
_SHORTEST_VALUE = 5

_WORD = (
    r"api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|auth[_-]?key|token|secret"
    r"|password|passwd|passphrase|credentials?"
)
_OPTION = rf"--?(?:[\w-]*[_-])?(?:{_WORD})"
_VARIABLE = r"[A-Z0-9_]*(?:(?<![A-Z0-9])KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)"
_SECRET_ENDS = ("APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS")
_OF_VARIABLES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_HAS_DIGIT = r"(?=[^\s\"']{0,200}?\d)"

# An argument that is nothing but NAME=VALUE or --option=VALUE.
_WHOLE = rf"((?:{_OPTION}|(?:[\w-]*[_-])?(?:{_WORD}|key))=)(.+)"

# Each: what stays (\1), what is replaced, and what stays after it (\2). None may take longer than
# in proportion to the text, whatever it is: no part without a bound may be tried from every word
# of it anew (test_redaction_takes_no_longer_than_the_text_is_long).
_IN_TEXT = (
    rf"(\b{_VARIABLE}=[\"']?)[^\s\"';&|]+()",
    rf"((?<![\w-]){_OPTION}=[\"']?)[^\s\"';&|]+()",
    rf"((?<![\w-]){_OPTION}\s+[\"']?){_HAS_DIGIT}[^\s\"';&|-][^\s\"';&|]{{7,}}()",
    rf"((?i:\b(?:bearer|basic))\s+){_HAS_DIGIT}[\w.~+/-]{{16,}}=*()",
    r"((?i:\b(?:x-api-key|api-key|authorization):)\s*)(?!(?i:bearer|basic)\s)[^\s\"']{8,}()",
    r"(://[^\s/:@\"']*:)[^\s/@\"']+(@)",
    rf"(\bsk-){_HAS_DIGIT}[\w-]{{16,}}()",
    r"(\b(?:gh[pousr]_|hf_|npm_))[A-Za-z0-9]{20,}()",
    rf"(\b(?:github_pat_|glpat-|pypi-)){_HAS_DIGIT}[\w-]{{20,}}()",
    r"(\b(?:AKIA|ASIA))[0-9A-Z]{16}\b()",
    r"(\bAIza)[\w-]{35}()",
    r"(\bxox[abeoprs]-)[\w-]{10,}()",
    r"((?<![\w-])eyJ|\beyJ(?=[\w-]{10,512}\.))[\w-]{10,}\.[\w-]{10,}\.[\w-]+()",
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]+?(-----END|\Z)",
)

# Each of the above has one of these in it, in any case: most text needs no pattern at all.
_SIGNS = (
    *("key", "token", "secret", "passw", "passphrase", "credential"),
    *("bearer", "basic", "authorization", "://", "sk-", "hf_", "npm_", "glpat-", "pypi-"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "akia", "asia", "aiza", "xox", "eyj"),
)


def _may_hold_a_secret(text: str) -> bool:
    return any(map(text.casefold().__contains__, _SIGNS))


def redact_text(text: str) -> str:
    """The text with what is certainly a secret replaced."""
    if not _may_hold_a_secret(text):
        return text
    import re

    for pattern in _IN_TEXT:
        text = re.sub(pattern, rf"\1{REDACTED}\2", text)
    return text


def secrets_in(variables: Mapping[str, str]) -> list[str]:
    """The values of the variables that hold a secret, by their names."""
    return [value for name, value in variables.items() if _names_a_secret(name)]


def _names_a_secret(variable: str) -> bool:
    """Whether `_VARIABLE` matches all of it. Each run that fails asks: `re` is not loaded."""
    head = variable.removesuffix("KEY")
    is_key = head != variable and (not head or head[-1] == "_")
    return (is_key or variable.endswith(_SECRET_ENDS)) and _OF_VARIABLES.issuperset(variable)


def redact_values(text: str, values: Iterable[str]) -> str:
    """The text without these values. A short one is left: it would be met in any word."""
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST_VALUE:
            text = text.replace(value, REDACTED)
    return text


def redact_argv(argv: Iterable[str]) -> list[str]:
    """The arguments with the values of secret options and variables replaced."""
    shown: list[str] = []
    secret_follows = False
    argv = list(argv)
    if not _may_hold_a_secret("\0".join(argv)):
        return argv  # of nearly all commands: no word is looked at by itself
    for argument in argv:
        if secret_follows and not argument.startswith("--"):
            shown.append(REDACTED)
            secret_follows = False
            continue
        secret_follows = _is_secret_option(argument)
        shown.append(_redact_argument(argument))
    return shown


def _is_secret_option(argument: str) -> bool:
    if not _may_hold_a_secret(argument):
        return False
    import re

    return re.fullmatch(_OPTION, argument, re.IGNORECASE) is not None


def _redact_argument(argument: str) -> str:
    if not _may_hold_a_secret(argument):
        return argument
    import re

    whole = re.fullmatch(_WHOLE, argument, re.IGNORECASE)
    if whole is not None and not re.search(r"\s", whole[1]):
        return whole[1] + REDACTED
    return redact_text(argument)
