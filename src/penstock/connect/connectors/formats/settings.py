"""The configuration keys that say how files are read; the names are those of SpoolDir and Aiven."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.connect.connectors.formats.csv_rows import CsvSettings
from penstock.connect.connectors.formats.csv_types import ColumnType, column_type
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import DescribedValidator, Range, ValidString
from penstock.connect.errors import ConfigInvalid

INPUT_FORMAT: Final = "input.format"
AUTO: Final = "auto"
LINES: Final = "lines"
JSON_LINES: Final = "jsonl"
JSON: Final = "json"
CSV: Final = "csv"
AVRO: Final = "avro"
PARQUET: Final = "parquet"
BYTES: Final = "bytes"
GROWING: Final = (LINES, JSON_LINES, CSV)
"""Formats that can be read while files grow: their records end with a line feed."""
BATCH_SIZE: Final = "batch.size"
CHARSET: Final = "file.charset"
MAX_BYTES: Final = "record.max.bytes"
HEADER: Final = "csv.first.row.as.header"
SEPARATOR: Final = "csv.separator.char"
QUOTE: Final = "csv.quote.char"
ESCAPE: Final = "csv.escape.char"
SKIP_LINES: Final = "csv.skip.lines"
NULL: Final = "csv.null.value"
TYPES: Final = "csv.types"
_MAX_BYTES_DEFAULT: Final = 10 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSettings:
    """How files are read."""

    format: str
    charset: str
    max_bytes: int
    batch_size: int
    csv: CsvSettings


def define_formats(definition: ConfigDef) -> ConfigDef:
    """Add the keys of formats to a definition, and return it."""
    valid = (AUTO, LINES, JSON_LINES, JSON, CSV, AVRO, PARQUET, BYTES)
    return (
        definition.define(
            INPUT_FORMAT,
            ConfigType.STRING,
            AUTO,
            ValidString(*valid),
            Importance.HIGH,
            "The format of the files: lines of text, a JSON value on each line (jsonl), JSON documents or"
            " arrays over any lines (json), csv, avro, parquet, or bytes for a whole file as one record."
            " With auto, the end of each name decides: .jsonl, .ndjson, .json, .csv, .tsv, .avro, .parquet,"
            " before .gz, .bz2 or .zst; other files are lines.",
        )
        .define(
            BATCH_SIZE,
            ConfigType.INT,
            1000,
            Range(1),
            Importance.LOW,
            "The most records that a task reads at once.",
        )
        .define(
            CHARSET,
            ConfigType.STRING,
            "utf-8",
            DescribedValidator(_check_charset, "the name of an encoding in which a line feed is one byte"),
            Importance.LOW,
            "The encoding of text in lines and CSV files.",
        )
        .define(
            MAX_BYTES,
            ConfigType.INT,
            _MAX_BYTES_DEFAULT,
            Range(1),
            Importance.LOW,
            "The most bytes of a record; larger ones are bad records.",
        )
        .define(
            HEADER,
            ConfigType.BOOLEAN,
            False,
            importance=Importance.MEDIUM,
            doc="Whether the first row of a CSV file names its columns; otherwise they are column01,"
            f" column02, ..., or those of {TYPES}.",
        )
        .define(
            SEPARATOR,
            ConfigType.STRING,
            ",",
            _character(),
            Importance.LOW,
            "The character between fields of CSV, or its number as SpoolDir has it, such as 9 for a tab."
            " The default is a tab for .tsv files with the format auto.",
        )
        .define(
            QUOTE, ConfigType.STRING, '"', _character(), Importance.LOW, "The quote of CSV, or its number."
        )
        .define(
            ESCAPE,
            ConfigType.STRING,
            None,
            _character(),
            Importance.LOW,
            "The character that escapes the next one in CSV, or its number; by default a quote is doubled.",
        )
        .define(
            SKIP_LINES,
            ConfigType.INT,
            0,
            Range(0),
            Importance.LOW,
            "The number of lines before the header or the first row of a CSV file.",
        )
        .define(
            NULL,
            ConfigType.STRING,
            None,
            None,
            Importance.LOW,
            "The text of CSV fields that have no value. An empty field of a column with a type other than"
            " string has none either.",
        )
        .define(
            TYPES,
            ConfigType.LIST,
            [],
            DescribedValidator(_check_types, "NAME:TYPE, ..."),
            Importance.MEDIUM,
            "The types of CSV columns, such as id:int64, price:decimal(2), at:timestamp; the others are"
            " strings. Types: string, boolean, int8 to int64, float, double, decimal(SCALE), date, time,"
            " timestamp.",
        )
    )


def format_settings(config: Mapping[str, Any]) -> FormatSettings:
    """Return the settings of a parsed configuration."""
    escape = config[ESCAPE]
    return FormatSettings(
        format=config[INPUT_FORMAT],
        charset=config[CHARSET],
        max_bytes=config[MAX_BYTES],
        batch_size=config[BATCH_SIZE],
        csv=CsvSettings(
            separator=character(config[SEPARATOR]),
            quote=character(config[QUOTE]),
            escape=None if escape is None else character(escape),
            has_header=config[HEADER],
            skip_lines=config[SKIP_LINES],
            null_value=config[NULL],
            types=column_types(config[TYPES]),
            charset=config[CHARSET],
        ),
    )


def character(text: str) -> str:
    r"""Return the character that a setting names by itself, by its number, or as \t. Raises ConfigInvalid."""
    if len(text) == 1:
        return text
    if text == r"\t":
        return "\t"
    if text.isascii() and text.isdigit() and 0 < int(text) < 0x110000:
        return chr(int(text))
    raise ConfigInvalid(rf"{text!r} is no character: expected one, its number, or \t")


def column_types(texts: list[str]) -> dict[str, ColumnType]:
    """Return the types of columns by name. Raises ConfigInvalid."""
    found: dict[str, ColumnType] = {}
    for text in texts:
        name, colon, of = text.rpartition(":")
        if not colon or not name.strip() or name.strip() in found:
            raise ConfigInvalid(f"Invalid type of a column {text!r}: expected NAME:TYPE, once for each name")
        found[name.strip()] = column_type(of.strip())
    return found


def _character() -> DescribedValidator:
    def check(name: str, value: Any) -> None:
        if value is not None:
            try:
                character(value)
            except ConfigInvalid as error:
                raise ConfigInvalid(f"Invalid value {value} for configuration {name}: {error}") from None

    return DescribedValidator(check, r"a character, its number, or \t")


def _check_types(name: str, value: Any) -> None:
    try:
        column_types(value)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"Invalid value {value} for configuration {name}: {error}") from None


def _check_charset(name: str, value: Any) -> None:
    try:
        is_suitable = "\n,".encode(codecs.lookup(value).name) == b"\n,"
    except (LookupError, ValueError):
        is_suitable = False
    if not is_suitable:
        raise ConfigInvalid(
            f"Invalid value {value} for configuration {name}: expected an encoding that extends ASCII"
        )
