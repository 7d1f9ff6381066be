r"""The format strings of `penstock consume -f`: kcat's letters, and rpk's `%v` and `%V` for the value.

`%t` is the topic, `%p` the partition, `%o` the offset, `%T` the timestamp in milliseconds, `%k` the key, `%s`
or `%v` the value, `%K` and `%S` or `%V` their lengths in the log (-1: null), `%R` the value's length in four
bytes, `%h` the headers as `name=value,…`, and `%%` a percent sign. The escapes are `\n`, `\r`, `\t`, `\0`,
`\\` and `\xNN`. A key or value that is null prints nothing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final

from penstock.cli.records.record import Record

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_PIECE: Final = re.compile(r"[^%\\]+|%(?P<letter>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)", re.DOTALL)
_LETTERS: Final[dict[str, Callable[[Record], bytes]]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "k": lambda record: b"" if record.key is None else record.key.text,
    "s": lambda record: b"" if record.value is None else record.value.text,
    "K": lambda record: b"%d" % record.key_bytes,
    "S": lambda record: b"%d" % record.value_bytes,
    "R": lambda record: struct.pack(">i", record.value_bytes),
    "h": lambda record: b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers
    ),
    "%": lambda record: b"%",
}
_LETTERS["v"], _LETTERS["V"] = _LETTERS["s"], _LETTERS["S"]


class InvalidLayout(ValueError):
    """The format string is wrong; the message says where."""


class Layout:
    """A parsed format string. Raises InvalidLayout."""

    def __init__(self, text: str) -> None:
        self._pieces: list[bytes | Callable[[Record], bytes]] = []
        for found in _PIECE.finditer(text):
            place = f"found {found[0]!r} at character {found.start() + 1}"
            if (letter := found["letter"]) is not None:
                if letter not in _LETTERS:
                    raise InvalidLayout(f"{place}, expected % and one of {' '.join(sorted(_LETTERS))}")
                self._pieces.append(_LETTERS[letter])
            elif (digits := found["hex"]) is not None:
                self._pieces.append(bytes.fromhex(digits))
            elif (escape := found["escape"]) is not None:
                if escape not in _ESCAPES:
                    raise InvalidLayout(f"{place}, expected \\ and one of {' '.join(_ESCAPES)} xNN")
                self._pieces.append(_ESCAPES[escape])
            else:
                self._pieces.append(found[0].encode())

    def format(self, record: Record) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in self._pieces)
