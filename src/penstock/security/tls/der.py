"""Reading DER, the encoding of certificates and keys (ITU-T X.690)."""

from __future__ import annotations

from typing import Final, NamedTuple

_OBJECT_IDENTIFIER: Final = 0x06
_SEQUENCE: Final = 0x30
SET: Final = 0x31


class DerError(ValueError):
    """Bytes that are not DER, or not of the expected structure."""


class Value(NamedTuple):
    """One value: its tag, its contents, and all its bytes."""

    tag: int
    contents: bytes
    encoded: bytes

    def _expect(self, tag: int) -> bytes:
        """Return the contents if the value has this tag. Raises DerError."""
        if self.tag != tag:
            raise DerError(f"expected the tag {tag:#04x}, found {self.tag:#04x}")
        return self.contents

    def parts(self, tag: int = _SEQUENCE) -> list[Value]:
        """The values inside a sequence or a set. Raises DerError."""
        contents = self._expect(tag)
        parts: list[Value] = []
        start = 0
        while start < len(contents):
            parts.append(_value_at(contents, start))
            start += len(parts[-1].encoded)
        return parts

    @property
    def oid(self) -> str:
        """The text of an object identifier, such as 2.5.4.3. Raises DerError."""
        return _dotted(self._expect(_OBJECT_IDENTIFIER))


def only_value(data: bytes) -> Value:
    """The one value that fills ``data``. Raises DerError."""
    value = _value_at(data, 0)
    if len(value.encoded) != len(data):
        raise DerError(f"{len(data) - len(value.encoded)} bytes behind the value")
    return value


def sequence(data: bytes) -> list[Value]:
    """The values inside the sequence that fills ``data``. Raises DerError."""
    return only_value(data).parts()


def _value_at(data: bytes, start: int) -> Value:
    if start + 2 > len(data):
        raise DerError("the value ends too early")
    tag, length, at = data[start], data[start + 1], start + 2
    if tag & 0x1F == 0x1F:
        raise DerError("a tag of several bytes")
    if length == 0x80:
        raise DerError("an indefinite length, which only BER has")
    if length > 0x80:
        size = length & 0x7F
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    end = at + length
    if end > len(data):
        raise DerError("the value ends too early")
    return Value(tag, data[at:end], data[start:end])


def _dotted(contents: bytes) -> str:
    if not contents or contents[-1] & 0x80:
        raise DerError("an object identifier that ends too early")
    numbers: list[int] = []
    number = 0
    for byte in contents:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    root = min(numbers[0] // 40, 2)
    return ".".join(map(str, (root, numbers[0] - 40 * root, *numbers[1:])))
