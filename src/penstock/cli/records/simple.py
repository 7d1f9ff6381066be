"""The formats without a registry: bytes, strings, JSON, and the numbers and UUIDs of Kafka's serializers."""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NoReturn

from penstock.cli.records.codec import Decode, Decoded, InvalidValue, shown

NUMBERS: Final = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}
"""The layouts of Kafka's serializers of numbers, by format."""

_UUID_BYTES: Final = 16


def decode_bytes(data: bytes) -> Decoded:
    return Decoded(data, None)


def decode_string(data: bytes) -> Decoded:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(
            f"found {shown(data)} ({error.reason} at byte {error.start}), expected UTF-8"
        ) from None
    return Decoded(data, json.dumps(text, ensure_ascii=False).encode())


def decode_uuid(data: bytes) -> Decoded:
    """Decode a UUID as text, as Kafka's UUIDSerializer writes it, or as 16 bytes."""
    try:
        found = uuid.UUID(bytes=data) if len(data) == _UUID_BYTES else uuid.UUID(data.decode())
    except ValueError:
        raise InvalidValue(f"found {shown(data)}, expected a UUID as text or as 16 bytes") from None
    return Decoded(str(found).encode(), f'"{found}"'.encode())


def decode_json(data: bytes) -> Decoded:
    """Check JSON and remove the white space around its tokens, so that it fits on a line."""
    compact = compact_json(data)
    return Decoded(compact, compact)


def number_decoder(format: str) -> Decode:
    layout = struct.Struct(NUMBERS[format])

    def decode(data: bytes) -> Decoded:
        if len(data) != layout.size:
            raise InvalidValue(f"found {shown(data)}, expected {layout.size} bytes")
        number = layout.unpack(data)[0]
        if isinstance(number, int):
            text = str(number).encode()
            return Decoded(text, text)
        text = float_text(number, is_single=layout.size == 4).encode()
        return Decoded(text, text if math.isfinite(number) else b'"%s"' % text)

    return decode


def float_text(number: float, *, is_single: bool) -> str:
    """Return the shortest text that denotes the number, with Java's names of infinities and NaN."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if is_single:
        texts = (f"{number:.{digits}g}" for digits in range(6, 10))
        number = float(next(text for text in texts if single(float(text)) == number))
    return repr(number)


def single(number: float) -> float:
    """Round a number to single precision; infinity if it is too large."""
    try:
        found: float = struct.unpack(">f", struct.pack(">f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


class TextEncoder:
    """The encoder of a format whose values are texts or numbers."""

    def __init__(self, encode: Callable[[str], bytes]) -> None:
        self._encode = encode

    def of_text(self, text: bytes) -> bytes:
        try:
            return self._encode(text.decode())
        except UnicodeDecodeError:
            raise InvalidValue(f"found {shown(text)}, expected UTF-8") from None

    def of_json(self, value: Any) -> bytes:
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise InvalidValue(f"found {json_kind(value)}, expected a text or a number")
        return self._encode(str(value))


class JsonEncoder:
    """The encoder of a format whose texts are JSON."""

    def __init__(self, encode: Callable[[bytes], bytes]) -> None:
        self._encode = encode

    def of_text(self, text: bytes) -> bytes:
        return self._encode(text)

    def of_json(self, value: Any) -> bytes:
        # Imported late, as the default formats need no JSON beyond the standard library's.
        import msgspec

        return self._encode(msgspec.json.Encoder(decimal_format="number").encode(value))


def encode_uuid(text: str) -> bytes:
    try:
        return str(uuid.UUID(text)).encode()
    except ValueError:
        raise InvalidValue(f"found {text!r}, expected a UUID") from None


def number_encoder(format: str) -> Callable[[str], bytes]:
    layout = struct.Struct(NUMBERS[format])
    is_whole = format in ("short", "int", "long")

    def encode(text: str) -> bytes:
        try:
            return layout.pack(int(text) if is_whole else float(text))
        except (ValueError, struct.error, OverflowError):
            kind = "whole number" if is_whole else "number"
            raise InvalidValue(f"found {text!r}, expected a {kind} of {layout.size} bytes") from None

    return encode


def compact_json(data: bytes) -> bytes:
    """Return JSON without white space around tokens, and with all its digits. Raises InvalidValue."""
    import msgspec

    try:
        msgspec.json.Decoder(float_hook=str).decode(data)  # a float would have to be in the range of a double
        return msgspec.json.format(data, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"found {shown(data)} ({error}), expected JSON") from None


def read_json(text: bytes) -> Any:
    """Parse JSON with exact numbers. Raises InvalidValue."""
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"found {shown(text)} ({error}), expected JSON") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def json_kind(value: Any) -> str:
    """Name the JSON type of a value and show it, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | Decimal():
            return f"the number {value}"
        case str():
            return f"the string {shown(value.encode(errors='replace'))}"
        case list():
            return "an array"
    return "an object"
