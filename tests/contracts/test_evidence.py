"""Evidence is for people: nothing in the package decides on its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import package_sources

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
    "f'{info.evidence}'.endswith('kept')",
    "('why: ' + info.evidence).endswith('kept')",
    "(info.evidence if info else '').startswith('gone')",
    "getattr(info, 'evidence').find('gone')",
    "state = STATES[info.evidence]",
    "state = STATES.get(info.evidence)",
    "a, said = 1, info.evidence\nif 'gone' in said: pass",
    "for said in standing.evidence:\n    if said.startswith('gone'): pass",
    "gone = [said for said in standing.evidence if said.startswith('gone')]",
    "is_long = len(info.evidence) > 80",
    "is_new = (row.rule, row.evidence) not in known",
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
            if asked or (given and node.func.attr in (*_MATCHERS, "get")):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Subscript):
            if _is_evidence(node.value, aliases) or _is_evidence(node.slice, aliases):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Match) and _is_evidence(node.subject, aliases):
            yield node.lineno, ast.unparse(node.subject)


def _aliases(tree: ast.Module) -> frozenset[str]:
    """Names that are given an evidence anywhere in the file, straight or through each other."""
    given = [pair for node in ast.walk(tree) for pair in _given(node)]
    names: frozenset[str] = frozenset({WORD})
    while True:
        more = names | {name for name, value in given if _is_evidence(value, names)}
        if more == names:
            return names
        names = more


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Each name that the node sets, and what it is set to or taken from."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _matched(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _matched(target, value)
        case ast.NamedExpr(target=target, value=value):
            yield from _matched(target, value)
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from _matched(target, value)


def _matched(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _matched(one, its)


def _is_evidence(node: ast.expr, names: frozenset[str]) -> bool:
    """`evidence`, `x.evidence`, `x["evidence"]`, `x.get("evidence")`, and a text made of one."""
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name == WORD
        case ast.Subscript(slice=key):
            return _is_word(key)
        case ast.Call():
            return _gives_evidence(node, names)
        case ast.BoolOp(values=parts) | ast.JoinedStr(values=parts) | ast.Tuple(elts=parts):
            return any(_is_evidence(part, names) for part in parts)
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            return _is_evidence(one, names) or _is_evidence(other, names)
        case ast.NamedExpr(value=value) | ast.FormattedValue(value=value):
            return _is_evidence(value, names)
    return False


def _gives_evidence(call: ast.Call, names: frozenset[str]) -> bool:
    if isinstance(call.func, ast.Name):
        if call.func.id == "getattr":
            return any(_is_word(argument) for argument in call.args)
        taken = call.func.id in ("str", "repr", "len")
        return taken and any(_is_evidence(argument, names) for argument in call.args)
    if isinstance(call.func, ast.Attribute):
        if call.func.attr == "get":
            return bool(call.args) and _is_word(call.args[0])
        return call.func.attr in _QUESTIONS and _is_evidence(call.func.value, names)
    return False


def _is_word(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == WORD


def test_nothing_decides_on_the_text_of_evidence():
    found = [
        f"{name}:{line}: {what}"
        for name, text in package_sources().items()
        for line, what in find_decisions(text)
    ]
    assert found == []


@pytest.mark.parametrize("source", VIOLATIONS)
def test_the_check_sees_a_planted_violation(source):
    assert list(find_decisions(source))


@pytest.mark.parametrize("source", INNOCENT)
def test_the_check_leaves_innocent_code_alone(source):
    assert list(find_decisions(source)) == []
