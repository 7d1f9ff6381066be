"""Python source that is written line by line: blocks, names that are used once, constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

# Python allows 20 loops and try statements in each other, in one function.
BLOCKS_MAX: Final = 12


class Names:
    """Names that no two things share, and what stands behind those that the source reads as globals."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._count = 0

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: Any) -> str:
        """The name of a value, the same for the same object."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = self.fresh("k")
            self.globals[name] = value
        return name


class Writer:
    """Lines of one function's body; ``depth`` is how many blocks are open around what is written."""

    def __init__(self, names: Names, indent: int = 1) -> None:
        self.names = names
        self.lines: list[str] = []
        self.blocks = 0
        self._indent = indent

    def write(self, line: str) -> None:
        self.lines.append("    " * self._indent + line)

    def temporary(self, code: str) -> str:
        """A variable that is given the value of an expression here."""
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
        """What is written inside goes to a list of its own, as lines of a block."""
        outer, self.lines = self.lines, []
        with self._indented():
            yield self.lines
        self.lines = outer

    @contextmanager
    def counted_block(self, head: str) -> Iterator[None]:
        """A loop or a try statement. Where too many are open, the block is a function of its own."""
        self.blocks += 1
        with self.block(head):
            yield
        self.blocks -= 1

    @contextmanager
    def result(self, name: str) -> Iterator[None]:
        """What is written inside gives ``name`` its value; in a function of its own if need be."""
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
        """A function that may read what is known where it stands."""
        outside, self.blocks = self.blocks, 0
        with self.block(head):
            yield
        self.blocks = outside
