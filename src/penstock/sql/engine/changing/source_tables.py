"""CREATE SOURCE TABLE: the topic is its own changelog, so views read the topic and no query runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.sql.catalog import DataSource, Role
from penstock.sql.planning import Planned
from penstock.sql.planning.row_operators import Row, picker
from penstock.sql.planning.sources import UNREADABLE, lenient, serdes_of
from penstock.streams.app import App
from penstock.topology.serdes import Windowed

STORE: Final = "KsqlTopic-Materialize"


def source_table(source: DataSource, query_id: str, service_id: str, settings: Mapping[str, str]) -> Planned:
    """Build the application that describes the table's store to its views. It is never started."""
    keys, values = serdes_of(source, settings)
    app: App = App(f"_confluent-ksql-{service_id}query_{query_id}")
    app.table(source.topic, key=lenient(keys), value=lenient(values), store=STORE, logged=False)
    return Planned(app, STORE, _RowOf(source))


class _RowOf:
    """``(key, value) -> row`` of the source's columns in their order; None if a part can't be read.

    The store keeps no headers, so header columns are null.
    """

    def __init__(self, source: DataSource) -> None:
        read = [each.name for role in (Role.KEY, Role.VALUE) for each in source.columns if each.role is role]
        self._pick = picker(
            [len(read) if each.role is Role.HEADERS else read.index(each.name) for each in source.columns]
        )

    def __call__(self, key: Any, stored: Any) -> Row | None:
        if key is UNREADABLE or stored is UNREADABLE:
            return None
        return self._pick((*(key.key if type(key) is Windowed else key), *stored, None))
