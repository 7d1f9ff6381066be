"""The interface of all codecs between the bytes of a key or value and its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

SHOWN_BYTES_MAX: Final = 40
"""An error shows at most this many bytes of a value, so that it stays one readable line."""


class Decoded(NamedTuple):
    """A key or value as the text of a line and as JSON; bytes of an unknown format have no JSON."""

    text: bytes
    json: bytes | None


class InvalidValue(ValueError):
    """Bytes or a text that a format cannot represent; the message says what was found and expected."""


class Encoder(Protocol):
    """Encodes the texts and JSON values of one format. Both methods raise InvalidValue."""

    def of_text(self, text: bytes) -> bytes:
        """Encode a text as `Decoded.text` has it."""

    def of_json(self, value: Any) -> bytes:
        """Encode a JSON value as `Decoded.json` has it, with decimals instead of floats."""


Decode = Callable[[bytes], Decoded]
"""Decodes bytes; raises InvalidValue."""


def shown(data: bytes) -> str:
    """Show bytes in an error message: as text if they are text, else in hexadecimal digits."""
    more = "…" if len(data) > SHOWN_BYTES_MAX else ""
    found = data.decode(errors="replace")
    if all(each.isprintable() or each in "\t\r\n" for each in found) and "\ufffd" not in found:
        return f"{found[:SHOWN_BYTES_MAX]!r}{more}"
    return f"{len(data)} bytes {data[:SHOWN_BYTES_MAX].hex(' ')}{more}"
