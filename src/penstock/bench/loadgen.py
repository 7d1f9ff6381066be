"""Builds and runs `loadgen.c`, the load generator in C."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import confluent_kafka

SOURCE = Path(__file__).with_name("loadgen.c")
RUN_TIMEOUT_S = 400


class LoadgenError(RuntimeError):
    """The load generator cannot be built, or a run failed; the message says which and why."""


class LoadgenResult(TypedDict, total=False):
    """What one run prints: records acknowledged or received, and how long that took."""

    records: int
    failed: int
    seconds: float
    first_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Loadgen:
    """A built load generator and the librdkafka that it loads (the one in confluent-kafka's wheel)."""

    def __init__(self) -> None:
        self._program = _build()
        self._library = _librdkafka()

    def command(self, mode: str, *arguments: object) -> list[str]:
        """The command line of one run; see the top of `loadgen.c` for modes and arguments."""
        return [str(self._program), str(self._library), mode, *map(str, arguments)]

    def run(self, mode: str, *arguments: object) -> LoadgenResult:
        """One run to its end."""
        finished = subprocess.run(
            self.command(mode, *arguments), capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
        return parse(finished.returncode, finished.stdout, finished.stderr)


def parse(code: int, stdout: str, stderr: str) -> LoadgenResult:
    """The result of a finished run.

    Raises:
        LoadgenError: it ended badly or lost records.
    """
    if code != 0 or not stdout:
        raise LoadgenError(f"the load generator ended with code {code}: {stdout.strip()} {stderr.strip()}")
    result: LoadgenResult = json.loads(stdout)
    return result


def _librdkafka() -> Path:
    package = Path(confluent_kafka.__file__).parent
    candidates = [
        *package.parent.glob("confluent_kafka.libs/librdkafka*"),
        *package.glob(".dylibs/librdkafka*"),
    ]
    if not candidates:
        raise LoadgenError(f"no librdkafka beside {package}: install confluent-kafka from its binary wheel")
    return candidates[0]


def _build() -> Path:
    source = SOURCE.read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
    program = cache / f"loadgen-{hashlib.sha256(source).hexdigest()[:16]}"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise LoadgenError(
            "the load generator needs a C compiler: install gcc or clang (Debian: apt install gcc)"
        )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        built = Path(scratch) / "loadgen"
        libraries = ["-lpthread"] if sys.platform == "darwin" else ["-ldl", "-lpthread"]
        _compile([compiler, "-O2", "-o", str(built), str(SOURCE), *libraries])
        built.rename(program)
    return program


def _compile(command: Sequence[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise LoadgenError(f"the load generator does not compile: {finished.stderr.strip()}")
