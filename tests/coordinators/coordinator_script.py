"""Scripts that drive a coordinator and show its output; each coordinator has its own commands.

A script is a list of blocks: a command, a line of dashes, its output, an empty line. Lines that begin with
`#` are prose. With PENSTOCK_REWRITE=1 in the environment the test writes the output into the script, for
review before a commit.
"""

import itertools
from typing import Protocol

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    for unit in ("ms", "s", "m", "h", "d"):
        if text.endswith(unit) and text[: -len(unit)].isdigit():
            return int(text[: -len(unit)]) * UNITS_MS[unit]
    return int(text)


class Options:
    """The words of a command: flags, `key=value` pairs, and plain words in order."""

    def __init__(self, words: list[str]) -> None:
        self.words = [word for word in words if "=" not in word]
        self.pairs = dict(word.split("=", 1) for word in words if "=" in word)

    def get(self, key: str, default: str) -> str:
        return self.pairs.pop(key, default)


class Driver(Protocol):
    def run(self, command: str) -> list[str]:
        """Run one command and return its output, line by line."""


def run_script(text: str, driver: Driver) -> str:
    """The script with the actual output of each command."""
    rendered: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.startswith("#"):
            rendered.append(line)
            continue
        for _ in itertools.takewhile(str.strip, lines):
            pass  # the expected outcome, compared by the caller as text
        rendered += [line, "----", *driver.run(line), ""]
    return "\n".join(rendered).rstrip("\n") + "\n"
