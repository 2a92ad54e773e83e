"""The short form of the campaign of faults over the engines: ssh, with both ledgers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.features import needs
from tests.support.kernel_lab import ROOT

COLUMNS = ("second copies", "invented endings", "lost facts", "starts that never began")


@pytest.mark.timeout(300)
def test_a_short_campaign_over_ssh_finds_no_violation():
    needs("root", "sshd", "ssh", "psql")
    done = subprocess.run(
        [sys.executable, "-m", "bench.faults_fleet", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "|" in line]
    head, total = rows[0], next(row for row in rows if row[0] == "all")
    told = dict(zip(head, total, strict=True))
    assert (told["faults"], told["starts"]) == ("3", "3")
    assert [told[column] for column in COLUMNS] == ["0"] * len(COLUMNS)
