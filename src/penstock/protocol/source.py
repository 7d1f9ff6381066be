"""Writes the source of the compiled codec, and records the fields that each line reads or writes.

The generated functions contain no bookkeeping for error messages. When one of them fails, the number of the
line that raised the error identifies the field, through the list kept here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""The ``struct`` codes of the types with fixed width."""

FIXED_SIZES = {name: struct.calcsize(">" + code) for name, code in FORMATS.items()}


class FieldEnd(NamedTuple):
    """A field that a generated line reads, and its end relative to the position before that line."""

    field: str
    end: int


class SourceWriter:
    """Collects indented lines, the fields that each belongs to, and the constants that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fields: list[tuple[FieldEnd, ...]] = []
        self.constants: dict[str, object] = {}
        self._indent = 0
        self._path: list[str] = []

    def line(self, text: str, fields: tuple[FieldEnd, ...] = ()) -> None:
        self.lines.append(" " * self._indent + text)
        self.fields.append(fields or (FieldEnd(self.path(), 0),))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def inside(self, field: str) -> Iterator[None]:
        """Assign the lines written within the context to ``field``."""
        self._path.append(field)
        yield
        self._path.pop()

    def path(self, *more: str) -> str:
        return ".".join([*self._path, *more])

    def constant(self, name: str, value: object) -> str:
        self.constants[name] = value
        return name

    def compile(self, name: str, file_name: str) -> Callable[..., object]:
        """Run the source and return the function ``name`` that it defines."""
        namespace = dict(self.constants)
        exec(compile("\n".join(self.lines), file_name, "exec"), namespace)
        function: Callable[..., object] = namespace[name]  # type: ignore[assignment]
        return function
