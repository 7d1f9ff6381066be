"""Resolve names of types and extensions in a file and all its imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.registry.formats.protobuf.model import SCALARS, EnumType, Extend, Field, File, Message

LOCAL: Final = ""


@dataclass(frozen=True, slots=True)
class Known:
    """A type, its package, and the path of the file that defines it (`LOCAL`: the schema itself)."""

    type: Message | EnumType
    package: str
    path: str


class Names:
    """All names that a schema may use."""

    def __init__(self, file: File, imported: Mapping[str, File]) -> None:
        self.package = file.package or ""
        self.types: dict[str, Known] = {}
        self.extensions: dict[str, Field] = {}
        for path, each in (*imported.items(), (LOCAL, file)):
            package = each.package or ""
            self._extend(package, each.extends)
            self._add(each.types, package, package, path)

    def _add(self, types: list[Message | EnumType], scope: str, package: str, path: str) -> None:
        for each in types:
            name = joined(scope, each.name)
            self.types[name] = Known(each, package, path)
            if isinstance(each, Message):
                self._extend(name, each.extends)
                self._add(each.types, name, package, path)

    def _extend(self, scope: str, extends: list[Extend]) -> None:
        for extend in extends:
            for field in extend.fields:
                self.extensions[joined(scope, field.name)] = field

    def type(self, name: str, scope: str) -> str | None:
        """Return the full name of a type named inside ``scope``; the innermost match counts."""
        return next((each for each in _candidates(name, scope) if each in self.types), None)

    def extension(self, name: str, scope: str) -> str | None:
        """Return the full name of an extension named inside ``scope``."""
        return next((each for each in _candidates(name, scope) if each in self.extensions), None)

    def known(self, name: str, scope: str) -> Known | None:
        """Return the type that a name refers to inside ``scope``."""
        if name in SCALARS:
            return None
        full = self.type(name, scope)
        return self.types[full] if full is not None else None


def joined(scope: str, name: str) -> str:
    """Return the full name of a name inside a scope; the outermost scope is empty."""
    return f"{scope}.{name}" if scope else name


def _candidates(name: str, scope: str) -> Iterator[str]:
    if name.startswith("."):
        yield name[1:]
        return
    while scope:
        yield f"{scope}.{name}"
        scope = scope.rpartition(".")[0]
    yield name
