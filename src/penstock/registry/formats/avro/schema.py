"""An Avro schema of the registry."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from penstock.registry.formats.avro.compatibility import incompatibilities
from penstock.registry.formats.avro.parser import parse
from penstock.registry.formats.avro.text import printed
from penstock.registry.formats.avro.types import Type
from penstock.registry.formats.references import Reference, sorted_references
from penstock.registry.formats.schema import Incompatibility, Schema


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema(Schema):
    """An Avro schema. Referenced schemas define their names; the stored text only uses these names."""

    format: ClassVar[str] = "AVRO"
    root: Type
    references: tuple[Reference, ...]
    resolved: Mapping[str, str]
    # full names of the references' root types, which Java's library treats as known
    referred: tuple[str, ...]

    @classmethod
    def parse(
        cls, text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool = True
    ) -> Self:
        root, referred = parse(text, resolved, is_new=is_new)
        return cls(root, references, resolved, tuple(each.full_name for each in referred))

    def canonical(self) -> str:
        return printed(self.root, self.referred)

    def normalized(self) -> Self:
        text = printed(self.root, self.referred, is_normal=True)
        return type(self).parse(text, sorted_references(self.references), self.resolved, is_new=False)

    def identity(self) -> Hashable:
        return printed(self.root, is_identity=True)

    def incompatibilities(self, writer: Self, *, is_lenient: bool = False) -> list[Incompatibility]:
        return incompatibilities(self.root, writer.root)

    def formatted(self, name: str) -> str:
        """Return the text; the form `resolved` replaces referenced names by their definitions."""
        return printed(self.root) if name.strip().lower() == "resolved" else self.canonical()
