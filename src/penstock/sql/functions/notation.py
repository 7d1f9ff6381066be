"""The notation of the tables of functions, and the classes that they are parsed into.

    NAME: what it does
      INTEGER, STRING... → BOOLEAN
      ARRAY<T>, T => R → ARRAY<R>

Each indented line is one signature: parameters, an arrow, the result. A parameter is one of ksqlDB's types,
a type variable, DECIMAL of any size, ANY, UNIT (such as DAYS), or a lambda. A type variable is one letter,
which stands for the same type throughout the signature (N: only numbers; O: only types without parts; C: as
O, but not BOOLEAN). `...` accepts any number of arguments, including none; `!` accepts only literals. The
result may also be DECIMAL, the common size of all decimals; WHOLE, the same without its scale; or RANKED,
the result of TOPK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.sql.language import types
from penstock.sql.language.types import SqlType


class FunctionKind(Enum):
    SCALAR = "scalar"
    TABLE = "table"
    AGGREGATE = "aggregate"


@dataclass(frozen=True)
class Letter:
    """A type variable, which stands for the same type throughout a signature."""

    name: str

    def __str__(self) -> str:
        return self.name


class Special(Enum):
    """Parameters and results that are not types."""

    ANY = "ANY"
    UNIT = "UNIT"
    DECIMAL = "DECIMAL"
    WHOLE = "WHOLE"
    RANKED = "RANKED"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class LambdaShape:
    parameters: tuple[Shape, ...]
    result: Shape

    def __str__(self) -> str:
        names = ", ".join(map(str, self.parameters))
        return f"{f'({names})' if len(self.parameters) > 1 else names} => {self.result}"


@dataclass(frozen=True)
class ArrayShape:
    element: Shape

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MapShape:
    key: Shape
    value: Shape

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class StructShape:
    fields: tuple[tuple[str, Shape], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name} {shape}' for name, shape in self.fields)}>"


Shape = SqlType | Letter | Special | LambdaShape | ArrayShape | MapShape | StructShape


@dataclass(frozen=True)
class Parameter:
    shape: Shape
    variadic: bool = False
    literal: bool = False

    def __str__(self) -> str:
        return f"{self.shape}{'...' if self.variadic else ''}{'!' if self.literal else ''}"


@dataclass(frozen=True)
class Signature:
    parameters: tuple[Parameter, ...]
    result: Shape

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) → {self.result}"


@dataclass(frozen=True)
class Function:
    """A function. ``file`` is the Python file and name (`file.py:name`) of a user-defined function."""

    name: str
    kind: FunctionKind
    description: str
    signatures: tuple[Signature, ...]
    file: str | None = None


_MEANINGS: Final = {
    "N": "N is a number",
    "C": "C has an order",
    "O": "O is not an ARRAY, MAP or STRUCT",
    "UNIT": "UNIT is a word such as DAYS",
    "...": "... stands for any number of arguments",
    "!": "! requires a literal",
}


def legend(signatures: Iterable[Signature]) -> str:
    """Explain the symbols in these signatures' parameters, for the end of an error message.

    Letters that stand for any type are not explained.
    """
    written = " ".join(str(parameter) for each in signatures for parameter in each.parameters)
    signs = set(re.findall(r"\b[A-Z]+\b|\.\.\.|!", written))
    meanings = [meaning for sign, meaning in _MEANINGS.items() if sign in signs]
    return f", where {', '.join(meanings)}" if meanings else ""


_TOKEN = re.compile(r"=>|→|\.\.\.|[A-Z]+|[<>(),!]")


class _Reader:
    """A parser of one signature."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._words = _TOKEN.findall(line)
        assert "".join(self._words) == line.replace(" ", ""), line

    def _accept(self, word: str) -> bool:
        found = bool(self._words) and self._words[0] == word
        if found:
            self._words.pop(0)
        return found

    def _expect(self, word: str) -> None:
        assert self._accept(word), f"{self._line}: expected {word} before {self._words}"

    def signature(self) -> Signature:
        parameters: list[Parameter] = []
        while not self._accept("→"):
            if parameters:
                self._expect(",")
            shape = self._parameter()
            parameters.append(Parameter(shape, self._accept("..."), self._accept("!")))
        result = self._shape()
        assert not self._words, self._line
        return Signature(tuple(parameters), result)

    def _parameter(self) -> Shape:
        if self._accept("("):
            names = [self._shape()]
            while self._accept(","):
                names.append(self._shape())
            self._expect(")")
            self._expect("=>")
            return LambdaShape(tuple(names), self._shape())
        shape = self._shape()
        return LambdaShape((shape,), self._shape()) if self._accept("=>") else shape

    def _shape(self) -> Shape:
        word = self._words.pop(0)
        if word in ("ARRAY", "MAP", "STRUCT"):
            self._expect("<")
            made = {"ARRAY": self._array, "MAP": self._map, "STRUCT": self._struct}[word]()
            self._expect(">")
            return made
        if len(word) == 1:
            return Letter(word)
        return Special(word) if word in Special.__members__ else types.PRIMITIVES[word]

    def _array(self) -> Shape:
        return ArrayShape(self._shape())

    def _map(self) -> Shape:
        key = self._shape()
        self._expect(",")
        return MapShape(key, self._shape())

    def _struct(self) -> Shape:
        fields: list[tuple[str, Shape]] = []
        while not fields or self._accept(","):
            fields.append((self._words.pop(0), self._shape()))
        return StructShape(tuple(fields))


def functions_of(kind: FunctionKind, table: str) -> Iterator[Function]:
    """Parse a table of functions."""
    for block in re.split(r"\n(?=\S)", table.strip("\n")):
        head, *lines = block.splitlines()
        name, _, description = head.partition(": ")
        signatures = tuple(_Reader(line.strip()).signature() for line in lines)
        assert signatures, f"{name} has no signature"
        yield Function(name, kind, description, signatures)
