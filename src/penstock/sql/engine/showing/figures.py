"""The figures of a service that its metrics show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.sql.engine.running.host import QueryStatus
from penstock.sql.engine.running.topic_statistics import Moved


class Figures(NamedTuple):
    """The figures of one moment. Counts begin when this server first saw a query."""

    states: Mapping[str, QueryStatus]
    """The state of each persistent query, by its id."""
    failures: Mapping[str, int]
    """The failures of persistent queries, by id."""
    records: Mapping[Moved, int]
    """Records that persistent queries have read and written."""
    push_queries: int
    """Push queries that run now."""
    inserted_rows: int
    """Rows that INSERT VALUES and `/inserts-stream` have written."""
