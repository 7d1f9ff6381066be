"""The formats of keys and values by name, as `--key-format` and `--value-format` select them.

They have the names of the Spark source's formats (docs/schemas.md).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.connection import EXIT_USAGE, fail
from penstock.cli.extras import require_packages
from penstock.cli.records import simple
from penstock.cli.records.codec import Decode, Encoder


class Format(StrEnum):
    """The encodings of keys and values."""

    BYTES = "bytes"
    STRING = "string"
    JSON = "json"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    UUID = "uuid"
    AVRO = "avro"
    JSON_SCHEMA = "json-schema"
    PROTOBUF = "protobuf"


REGISTERED: Final = (Format.AVRO, Format.JSON_SCHEMA, Format.PROTOBUF)
"""The formats whose schemas are in a registry."""

_REQUIRED: Final = (
    "google.protobuf",
    "google.type",
    "referencing",
    "jsonschema_specifications",
    "jsonschema",
)
_NAMES: Final = ", ".join(Format)

KeyFormat = Annotated[
    Format, typer.Option("--key-format", metavar="FORMAT", help=f"The format of keys: {_NAMES}.")
]
ValueFormat = Annotated[
    Format,
    typer.Option("--value-format", metavar="FORMAT", help="The format of values, as for --key-format."),
]


@dataclass(frozen=True, slots=True)
class Side:
    """The keys or the values of a command's records, with the options that concern them."""

    name: str  # key or value
    format: Format
    registry: str
    schema: str | None = None
    message: str | None = None

    def _check(self) -> None:
        """End the command if the options contradict each other, or a package is missing."""
        if self.message is not None and self.format is not Format.PROTOBUF:
            fail(
                f"--{self.name}-message: expected it only with --{self.name}-format protobuf, found the "
                f"format {self.format}",
                EXIT_USAGE,
            )
        if self.format in REGISTERED:
            require_packages(_REQUIRED, "registry", f"--{self.name}-format {self.format}")
        elif self.schema is not None:
            fail(
                f"--{self.name}-schema: expected it only with --{self.name}-format "
                f"{' or '.join(REGISTERED)}, found the format {self.format}",
                EXIT_USAGE,
            )

    def decoder(self) -> Decode:
        """Build the decoder; an invalid option ends the command."""
        self._check()
        match self.format:
            case Format.BYTES:
                return simple.decode_bytes
            case Format.STRING:
                return simple.decode_string
            case Format.JSON:
                return simple.decode_json
            case Format.UUID:
                return simple.decode_uuid
            case format if format in simple.NUMBERS:
                return simple.number_decoder(format)
        from penstock.cli.records.registered import registered_decoder

        return registered_decoder(self.format, self.registry)

    def encoder(self, topic: str) -> Encoder | None:
        """Build the encoder for a topic, or None for bytes; an invalid option ends the command."""
        self._check()
        match self.format:
            case Format.BYTES:
                return None
            case Format.STRING:
                return simple.TextEncoder(str.encode)
            case Format.JSON:
                return simple.JsonEncoder(simple.compact_json)
            case Format.UUID:
                return simple.TextEncoder(simple.encode_uuid)
            case format if format in simple.NUMBERS:
                return simple.TextEncoder(simple.number_encoder(format))
        from penstock.cli.records.registered import registered_encoder

        schema = self._schema_text()
        return registered_encoder(self.format, self.registry, topic, self.name, schema, self.message)

    def _schema_text(self) -> str | None:
        """The given schema: the contents of a file, a text, or the digits of an id."""
        if self.schema is None:
            return None
        try:
            # Unlike Path.is_file, os.path.isfile accepts a text that is too long for a path.
            return Path(self.schema).read_text() if os.path.isfile(self.schema) else self.schema
        except (OSError, UnicodeDecodeError) as error:
            fail(f"cannot read --{self.name}-schema {self.schema}: {error}", EXIT_USAGE)
