"""A module that runs as a process and exchanges lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


class Child:
    """A running ``module``, given with its package."""

    def __init__(self, module: str, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, **given: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()

    def told(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended early with status {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        self._process.wait(60)
