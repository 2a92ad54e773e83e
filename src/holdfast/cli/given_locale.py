"""What we start has the locale that we were given: Python may have changed it for itself.

In the C locale it sets LC_CTYPE in its environment, for its children too (PEP 538). What it was
given stays to be read in /proc.
"""

from __future__ import annotations

import os

from holdfast.errors import HoldfastError
from holdfast.process.procfs import environment


def give_locale_back() -> None:
    """LC_CTYPE as it was when we were started; for a program of ours, which has not set it."""
    try:
        given = environment(os.getpid()).get("LC_CTYPE")
    except HoldfastError:  # no /proc here: it may have been given
        return
    if given is None:
        del os.environ["LC_CTYPE"]
    else:
        os.environ["LC_CTYPE"] = given
