"""Makes the publication that the slot sends, by ``publication.autocreate.mode``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql

from penstock.connect.errors import ConfigInvalid

log = logging.getLogger(__name__)

_OPERATIONS: Final = {"c": "insert", "u": "update", "d": "delete", "t": "truncate"}


def publishes_by_root(connection: psycopg.Connection[Any], name: str, properties: Mapping[str, str]) -> bool:
    """Whether changes of partitions have the name of the partitioned table."""
    row = connection.execute("select pubviaroot from pg_publication where pubname = %s", [name]).fetchone()
    return bool(row[0]) if row is not None else _by_root(properties)


def ensure_publication(
    connection: psycopg.Connection[Any],
    name: str,
    properties: Mapping[str, str],
    tables: Sequence[tuple[str, str]],
) -> None:
    """Create the publication if there is none; with the mode `filtered`, also keep its tables in step.

    ``tables`` are the captured ones, as schema and name.

    Raises:
        ConfigInvalid: the publication is missing and may not be made, or cannot have these tables.
        psycopg.Error: the server refused.
    """
    mode = properties.get("publication.autocreate.mode", "all_tables").lower()
    row = connection.execute("select puballtables from pg_publication where pubname = %s", [name]).fetchone()
    if row is None:
        _create(connection, name, mode, properties, tables)
    elif mode == "filtered":
        if row[0]:
            raise ConfigInvalid(
                f"the publication {name} is for all tables, so publication.autocreate.mode=filtered cannot "
                "change it; expected the mode all_tables, or another publication.name"
            )
        _update(connection, name, tables)


def _create(
    connection: psycopg.Connection[Any],
    name: str,
    mode: str,
    properties: Mapping[str, str],
    tables: Sequence[tuple[str, str]],
) -> None:
    if mode == "disabled":
        raise ConfigInvalid(
            f"publication.name is {name}, which does not exist, and publication.autocreate.mode=disabled "
            "forbids to create it"
        )
    contents = {
        "all_tables": sql.SQL("for all tables"),
        "no_tables": sql.SQL(""),
        "filtered": sql.SQL("for table {}").format(_listed(name, tables)) if mode == "filtered" else None,
    }.get(mode)
    if contents is None:
        raise ConfigInvalid(
            f"publication.autocreate.mode is {mode}; expected all_tables, filtered, no_tables or disabled"
        )
    connection.execute(
        sql.SQL("create publication {} {} {}").format(sql.Identifier(name), contents, _options(properties))
    )
    log.info("publication created name=%s mode=%s tables=%s", name, mode, len(tables))


def _update(connection: psycopg.Connection[Any], name: str, tables: Sequence[tuple[str, str]]) -> None:
    query = """
        select n.nspname::text, c.relname::text from pg_publication_rel r
        join pg_publication p on p.oid = r.prpubid join pg_class c on c.oid = r.prrelid
        join pg_namespace n on n.oid = c.relnamespace where p.pubname = %s"""
    known = {tuple(row) for row in connection.execute(query, [name])}
    if known != set(tables):
        command = sql.SQL("alter publication {} set table {}")
        connection.execute(command.format(sql.Identifier(name), _listed(name, tables)))
        log.info("publication altered name=%s tables=%s", name, len(tables))


def _listed(name: str, tables: Sequence[tuple[str, str]]) -> sql.Composable:
    if not tables:
        raise ConfigInvalid(
            f"the publication {name} would have no tables: the filters match none; "
            "expected other filters, or publication.autocreate.mode=no_tables"
        )
    return sql.SQL(", ").join(sql.Identifier(*table) for table in tables)


def _options(properties: Mapping[str, str]) -> sql.Composable:
    options = []
    if _by_root(properties):
        options.append(sql.SQL("publish_via_partition_root = true"))
    skipped = properties.get("skipped.operations", "none").replace(" ", "").split(",")
    if skipped != ["none"]:
        kept = ", ".join(word for letter, word in _OPERATIONS.items() if letter not in skipped)
        options.append(sql.SQL("publish = {}").format(sql.Literal(kept)))
    return sql.SQL("with ({})").format(sql.SQL(", ").join(options)) if options else sql.SQL("")


def _by_root(properties: Mapping[str, str]) -> bool:
    return properties.get("publish.via.partition.root", "false").lower() == "true"
