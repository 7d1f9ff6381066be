"""The three formats of a stream of rows: an array of tagged objects (`/query`), lines, and an array.

Only the first format includes tombstones, as in ksqlDB. ksqlDB sends rows one by one, and some clients take
each received piece for one row, so the pieces of a format with ``is_sent_by_rows`` are not combined.
"""

from __future__ import annotations

import json
from typing import Final, Protocol

from penstock.sql.engine.ground.errors import EngineError
from penstock.sql.engine.reading.results import QueryResult, Row, Tombstone
from penstock.sql.server import media
from penstock.sql.server.row_json import metadata, row_writer, schema_text


class RowFormat(Protocol):
    """A format of a stream: its methods return the pieces of the body, in the order of writing."""

    media_type: str
    is_sent_by_rows: bool

    def begin(self) -> str: ...

    def row(self, row: Row) -> str:
        """The text of a row; empty if this format leaves it out."""

    def error(self, error: EngineError) -> str: ...

    def end(self) -> str: ...


class StreamedRows:
    """`[{"header": …},` `{"row": {"columns": […]}},` … `{"finalMessage": …}]`, one object per line.

    A push query ends with a message, so that each row's line is complete when it arrives. Other queries have
    no such message.
    """

    def __init__(self, result: QueryResult, media_type: str = media.KSQL_V1) -> None:
        self.media_type = media_type
        self._result = result
        self._row = row_writer(result.columns)
        self._before, self._after = ("", ",\n") if result.is_push else (",\n", "")
        self.is_sent_by_rows = result.is_push
        self._has_failed = False

    def begin(self) -> str:
        shown = schema_text(self._result.columns, with_keys=not self._result.is_push)
        header = {"header": {"queryId": self._result.query_id, "schema": shown}}
        return f"[{_json(header)}{self._after}"

    def row(self, row: Row) -> str:
        tombstone = ',"tombstone":true' if isinstance(row, Tombstone) else ""
        return f'{self._before}{{"row":{{"columns":{self._row(row)}{tombstone}}}}}{self._after}'

    def error(self, error: EngineError) -> str:
        self._has_failed = True
        return f"{self._before}{_json({'errorMessage': error.to_json()})}"

    def end(self) -> str:
        if self._has_failed or not self._result.is_push:
            return "]\n"
        message = "Limit Reached" if self._result.limit_reached else "Query Completed"
        return f"{_json({'finalMessage': message})}]\n"


class DelimitedRows:
    """One line each: the columns first, then the values of each row."""

    media_type = media.DELIMITED
    is_sent_by_rows = True

    def __init__(self, result: QueryResult) -> None:
        self._result = result
        self._row = row_writer(result.columns)

    def begin(self) -> str:
        return f"{metadata(self._result.query_id, self._result.columns)}\n"

    def row(self, row: Row) -> str:
        return "" if isinstance(row, Tombstone) else f"{self._row(row)}\n"

    def error(self, error: EngineError) -> str:
        return f"{_json(error.to_json())}\n"

    def end(self) -> str:
        return ""


class ArrayOfRows:
    """The elements of `DelimitedRows` in a single JSON array."""

    media_type = media.JSON
    is_sent_by_rows = False

    def __init__(self, result: QueryResult) -> None:
        self._result = result
        self._row = row_writer(result.columns)

    def begin(self) -> str:
        return f"[{metadata(self._result.query_id, self._result.columns)}"

    def row(self, row: Row) -> str:
        return "" if isinstance(row, Tombstone) else f",{self._row(row)}"

    def error(self, error: EngineError) -> str:
        return f",{_json(error.to_json())}"

    def end(self) -> str:
        return "]"


class PrintedLines:
    """The output of PRINT: each row is a line of text."""

    is_sent_by_rows = False

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type

    def begin(self) -> str:
        return ""

    def row(self, row: Row) -> str:
        return f"{row[0]}\n"

    def error(self, error: EngineError) -> str:
        return f"{_json(error.to_json())}\n"

    def end(self) -> str:
        return ""


QUERY_TYPES: Final = (media.KSQL_V1, media.JSON, media.DELIMITED)
"""The content types that `/query` offers, the default first."""
STREAM_TYPES: Final = (media.DELIMITED, media.JSON, media.KSQL_V1)
"""The content types that `/query-stream` offers, the default first."""


def query_format(result: QueryResult, media_type: str) -> RowFormat:
    """The format of an answer of `/query`."""
    return DelimitedRows(result) if media_type == media.DELIMITED else StreamedRows(result, media_type)


def stream_format(result: QueryResult, media_type: str) -> RowFormat:
    """The format of an answer of `/query-stream`."""
    match media_type:
        case media.KSQL_V1:
            return StreamedRows(result)
        case media.JSON:
            return ArrayOfRows(result)
    return DelimitedRows(result)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
