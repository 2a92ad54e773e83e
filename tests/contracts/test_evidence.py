"""Evidence is for people: nothing in the package decides on its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.prose import find_decisions

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
