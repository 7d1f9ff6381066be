"""What every format offers, and what stands between two schemas."""

from __future__ import annotations

import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from penstock.registry.formats.references import Reference

REPORTED_MAX: Final = 1_000  # incompatibilities of two schemas; whoever has more has no use for them
_STEP_CHARACTERS_MAX: Final = 256


def shown_path(path: Sequence[str]) -> str:
    """A path as messages have it. The name of a property may be as long as a schema, and stand in all
    messages.
    """
    return "#/" + "/".join(
        each if len(each) <= _STEP_CHARACTERS_MAX else f"{each[:_STEP_CHARACTERS_MAX]}…" for each in path
    )


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """One reason why a reader can't read what a writer wrote.

    ``kind`` is Confluent's name of the rule, ``path`` where it was broken, in the reader's terms: a JSON
    pointer in Avro, `#/…` in the others. ``description`` holds ``{reader}`` and ``{writer}``, for "new" and
    "old".
    """

    kind: str
    path: str
    description: str
    detail: str | None = None  # Avro has it: what was expected and what was found

    def message(self, reader: str, writer: str) -> str:
        """As `verbose=true` shows it."""
        text = self.description.replace("{reader}", reader).replace("{writer}", writer)
        text = text.replace("{path}", f"'{self.path}'")  # last: a path may hold anything
        if self.detail is None:
            return f'{{errorType:"{self.kind}", description:"{text}"}}'
        return f"{{errorType:'{self.kind}', description:'{text}', additionalInfo:'{self.detail}'}}"


class Schema(ABC):
    """A parsed schema. Immutable: what it answers never changes."""

    format: ClassVar[str]
    references: tuple[Reference, ...]

    @classmethod
    @abstractmethod
    def parse(
        cls, text: str, references: tuple[Reference, ...], resolved: Mapping[str, str], *, is_new: bool = True
    ) -> Self:
        """The schema of a text, which may use the names in ``resolved``. Raises SchemaError."""

    @abstractmethod
    def canonical(self) -> str:
        """The text that the registry stores and returns."""

    @abstractmethod
    def normalized(self) -> Self:
        """The schema of the same meaning that `normalize=true` stores."""

    @abstractmethod
    def identity(self) -> Hashable:
        """Schemas of equal identity are one and the same to a subject; what doesn't change a schema is left
        out.
        """

    @abstractmethod
    def incompatibilities(self, writer: Self, *, is_lenient: bool = False) -> list[Incompatibility]:
        """Why data of ``writer`` can't be read by this schema. ``is_lenient``: JSON Schema's lenient
        policy.
        """

    def formatted(self, name: str) -> str:
        """The text in the form that `format=` names. One that is unknown is the canonical text, as there."""
        return self.canonical()

    def fingerprint(self) -> bytes:
        """The MD5 of text and references by which the registry finds a schema's id again."""
        digest = hashlib.md5(self.canonical().encode(), usedforsecurity=False)
        for reference in self.references:
            digest.update(reference.name.encode())
            digest.update(reference.subject.encode())
            digest.update(reference.version.to_bytes(4, "big", signed=True))
        return digest.digest()

    def guid(self) -> str:
        """The fingerprint as the API writes it."""
        return str(uuid.UUID(bytes=self.fingerprint()))
