"""Masks of columns: ``column.truncate.to.N.chars``, ``column.mask.with.N.chars`` and ``column.mask.hash…``.

Stars and hashes apply to columns of text and enums, truncation to texts and bytes of every kind; other types
keep their values, as in Debezium, but citext and the texts of networks and ranges are masked here and not
there. The first mask whose list has the column wins, in the order truncation, stars, hash, hash of version 2.
Version 1 of the hash covers the bytes that Java serializes a string to.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.connect.cdc.column_type import ColumnType
from penstock.connect.cdc.selection.lists import any_of
from penstock.connect.data.schema import Type
from penstock.connect.errors import ConfigInvalid

Mask = Callable[[ColumnType, int | None], ColumnType]
"""Changes a column's type; the second argument is the declared length, if there is one."""

_TRUNCATE: Final = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_STARS: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH: Final = re.compile(r"column\.mask\.hash\.(?:(v2)\.)?([^.]+)\.with\.salt\.(.+)")
_ALGORITHMS: Final = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA-512/224": "sha512_224",
    "SHA-512/256": "sha512_256",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Java's names of hash functions, and Python's."""
_STRING_TAG: Final = b"\xac\xed\x00\x05\x74"
_LONG_STRING_TAG: Final = b"\xac\xed\x00\x05\x7c"
_SHORT_STRING_MAX_BYTES: Final = 0xFFFF
"""Java's serialization writes a length of two bytes up to here, and one of eight bytes beyond."""


class Masks:
    """The masks of a configuration."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Read Debezium's properties. Raises ConfigInvalid."""
        ranked = [
            (rank, any_of(name, text), mask)
            for name, text in properties.items()
            for rank, mask in _masks_of(name)
        ]
        self._rules = [(matches, mask) for _, matches, mask in sorted(ranked, key=lambda each: each[0])]

    def apply(self, column: str, kind: ColumnType, length: int | None) -> ColumnType:
        """The type of ``schema.table.column`` with its mask, if it has one."""
        mask = next((mask for matches, mask in self._rules if matches(column)), None)
        return kind if mask is None else mask(kind, length)


def _masks_of(name: str) -> Iterator[tuple[int, Mask]]:
    if found := _TRUNCATE.fullmatch(name):
        yield 0, _truncation(int(found[1]))
    elif found := _STARS.fullmatch(name):
        yield 1, _stars("*" * int(found[1]))
    elif found := _HASH.fullmatch(name):
        yield (3 if found[1] else 2), _hash(name, found[2], found[3], found[1] is not None)


def _truncation(most: int) -> Mask:
    def truncated(kind: ColumnType, length: int | None) -> ColumnType:
        if length is not None and length <= most:
            return kind
        made = _with_parameter(kind, "truncateLength", str(most))
        return _mapped(made, lambda value: _first(value, most))

    return truncated


def _stars(stars: str) -> Mask:
    def masked(kind: ColumnType, length: int | None) -> ColumnType:
        made = _with_parameter(kind, "masked", "true")
        if not _is_text(kind):
            return made
        return replace(made, convert=lambda text: stars, fallback=stars, unchanged=stars, null=stars)

    return masked


def _hash(name: str, algorithm: str, salt: str, is_v2: bool) -> Mask:
    known = _ALGORITHMS.get(algorithm.upper())
    if known is None:
        raise ConfigInvalid(
            f"{name} has the unknown hash algorithm {algorithm}; expected one of {', '.join(_ALGORITHMS)}"
        )
    salted = hashlib.new(known, salt.encode(), usedforsecurity=False)

    def hashed(kind: ColumnType, length: int | None) -> ColumnType:
        made = _with_parameter(kind, "masked", "true")

        def digest(value: str) -> str:
            state = salted.copy()
            state.update(value.encode() if is_v2 else java_serialized(value))
            return state.hexdigest()[:length]

        return _mapped(made, digest) if _is_text(kind) else made

    return hashed


def _is_text(kind: ColumnType) -> bool:
    return kind.schema.type is Type.STRING and kind.schema.name in (None, "io.debezium.data.Enum")


def _with_parameter(kind: ColumnType, name: str, value: str) -> ColumnType:
    parameters = {**(kind.schema.parameters or {}), name: value}
    return replace(kind, schema=replace(kind.schema, parameters=parameters))


def _mapped(kind: ColumnType, change: Callable[[Any], Any]) -> ColumnType:
    """The type whose values are changed, and so are those that stand in for others."""
    convert = kind.convert
    return replace(
        kind,
        convert=lambda text: change(convert(text)),
        fallback=change(kind.fallback),
        unchanged=None if kind.unchanged is None else change(kind.unchanged),
    )


def _first(value: Any, most: int) -> Any:
    """The first characters, as Java counts them: two for those beyond the Basic Multilingual Plane."""
    if isinstance(value, bytes):
        return value[:most]
    if not isinstance(value, str) or len(value) * 2 <= most:
        return value
    cut = value.encode("utf-16-le", "surrogatepass")[: most * 2].decode("utf-16-le", "surrogatepass")
    return cut.encode(errors="replace").decode()  # half a pair becomes "?", as in Java


def java_serialized(text: str) -> bytes:
    """The bytes of Java's serialization of a string: a tag, the length, and Java's variety of UTF-8."""
    units = text.encode("utf-16-be", "surrogatepass")
    data = b"".join(_java_utf8(high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True))
    if len(data) <= _SHORT_STRING_MAX_BYTES:
        return _STRING_TAG + struct.pack(">H", len(data)) + data
    return _LONG_STRING_TAG + struct.pack(">Q", len(data)) + data


def _java_utf8(unit: int) -> bytes:
    """A UTF-16 unit by itself, where 0 has two bytes."""
    return b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
