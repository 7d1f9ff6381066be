"""The interface of every format's schemas, and the incompatibilities between two schemas."""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from penstock.registry.formats.references import Reference

# Limit on the reported incompatibilities of two schemas; a longer list helps no user.
REPORTED_MAX: Final = 1_000
_STEP_CHARACTERS_MAX: Final = 256


def shown_path(path: Sequence[str]) -> str:
    """Format a path for messages.

    Each step is truncated: a property's name may be as long as a schema, and would repeat in every message.
    """
    return "#/" + "/".join(
        each if len(each) <= _STEP_CHARACTERS_MAX else f"{each[:_STEP_CHARACTERS_MAX]}…" for each in path
    )


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why a reader can't read a writer's data.

    ``kind`` is Confluent's name of the broken rule. ``path`` is the place in the reader's schema: a JSON
    pointer in Avro, `#/…` in the other formats. ``description`` contains the placeholders ``{reader}`` and
    ``{writer}``, for "new" and "old".
    """

    kind: str
    path: str
    description: str
    detail: str | None = None  # only in Avro: what was expected and what was found

    def message(self, reader: str, writer: str) -> str:
        """Format the message as `verbose=true` shows it."""
        text = self.description.replace("{reader}", reader).replace("{writer}", writer)
        text = text.replace("{path}", f"'{self.path}'")  # last, because a path may contain any text
        if self.detail is None:
            return f'{{errorType:"{self.kind}", description:"{text}"}}'
        return f"{{errorType:'{self.kind}', description:'{text}', additionalInfo:'{self.detail}'}}"


class Schema(ABC):
    """A parsed schema. It is immutable, so its methods always return the same."""

    format: ClassVar[str]
    references: tuple[Reference, ...]

    @classmethod
    @abstractmethod
    def parse(
        cls, text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool = True
    ) -> Self:
        """Parse a text, which may use the names in ``resolved``. Raises SchemaError."""

    @abstractmethod
    def canonical(self) -> str:
        """The text that the registry stores and returns."""

    @abstractmethod
    def normalized(self) -> Self:
        """Return the equivalent schema that `normalize=true` stores."""

    @abstractmethod
    def identity(self) -> Hashable:
        """Return a key that is equal for schemas that a subject treats as the same.

        It leaves out details that don't change the schema.
        """

    @abstractmethod
    def incompatibilities(self, writer: Self, *, is_lenient: bool = False) -> list[Incompatibility]:
        """Return the reasons why this schema can't read data of ``writer``.

        ``is_lenient`` selects JSON Schema's lenient policy.
        """

    def formatted(self, name: str) -> str:
        """Return the text in the form that `format=` names.

        An unknown form is the canonical text, as in Confluent's registry.
        """
        return self.canonical()

    def fingerprint(self) -> bytes:
        """Return the MD5 of text and references, by which the registry finds the id of a known schema."""
        digest = hashlib.md5(self.canonical().encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode())
            digest.update(reference.subject.encode())
            digest.update(reference.version.to_bytes(4, "big", signed=True))
        return digest.digest()

    def guid(self) -> str:
        """The fingerprint as the API writes it."""
        return str(uuid.UUID(bytes=self.fingerprint()))
