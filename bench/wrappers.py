"""The memory that each tool shows for a 200 MiB workload, direct and behind wrappers.

    python -m bench.wrappers [--peers circus,pm2,con-duct]

The truth is what the workload says of itself. Peers are installed into .cache/wrapper-peers; what
can't be installed, and a wrapper that is not here, is left out, and said. Exits 1 when Holdfast's
own figure is more than 3 % off, or is not the workload's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.run.trace_rows import read_rows

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "wrapper-peers"
PACKAGES = ("circus==0.19.0", "con-duct==0.23.0", "setuptools<81")
PM2 = "pm2@7.0.4"
WORKLOAD_MIB = 200
TOLERANCE = 0.03
SECONDS = 5.0  # how long the workload lives, and so how long each tool has to see it
PYTHON = os.path.realpath(sys.executable)
CODE = (
    "import time; kept = bytearray(b'x') * ({0} << 20);"
    "print([line.split()[1] for line in open('/proc/self/status') if 'VmRSS' in line][0]);"
    "import sys; sys.stdout.flush(); time.sleep({1})"
)
NODE_SHIM = """const { spawn } = require("child_process");
spawn(process.argv[2], process.argv.slice(3), { stdio: "inherit" })
  .on("exit", (code) => process.exit(code ?? 1));
"""

Figures = dict[str, float | None]


class Missing(Exception):
    """The peer can't be had on this machine."""


def commands(seconds: float) -> dict[str, list[str]]:
    """The workload, direct and behind each wrapper that is here."""
    work = [PYTHON, "-S", "-c", CODE.format(WORKLOAD_MIB, seconds)]
    text = shlex.join(work)
    shim = CACHE / "shim.js"
    wrapped = {
        "direct": work,
        "script": ["script", "-qefc", text, "/dev/null"],
        "sh -c": ["sh", "-c", f"{text}; true"],
        "bash -lc": ["bash", "-lc", f"{text}; true"],
        "env": ["env", "BENCH=1", *work],
        "nice": ["nice", "-n", "1", *work],
        "timeout": ["timeout", "600", *work],
        "setsid": ["setsid", *work],
        "stdbuf": ["stdbuf", "-oL", *work],
        "node": ["node", str(shim), *work],
        "uv run": ["uv", "run", "--no-project", "--no-python-downloads", *work],
        "timeout, sh": ["timeout", "600", "sh", "-c", f"{text}; true"],
    }
    return {name: command for name, command in wrapped.items() if shutil.which(command[0])}


def left_out() -> list[str]:
    """The wrappers that are not on this machine."""
    names = ("script", "bash", "env", "nice", "timeout", "setsid", "stdbuf", "node", "uv")
    return [name for name in names if shutil.which(name) is None]


