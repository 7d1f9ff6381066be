"""A JSON Schema of the registry."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from penstock.registry.formats.json_schema.comparison import incompatibilities
from penstock.registry.formats.json_schema.containers import CONTAINERS
from penstock.registry.formats.json_schema.loader import load
from penstock.registry.formats.json_schema.nodes import Node
from penstock.registry.formats.json_schema.simple import SIMPLE
from penstock.registry.formats.json_text import read, write
from penstock.registry.formats.references import Reference, sorted_references
from penstock.registry.formats.schema import Incompatibility, Schema

RULES: Final = {**SIMPLE, **CONTAINERS}


@dataclass(frozen=True, slots=True, eq=False)
class JsonSchema(Schema):
    """A JSON Schema. The stored text is the submitted document without white space."""

    format: ClassVar[str] = "JSON"
    text: str
    root: Node
    references: tuple[Reference, ...]
    resolved: Mapping[str, str]

    @classmethod
    def parse(
        cls, text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool = True
    ) -> Self:
        document = read(text, repeats=False)
        return cls(write(document), load(document, resolved), references, resolved)

    def canonical(self) -> str:
        return self.text

    def normalized(self) -> Self:
        """Return the schema with the names of each object sorted."""
        text = write(read(self.text), sort_keys=True)
        return type(self).parse(text, sorted_references(self.references), self.resolved)

    def identity(self) -> Hashable:
        return self.text

    def incompatibilities(self, writer: Self, *, is_lenient: bool = False) -> list[Incompatibility]:
        return incompatibilities(self.root, writer.root, RULES, is_lenient=is_lenient)
