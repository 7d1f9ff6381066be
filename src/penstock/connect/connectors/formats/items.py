"""The results of readers of files: a record or a bad one, and the position after it."""

from __future__ import annotations

from typing import IO, Any, NamedTuple, Protocol, TypeAlias

from penstock.connect.data.schema import Schema
from penstock.connect.errors import DataError

Stream: TypeAlias = IO[bytes]


class Item(NamedTuple):
    """One record of a file; `raw` are the bytes of one that cannot be read, and `error` says why."""

    position: int
    """Where the next record begins."""
    value: Any
    schema: Schema | None
    error: DataError | None = None
    raw: bytes = b""


class RecordReader(Protocol):
    """Reads the records of one file, from its first or from the one at a position."""

    def read(self, limit: int, *, is_complete: bool) -> list[Item]:
        """Return the next records, at most `limit`, and none at the end of the file.

        Unless the file `is_complete`, more may be added to it, and its last line may lack its end.

        Raises:
            DataError: the rest of the file cannot be read.
            OSError: the file cannot be read now.
        """
        ...
