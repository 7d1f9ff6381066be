"""Functions between strings and bytes: TO_BYTES, FROM_BYTES, ENCODE and the functions of numbers in bytes."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.language.utf8 import utf8

_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_URL_SAFE: Final = str.maketrans("-_", "+/")


def to_bytes(text: str, encoding: str) -> bytes:
    match encoding.lower():
        case "hex":
            return _of_hex(text)
        case "utf8":
            return utf8(text)
        case "ascii":
            return text.encode("ascii", errors="replace")
        case "base64":
            if _BASE64.fullmatch(text) is None:
                raise ValueError(f"found {text!r}, expected base64")
            return base64.b64decode(_padded(text.rstrip("=")))
    raise ValueError(f"found the encoding {encoding}, expected hex, utf8, ascii or base64")


def from_bytes(data: bytes, encoding: str) -> str:
    match encoding.lower():
        case "hex":
            return data.hex().upper()
        case "utf8":
            return data.decode(errors="replace")
        case "ascii":
            return data.decode("ascii", errors="replace")
        case "base64":
            return base64.b64encode(data).decode()
    raise ValueError(f"found the encoding {encoding}, expected hex, utf8, ascii or base64")


def _of_hex(digits: str) -> bytes:
    if re.fullmatch("([0-9A-Fa-f]{2})*", digits) is None:
        raise ValueError(f"found {digits!r}, expected an even number of hexadecimal digits")
    return bytes.fromhex(digits)


def _padded(digits: str) -> str:
    return digits + "=" * (-len(digits) % 4)


def _encode(text: str, source: str, target: str) -> str:
    """ENCODE. Hex input may have the form 0x… (where a leading zero may be missing) or X'…'.

    Base64 ends at the first padding character. Characters that are invalid in base64 are ignored.
    """
    source, target = source.lower(), target.lower()
    if source == target:
        raise ValueError(f"found {source} twice, expected two encodings")
    if source == "hex" and text.startswith("0x"):
        text = text[2:] if len(text) % 2 == 0 else f"0{text[2:]}"
    elif source == "hex" and re.fullmatch("[Xx]'.*'", text):
        text = text[2:-1]
    elif source == "base64":
        text = re.sub("[^A-Za-z0-9+/]", "", text.partition("=")[0].translate(_URL_SAFE))
        text = text[:-1] if len(text) % 4 == 1 else text
    made = from_bytes(to_bytes(text, source), target)
    return made.lower() if target == "hex" else made


def _number_from_bytes(kind: str, size: int, name: str) -> Callable[..., Any]:
    def read(data: bytes | None, order: str | None = "BIG_ENDIAN") -> Any:
        mark = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}.get((order or "").upper())
        if mark is None:
            raise ValueError(f"found the order {order or 'NULL'}, expected BIG_ENDIAN or LITTLE_ENDIAN")
        if data is None:
            return None
        if len(data) != size:
            raise ValueError(f"found {len(data)} bytes, expected the {size} of {name}")
        return struct.unpack(f"{mark}{kind}", data)[0]

    return read


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ENCODE": strict(_encode),
    "FROM_BYTES": strict(from_bytes),
    "TO_BYTES": strict(to_bytes),
    "BIGINT_FROM_BYTES": _number_from_bytes("q", 8, "a BIGINT"),
    "DOUBLE_FROM_BYTES": _number_from_bytes("d", 8, "a DOUBLE"),
    "INT_FROM_BYTES": _number_from_bytes("i", 4, "an INTEGER"),
}
