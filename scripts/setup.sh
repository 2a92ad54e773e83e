#!/usr/bin/env bash
# Makes .venv with Holdfast (editable) and its development tools. Run by `make setup`.
# setup.sh EXTRA: that extra as well.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
extras=dev${1:+,$1}
"$python" - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"holdfast needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")
PY

# A venv that was moved or whose interpreter was removed is made anew.
usable() { .venv/bin/python -c '' 2>/dev/null; }

if command -v uv >/dev/null; then
    usable || uv venv --quiet --clear --python "$python" .venv
    uv pip install --quiet --python .venv/bin/python --editable ".[$extras]"
else
    usable || "$python" -m venv --clear .venv
    # A venv that uv made has no pip.
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    pip=(.venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check)
    # The command that an old pip writes imports `re` first: a tenth of the time of each start.
    "${pip[@]}" --upgrade pip || echo "going on with the pip that is there" >&2
    "${pip[@]}" --editable ".[$extras]"
fi

# Where Python is told not to write bytecode, every start of a command would compile all of it.
.venv/bin/python -m compileall -q src
.venv/bin/python -m holdfast.bundling
