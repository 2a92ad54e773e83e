"""Evidence is for people: nothing in the package decides on its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"

VIOLATIONS = [
    "if 'RECYCLED' in info.evidence: pass",
    "if 'word' not in info.evidence: pass",
    "info.evidence.endswith('(not yet recorded)')",
    "look.evidence.startswith('process')",
    "info.evidence.find('boot') >= 0",
    "why = info.evidence.partition(';')[0]",
    "info.evidence.removesuffix('; kept')",
    "info.evidence == 'asked'",
    "info.evidence[:5] == 'asked'",
    "'gone' in str((facts.ending or {}).get('evidence'))",
    "'gone' in event['evidence']",
    "def f(evidence): return 'gone' in evidence",
    "said = info.evidence\nif 'gone' in said: pass",
    "if 'gone' in (said := info.evidence): pass",
    "said = str(event.get('evidence') or '')\nsaid.lower().count('gone')",
    "import re\nre.search('gone', info.evidence)",
    "match info.evidence:\n    case 'asked': pass",
]

INNOCENT = [
    "print(f'why: {info.evidence}')",
    "said = '; '.join(text for text in evidence if text)",
    "supervisor.evidence.append('asked')",
    "text = info.evidence or 'none'",
    "Look(verdict, None, evidence)",
    "printable(look.evidence)",
    "redact_text(info.evidence)",
    "has_none = info.evidence is None",
    "row = {'evidence': info.evidence}",
    "if 'RECYCLED' in verdicts: pass",
]


WORD = "evidence"
# What a program asks of a text that it means to understand. Joining and showing it is no question.
_QUESTIONS = frozenset(
    [
        "startswith",
        "endswith",
        "find",
        "rfind",
        "index",
        "rindex",
        "count",
        "split",
        "rsplit",
        "splitlines",
        "partition",
        "rpartition",
        "removeprefix",
        "removesuffix",
        "replace",
        "translate",
        "lower",
        "casefold",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "isdigit",
        "isidentifier",
        "__contains__",
        "__eq__",
    ]
)
_MATCHERS = frozenset(["match", "fullmatch", "search", "findall", "finditer", "sub", "split"])


def find_decisions(source: str) -> Iterator[tuple[int, str]]:
    """Line and what is there, of each question that is put to an evidence."""
    tree = ast.parse(source)
    aliases = _aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_none = any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
            if not is_none and any(_is_evidence(side, aliases) for side in sides):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.func.attr in _QUESTIONS and _is_evidence(node.func.value, aliases)
            given = any(_is_evidence(argument, aliases) for argument in node.args)
            if asked or (given and node.func.attr in _MATCHERS):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Subscript) and _is_evidence(node.value, aliases):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Match) and _is_evidence(node.subject, aliases):
            yield node.lineno, ast.unparse(node.subject)


def _aliases(tree: ast.Module) -> frozenset[str]:
    """Names that are given an evidence anywhere in the file, straight or through each other."""
    names: frozenset[str] = frozenset({WORD})
    while True:
        more = set(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and _is_evidence(node.value, names):
                more |= {one.id for one in node.targets if isinstance(one, ast.Name)}
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
                is_one = node.value is not None and _is_evidence(node.value, names)
                more |= {node.target.id} if is_one and isinstance(node.target, ast.Name) else set()
        if more == names:
            return names
        names = frozenset(more)


def _is_evidence(node: ast.expr, names: frozenset[str]) -> bool:
    """`evidence`, `x.evidence`, `x["evidence"]`, `x.get("evidence")`, and a text made of one."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr == WORD
    if isinstance(node, ast.Subscript):
        return _is_word(node.slice)
    if isinstance(node, ast.BoolOp):
        return any(_is_evidence(value, names) for value in node.values)
    if isinstance(node, ast.NamedExpr):
        return _is_evidence(node.value, names)
    if isinstance(node, ast.Call):
        return _gives_evidence(node, names)
    return False


def _gives_evidence(call: ast.Call, names: frozenset[str]) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in ("str", "repr") and any(_is_evidence(a, names) for a in call.args)
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "get":
            return bool(call.args) and _is_word(call.args[0])
        return call.func.attr in _QUESTIONS and _is_evidence(call.func.value, names)
    return False


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == WORD


def _sources() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", _sources())
def test_nothing_decides_on_the_text_of_evidence(name):
    found = find_decisions((PACKAGE / name).read_text())
    assert [f"{name}:{line}: {what}" for line, what in found] == []


@pytest.mark.parametrize("source", VIOLATIONS)
def test_the_check_sees_a_planted_violation(source):
    assert list(find_decisions(source))


@pytest.mark.parametrize("source", INNOCENT)
def test_the_check_leaves_innocent_code_alone(source):
    assert list(find_decisions(source)) == []
