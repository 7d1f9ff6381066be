"""Errors in messages, with the field and the position at which they occurred."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocol.source import FieldEnd


class MalformedMessage(ValueError):
    """The bytes are not a valid message; the error names message, version, field and position."""

    def __init__(self, message: str, version: int, field: str, position: int, what: str) -> None:
        super().__init__(f"{message} v{version}: {field or 'message'} at byte {position} {what}")
        self.message = message
        self.version = version
        self.field = field
        self.position = position


class UnencodableMessage(ValueError):
    """The values of a message have no encoding: null where it is not allowed, or a number out of range."""


class UnsupportedVersion(ValueError):
    """The definition does not have this version."""


class Malformation(Exception):
    """An error in a compiled decoder, which knows no message or field; it becomes a MalformedMessage."""


def malformed(
    message: str,
    version: int,
    fields: Sequence[tuple[FieldEnd, ...]],
    position: int,
    end: int,
    error: Exception,
) -> MalformedMessage:
    """Create the error with the field that a compiled decoder was reading when it raised ``error``."""
    candidates = fields[_line_number(error) - 1]
    cut = next((f.field for f in candidates if position + f.end > end), candidates[-1].field)
    if isinstance(error, Malformation):
        what = str(error)
    elif isinstance(error, UnicodeDecodeError):
        what = "is not UTF-8"
    else:
        what = f"is cut off: {end - position} bytes remain"
    return MalformedMessage(message, version, cut, position, what)


def unencodable(
    message: str, version: int, fields: Sequence[tuple[FieldEnd, ...]], error: Exception
) -> UnencodableMessage:
    """Create the error with the fields that a compiled encoder was writing when it raised ``error``."""
    names = ", ".join(f.field for f in fields[_line_number(error) - 1])
    return UnencodableMessage(f"{message} v{version}: {names or 'message'}: {error}")


def _line_number(error: Exception) -> int:
    traceback = error.__traceback__
    return traceback.tb_lineno if traceback is not None else 1
