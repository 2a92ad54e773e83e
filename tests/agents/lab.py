"""A sealed place for real agents: own network namespace, own HOME, empty environment, stub model.

    with Lab() as lab:
        argv, env = lab.command("claude", "say hi")
        subprocess.run(lab.inside(argv), env=env, cwd=lab.work_dir, stdin=subprocess.DEVNULL)

`lab.inside` only prefixes `nsenter`, which execs: the process started is the agent (or holdfast)
itself, with loopback to the stub and no way out. The agents come from scripts/install-agents.sh.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

AGENTS = ("claude", "codex", "gemini")  # opencode works here too, when it is installed
STUB = Path(__file__).with_name("stub_model.py")
# Where scripts/install-agents.sh puts the agents. Read once: tests clear HOLDFAST_* variables.
_CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
AGENTS_DIR = Path(os.environ.get("HOLDFAST_AGENTS_DIR") or f"{_CACHE}/holdfast-agents")

_STREAM_OPTIONS: dict[str, tuple[str, ...]] = {
    "claude": ("--output-format", "stream-json", "--verbose"),
    "codex": ("--json", "--skip-git-repo-check"),
    "gemini": ("-m", "gemini-2.5-flash", "--output-format", "stream-json"),
    "opencode": ("--format", "json"),
}
# What lets a prompt's [[run: CMD]] through without anybody to ask. claude refuses it for root
# unless it is told that it is in a sandbox (IS_SANDBOX, below).
UNATTENDED: dict[str, tuple[str, ...]] = {
    "claude": ("--dangerously-skip-permissions",),
    "codex": ("--dangerously-bypass-approvals-and-sandbox",),
    "gemini": ("--approval-mode", "yolo"),
    "opencode": ("--auto",),
}


def executable(agent: str) -> Path:
    """The agent's program; it may not be installed."""
    return AGENTS_DIR / agent / "node_modules" / ".bin" / agent


def missing() -> list[str]:
    """What this machine lacks for a lab, as sentences; empty when all is there."""
    lacks = [f"{a}: run scripts/install-agents.sh" for a in AGENTS if not executable(a).exists()]
    lacks += [f"{t} is not installed" for t in ("unshare", "nsenter", "ip") if not shutil.which(t)]
    if not lacks and subprocess.run([*_unshare(), "true"], capture_output=True).returncode != 0:
        lacks.append("network namespaces can't be made here (unshare -n failed)")
    return lacks


def sealed_command(
    agent: str,
    prompt: str,
    port: int,
    home: str | os.PathLike[str],
    *,
    options: Iterable[str] = (),
) -> tuple[list[str], dict[str, str]]:
    """The agent's argv for one headless turn with a readable stream, and its whole environment.

    HOME must not be under /tmp: codex does not keep its helpers there.
    """
    prepare_home(Path(home), port)
    program = str(executable(agent))
    extra = [*_STREAM_OPTIONS[agent], *options]
    subcommand = {"codex": "exec", "opencode": "run"}.get(agent)
    argv = [program, subcommand, *extra, prompt] if subcommand else [program, "-p", prompt, *extra]
    return argv, sealed_environment(port, home)


def sealed_environment(port: int, home: str | os.PathLike[str]) -> dict[str, str]:
    """Everything the agents need and nothing of the machine's own."""
    url = f"http://127.0.0.1:{port}"
    node = os.path.dirname(shutil.which("node") or "/usr/bin/node")
    return {
        "PATH": f"{node}:/usr/local/bin:/usr/bin:/bin",
        "HOME": os.fspath(home),
        "TMPDIR": f"{os.fspath(home)}/tmp",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "IS_SANDBOX": "1",
        "STUB_KEY": "dummy",
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }


def prepare_home(home: Path, port: int) -> None:
    """The settings that codex, gemini and opencode read from HOME."""
    url = f"http://127.0.0.1:{port}/v1"
    anthropic = {"options": {"baseURL": url, "apiKey": "dummy"}, "models": {"stub": {}}}
    opencode = {"model": "anthropic/stub", "provider": {"anthropic": anthropic}}
    settings = {
        ".codex/config.toml": 'model = "gpt-5"\nmodel_provider = "stub"\n'
        f'[model_providers.stub]\nname = "stub"\nbase_url = "{url}"\n'
        'env_key = "STUB_KEY"\nwire_api = "responses"\n',
        ".gemini/settings.json": '{"security":{"auth":{"selectedType":"gemini-api-key"}}}\n',
        ".config/opencode/opencode.json": json.dumps({**opencode, "small_model": "anthropic/stub"}),
    }
    for name, content in settings.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
    (home / "tmp").mkdir(exist_ok=True)


def _unshare() -> list[str]:
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]


class Lab:
    """One network namespace with the stub in it, and a home; gone when the block ends.

    `tag` is added to every environment, so that what a test left behind can be found.
    """

    def __init__(self, tag: Mapping[str, str] | None = None) -> None:
        self._tag = dict(tag or {})
        homes = AGENTS_DIR / "labs"
        homes.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(dir=homes))
        self.home = self.directory / "home"
        self.work_dir = self.directory / "project"
        self.work_dir.mkdir()
        self._requests = self.directory / "requests.jsonl"
        self._stub = self._start_stub()
        assert self._stub.stdout is not None
        self.port = int(self._stub.stdout.readline())

    def _start_stub(self) -> subprocess.Popen[str]:
        # unshare, setpriv and sh all exec: the namespace lives as long as the stub, and the stub
        # no longer than this process.
        script = 'ip link set lo up && exec "$@"'
        stub = [sys.executable, str(STUB), "0", str(self._requests)]
        argv = [*_unshare(), "setpriv", "--pdeathsig", "KILL", "sh", "-c", script, "sh", *stub]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    def command(
        self, agent: str, prompt: str, *, options: Iterable[str] = ()
    ) -> tuple[list[str], dict[str, str]]:
        """`sealed_command` for this lab."""
        argv, env = sealed_command(agent, prompt, self.port, self.home, options=options)
        return argv, {**env, **self._tag}

    def environment(self) -> dict[str, str]:
        """The environment alone, for other commands than one turn."""
        prepare_home(self.home, self.port)
        return {**sealed_environment(self.port, self.home), **self._tag}

    def inside(self, argv: Iterable[str]) -> list[str]:
        """The same command in this lab's network."""
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self._stub.pid), "-n", *user, "--", *argv]

    def start(
        self, argv: Iterable[str], env: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a command in the lab; stdout and stderr are pipes unless told otherwise."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            self.inside(argv), env=dict(env), cwd=self.work_dir, stdin=subprocess.DEVNULL, **options
        )

    def run(
        self, argv: Iterable[str], env: Mapping[str, str], timeout: float = 90
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the lab to its end."""
        process = self.start(argv, env)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def requests(self) -> list[dict[str, Any]]:
        """What the model was asked so far."""
        if not self._requests.exists():
            return []
        return [json.loads(line) for line in self._requests.read_text().splitlines()]

    def close(self) -> None:
        self._stub.kill()
        self._stub.communicate()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def descendants(pid: int) -> list[int]:
    """The processes below this one, as far as they still are."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    children = [int(child) for text in lists for child in text.split()]
    return [one for child in children for one in (child, *descendants(child))]


def kill_tree(pid: int) -> None:
    """End a process that the test started and holds, and what is below it, from the leaves up."""
    for one in reversed([pid, *descendants(pid)]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