def run(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(  # type: ignore[call-overload]
        words, check=False, capture_output=True, text=True, timeout=300, **options
    )
    if done.returncode:
        raise Missing(f"{words[0]}: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
    return str(done.stdout)


def python_program(name: str) -> Path:
    """A peer's program, installed when first asked for."""
    place = CACHE / "python"
    if not (place / "bin" / name).exists():
        run(sys.executable, "-m", "venv", place)
        run(place / "bin" / "pip", "install", "-q", *PACKAGES)
    return place / "bin" / name


def pm2_program() -> Path:
    program = CACHE / "npm" / "node_modules" / ".bin" / "pm2"
    if not program.exists():
        if shutil.which("npm") is None:
            raise Missing("npm is not here")
        run("npm", "install", "--prefix", CACHE / "npm", "--no-audit", "--no-fund", PM2)
    return program


TRUE_MIB: Figures = {}  # by wrapper: what the workload said of itself, under Holdfast


def holdfast(directory: Path) -> Figures:
    """The highest memory in the samples; None when a row is not about the workload."""
    environment = {**os.environ, "HOLDFAST_HOME": str(directory)}
    found: Figures = {}
    for wrapper, command in commands(SECONDS).items():
        holdfast = [sys.executable, "-m", "holdfast"]
        start = [*holdfast, "run", "--sample-interval", "0.5", "--agent", "none", *command]
        name = run(*start, env=environment).strip()
        subprocess.run([*holdfast, "wait", name], env=environment, capture_output=True, check=False)
        status = json.loads(run(*holdfast, "status", name, "--json", env=environment))
        rows = list(read_rows(str(directory / "runs" / status["id"] / "trace.jsonl")))
        comms = {row["comm"] for row in rows if "comm" in row}
        peak = status["usage"]["peak_rss_bytes"]
        right = comms == {os.path.basename(PYTHON)} and peak is not None
        said = run(*holdfast, "logs", name, env=environment).split()
        TRUE_MIB[wrapper] = int(said[-1]) / 1024
        found[wrapper] = peak / 2**20 if right else None
    return found


def circus(directory: Path) -> Figures:
    """`circusctl stats`."""
    config, endpoint = directory / "circus.ini", f"ipc://{directory}/c"
    lines = [f"[circus]\nendpoint={endpoint}\npubsub_endpoint=ipc://{directory}/p\nstatsd=False"]
    names = {wrapper: f"job{n}" for n, wrapper in enumerate(commands(0))}
    for wrapper, command in commands(600).items():
        lines.append(f"[watcher:{names[wrapper]}]\ncmd={shlex.join(command)}")
    config.write_text("\n".join(lines))
    manager = subprocess.Popen(
        [python_program("circusd"), config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    control = [python_program("circusctl"), "--endpoint", endpoint, "--json"]
    try:
        time.sleep(SECONDS)
        found: Figures = {}
        for wrapper, name in names.items():
            info = json.loads(run(*control, "stats", name))["info"]
            found[wrapper] = _mebibytes(next(iter(info.values()))["mem_info1"])
        return found
    finally:
        manager.terminate()
        manager.wait(60)


def _mebibytes(text: str) -> float:
    units = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text) / 2**20


def pm2(directory: Path) -> Figures:
    """`pm2 jlist`."""
    environment = {**os.environ, "PM2_HOME": str(directory)}
    program = pm2_program()
    try:
        for wrapper, command in commands(600).items():
            options = ["--name", wrapper, "--interpreter", "none", "--no-autorestart"]
            run(program, "start", command[0], *options, "--", *command[1:], env=environment)
        time.sleep(SECONDS)
        listed = json.loads(run(program, "jlist", env=environment).splitlines()[-1])
        return {job["name"]: job["monit"]["memory"] / 2**20 for job in listed}
    finally:
        subprocess.run(
            [program, "delete", "all"], env=environment, capture_output=True, check=False
        )
        subprocess.run([program, "kill"], env=environment, capture_output=True, check=False)


def con_duct(directory: Path) -> Figures:
    """`con-duct run`, its peak."""
    program = python_program("con-duct")
    found: Figures = {}
    for number, (wrapper, command) in enumerate(commands(SECONDS).items()):
        prefix = f"{directory}/{number}-"
        rates = ["--sample-interval", "0.5", "--report-interval", "1"]
        run(program, "run", "-p", prefix, *rates, *command)
        info = json.loads(Path(f"{prefix}info.json").read_text())
        found[wrapper] = info["execution_summary"]["peak_rss"] / 2**20
    return found


PEERS: dict[str, Callable[[Path], Figures]] = {"circus": circus, "pm2": pm2, "con-duct": con_duct}


def end_leftovers() -> None:
    """What a peer left running of the workloads that this bench started."""
    needle = CODE.format(WORKLOAD_MIB, 600).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            fd = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        if needle in words and words[0] == PYTHON.encode():
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 when Holdfast is off."""
    parser = argparse.ArgumentParser(description="memory shown for a workload behind wrappers")
    parser.add_argument("--peers", default=",".join(PEERS))
    options = parser.parse_args(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "shim.js").write_text(NODE_SHIM)
    wrappers = list(commands(0))
    for name in left_out():
        print(f"{name} is left out: it is not here")
    print(f"memory shown for a {WORKLOAD_MIB} MiB workload, MiB")
    print(f"{'':10}" + "".join(f"{wrapper:>12}" for wrapper in wrappers), flush=True)
    tools = {"holdfast": holdfast, **{n: PEERS[n] for n in options.peers.split(",") if n}}
    missed = False
    for name, measure in tools.items():
        with tempfile.TemporaryDirectory(prefix="hf-") as directory:
            os.chmod(directory, 0o700)
            try:
                found = measure(Path(directory))
            except (Missing, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"{name:10} left out: {error}")
                missed |= name == "holdfast"
                continue
            finally:
                end_leftovers()
        shown = (found.get(wrapper) for wrapper in wrappers)
        print(
            f"{name:10}" + "".join(f"{'-' if v is None else format(v, '.1f'):>12}" for v in shown)
        )
        if name == "holdfast":
            missed |= any(
                value is None or abs(value / (TRUE_MIB[wrapper] or 1) - 1) > TOLERANCE
                for wrapper, value in found.items()
            )
            told = "".join(f"{TRUE_MIB[wrapper]:>12.1f}" for wrapper in wrappers)
            print(f"{'the truth':10}{told}", flush=True)
    if missed:
        print("missed: Holdfast must show the workload's own memory behind every wrapper")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
