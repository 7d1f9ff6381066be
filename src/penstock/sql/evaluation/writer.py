"""A writer of Python source, with blocks, unique names and constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

BLOCKS_MAX: Final = 12
"""Limits nested loops and try statements in one function, below Python's own limit of 20."""


class Names:
    """A generator of unique names. ``globals`` holds the values of those that the source reads as globals."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._count = 0

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: Any) -> str:
        """The name of a value. The same object always gets the same name."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = self.fresh("k")
            self.globals[name] = value
        return name


class Writer:
    """The lines of one function's body. ``blocks`` counts the open loops and try statements."""

    def __init__(self, names: Names, indent: int = 1) -> None:
        self.names = names
        self.lines: list[str] = []
        self.blocks = 0
        self._indent = indent

    def write(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)

    def temporary(self, code: str) -> str:
        """Assign an expression to a new variable, and return its name."""
        name = self.names.fresh("t")
        self.write(f"{name} = {code}")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.write(head)
        before = len(self.lines)
        with self._indented():
            yield
            if len(self.lines) == before:
                self.write("pass")

    @contextmanager
    def _indented(self) -> Iterator[None]:
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Collect the lines written inside in a separate list, indented as a block."""
        outer, self.lines = self.lines, []
        with self._indented():
            yield self.lines
        self.lines = outer

    @contextmanager
    def counted_block(self, head: str) -> Iterator[None]:
        """Open a loop or try statement, which counts towards BLOCKS_MAX."""
        self.blocks += 1
        with self.block(head):
            yield
        self.blocks -= 1

    @contextmanager
    def result(self, name: str) -> Iterator[None]:
        """Write code that assigns ``name``. It becomes a separate function if BLOCKS_MAX blocks are open."""
        if self.blocks < BLOCKS_MAX:
            yield
            return
        function = self.names.fresh("f")
        with self.function(f"def {function}():"):
            yield
            self.write(f"return {name}")
        self.write(f"{name} = {function}()")

    @contextmanager
    def function(self, head: str) -> Iterator[None]:
        """Define a nested function, which can read the variables of the enclosing one."""
        outside, self.blocks = self.blocks, 0
        with self.block(head):
            yield
        self.blocks = outside
