"""Build and run the load generator in C (`load_generator/`)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import confluent_kafka

from penstock.bench.c_program import build

SOURCES = Path(__file__).with_name("load_generator")
LIBRARIES = ("-lpthread",) if sys.platform == "darwin" else ("-ldl", "-lpthread")
RUN_TIMEOUT_S = 400


class LoadgenError(RuntimeError):
    """A run failed, or there is no librdkafka to load; the message gives the details."""


class LoadgenResult(TypedDict, total=False):
    """The output of one run: records acknowledged or received, and the time that took."""

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
        self._program = build(SOURCES, LIBRARIES)
        self._library = _librdkafka()

    def command(self, mode: str, *arguments: object) -> list[str]:
        """The command line of one run; see the top of `main.c` for modes and arguments."""
        return [str(self._program), str(self._library), mode, *map(str, arguments)]

    def raw_command(self, mode: str, address: str, topic: str, **options: object) -> list[str]:
        """The command line of one run of the raw client; an address is `HOST:PORT`."""
        words = [str(self._program), "wire", mode, *address.rsplit(":", 1), topic]
        return [*words, *(f"{name}={value}" for name, value in options.items())]

    def tls_missing(self) -> str | None:
        """Return the reason why the raw client cannot encrypt here, or None if it can."""
        command = self.raw_command("connect", "127.0.0.1:0", "-", connections=0, requests=0, tls=1)
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        return done.stderr.strip() if done.returncode else None

    def run(self, mode: str, *arguments: object) -> LoadgenResult:
        """Run the load generator to its end and return the result."""
        finished = subprocess.run(
            self.command(mode, *arguments), capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
        return parse(finished.returncode, finished.stdout, finished.stderr)


def parse(code: int, stdout: str, stderr: str) -> LoadgenResult:
    """Parse the output of a finished run.

    Raises:
        LoadgenError: the run failed or lost records.
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
