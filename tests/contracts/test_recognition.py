"""The generated table of agents is that of the profiles, and using it costs no launch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "scripts" / "generate_recognition.py"
COSTLY = {"tomllib", "typing", "dataclasses", "pathlib", "subprocess", "shlex", "datetime", "glob"}
RECOGNISE = """
import sys
sys.path.insert(0, sys.argv[1])
from holdfast.agents.recognition import recognise, strip_environment
assert recognise(["npx", "@openai/codex", "exec"]) == "codex"
strip_environment({"A": "b"})
loaded = sorted(sys.modules)
import json
print(json.dumps(loaded))
"""


def _check() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, timeout=60
    )


def test_the_table_is_fresh():
    done = _check()
    assert done.returncode == 0, done.stdout + done.stderr


def test_recognition_loads_nothing_costly(tmp_path):
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", RECOGNISE, str(ROOT / "src")],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert COSTLY & loaded == set()
    assert "holdfast.agents.loader" not in loaded
