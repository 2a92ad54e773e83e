"""What was used of a budget, as people read it."""

from __future__ import annotations

import pytest

from holdfast.run.usage.budget import in_words


@pytest.mark.parametrize(
    ("used", "most", "said"),
    [
        (0.00001, 0.5, "$0.000010 of $0.5"),
        (0.0004, 0.5, "$0.0004 of $0.5"),
        (0.5125, 0.5, "$0.5125 of $0.5 ($0.0125 over)"),
        (3, 12345.678, "$3 of $12345.68"),
        (250_000, 100_000, "$250000.00 of $100000.00 ($150000.00 over)"),
    ],
)
def test_dollars_are_never_in_powers_of_ten(used, most, said):
    assert in_words("max_cost_usd", used, most) == said
