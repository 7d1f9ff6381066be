"""Records that write their own bytes: a source that can do so builds no Struct unless someone asks for it.

A worker asks a record for its bytes if its converter is Connect's JsonConverter; every other converter, and
every transform, sees a record like any other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from penstock.connect.data.records import SourceRecord
from penstock.connect.data.schema import Schema


class JsonWriting(Protocol):
    """A converter of JSON, as it is configured. Records may keep what they make of it, by its identity."""

    @property
    def decimals_are_numbers(self) -> bool:
        """Whether decimals are written as numbers; else as the base64 of their bytes."""
        ...

    def text_writer(self, schema: Schema) -> Callable[[Any], str]:
        """Return the function that gives the JSON of a value; it raises DataError for misfits."""
        ...

    def frame(self, schema: Schema) -> tuple[bytes, bytes]:
        """Return what stands around the JSON of a record's value: its schema, if that is written."""
        ...


class EncodableRecord(SourceRecord):
    """A record that can write its key and value as JSON, byte for byte as the converter writes them."""

    __slots__ = ()

    @abstractmethod
    def key_json(self, writing: JsonWriting) -> bytes | None:
        """Return the key as the converter writes it. Raises DataError."""

    @abstractmethod
    def value_json(self, writing: JsonWriting) -> bytes | None:
        """Return the value as the converter writes it. Raises DataError."""
