"""A Protobuf schema of the registry."""

from __future__ import annotations

import base64
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from google.protobuf.message import DecodeError

from penstock.registry.formats.errors import SchemaError, UnknownReference
from penstock.registry.formats.protobuf import parser
from penstock.registry.formats.protobuf.builtin import builtin_files
from penstock.registry.formats.protobuf.compatibility import Side, incompatibilities
from penstock.registry.formats.protobuf.model import File
from penstock.registry.formats.protobuf.names import Names
from penstock.registry.formats.protobuf.text import printed
from penstock.registry.formats.protobuf.to_descriptor import file_set, parsed, serialized
from penstock.registry.formats.references import Reference, names, sorted_references
from penstock.registry.formats.schema import Incompatibility, Schema

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema(Schema):
    """A Protobuf schema.

    The stored text is the file without comments, in a fixed order and layout, whether the client sent text or
    a descriptor.
    """

    format: ClassVar[str] = "PROTOBUF"
    file: File
    references: tuple[Reference, ...]
    resolved: Mapping[str, str]
    imported: Mapping[str, File]  # the files of the references, by import path
    names: Names

    @classmethod
    def parse(
        cls, text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool = True
    ) -> Self:
        imported: dict[str, File] = {}
        for path, each in resolved.items():
            try:
                imported[path] = _file(each, imported)
            except SchemaError as error:
                raise SchemaError(f"in the reference {path!r}: {error}") from None
        file = _file(text, imported)
        known = {**builtin_files(), **imported}
        schema = cls(file, references, resolved, imported, Names(file, known))
        if is_new:
            missing = [path for path in file.all_imports if path not in known]
            if missing:
                raise UnknownReference(
                    f"the import {missing[0]!r} is neither a reference of the schema (found "
                    f"{names(resolved)}) nor a built-in file"
                )
            printed(file, schema.names)  # fails if a type can't be found
        return schema

    def canonical(self) -> str:
        return printed(self.file)

    def normalized(self) -> Self:
        text = printed(self.file, self.names)
        return type(self).parse(text, sorted_references(self.references), self.resolved, is_new=False)

    def identity(self) -> Hashable:
        return self.canonical()

    def incompatibilities(self, writer: Self, *, is_lenient: bool = False) -> list[Incompatibility]:
        return incompatibilities(self._side(), writer._side())

    def formatted(self, name: str) -> str:
        """Return the text in the form that `format=` names.

        `serialized` is the descriptor in base64. `ignore_extensions` leaves out extensions other than
        Confluent's.
        """
        match name.strip().lower():
            case "serialized":
                return base64.b64encode(serialized(self.file, self.names, self.imported)).decode()
            case "ignore_extensions":
                return printed(self.file, without_extensions=True)
        return self.canonical()

    def file_set(self) -> bytes:
        """Return a serialized FileDescriptorSet for reading messages, with all imports and this file last."""
        return file_set(self.file, self.names, self.imported)

    def _side(self) -> Side:
        return Side(self.file, self.names, {each.name: each for each in self.references})


def _file(text: str, imported: Mapping[str, File]) -> File:
    """Parse a text, or the base64 descriptor that some clients send instead."""
    try:
        return parser.parse(text)
    except SchemaError as error:
        stripped = text.strip()
        if not _BASE64.fullmatch(stripped) or len(stripped) % 4:
            raise
        try:
            return _described(base64.b64decode(stripped), imported)
        except DecodeError:
            raise error from None


def _described(data: bytes, imported: Mapping[str, File]) -> File:
    """Return the file of a descriptor, parsed from its printed text, since a descriptor may be damaged."""
    try:
        text = printed(parsed(data, imported))
    except TypeError:  # the library returns bytes for a string that is not UTF-8
        raise SchemaError("the descriptor has names that are not valid text") from None
    try:
        return parser.parse(text)
    except SchemaError as error:
        raise SchemaError(f"the descriptor is not a valid Protobuf file: {error}") from None
