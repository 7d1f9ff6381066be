"""A PostgreSQL database as the source of a mirror: what it must allow, its publication, marks in its log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from penstock.extras import needs_extra
from penstock.mirroring.errors import MirrorError
from penstock.mirroring.selection import MARKS, Selection

_CONNECT_TIMEOUT_S: Final = 10
_ALIVE: Final = {
    "tcp_user_timeout": "30000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
}
"""libpq's settings with which a session fails after about 30 s if the server's machine has gone."""
_PORT: Final = "5432"
_SSL: Final = ("sslmode", "sslcert", "sslkey", "sslrootcert")
_KNOWN: Final = frozenset({"host", "port", "user", "password", "sslpassword", "dbname", *_SSL})
_VERSION_MIN: Final = 14
_VERSION_WITH_SCHEMAS: Final = 15
"""Since then, a publication can have all tables of a schema, those that are created later too."""
_TABLES_SHOWN_MAX: Final = 8

_TABLES: Final = """
select n.nspname::text, c.relname::text, c.relkind = 'p',
       exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary),
       c.relreplident = 'f' or (c.relreplident in ('d', 'i') and exists (select from pg_index i
           where i.indrelid = c.oid and case c.relreplident when 'd' then i.indisprimary and i.indimmediate
                                                            else i.indisreplident end)),
       has_table_privilege(c.oid, 'SELECT'), c.oid::int8
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and not c.relispartition
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_toast'
order by 1, 2"""
_RIGHTS: Final = """
select r.rolsuper, r.rolsuper or r.rolreplication or exists (
           select from pg_roles g where g.rolname in ('rds_replication', 'cloudsqlreplica')
           and pg_has_role(current_user, g.oid, 'member'))
from pg_roles r where r.rolname = current_user"""
_PUBLISHED_SCHEMAS: Final = """
select s.nspname::text from pg_publication_namespace n join pg_publication p on p.oid = n.pnpubid
join pg_namespace s on s.oid = n.pnnspid where p.pubname = %s"""
_SLOT_LAG: Final = """
select pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8
from pg_replication_slots where slot_name = %s"""


class Table(NamedTuple):
    """A table, partitions left out; `takes_updates` is false if PostgreSQL refuses them in a publication."""

    schema: str
    name: str
    is_partitioned: bool
    has_primary_key: bool
    takes_updates: bool
    is_readable: bool
    oid: int

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Database:
    """The address of a database, and what a login needs."""

    parameters: Mapping[str, str] = field(repr=False)

    @staticmethod
    def of(url: str) -> Database:
        """Read ``postgres://USER:PASSWORD@HOST/DATABASE?sslmode=…``. Raises MirrorError, MissingExtra."""
        with needs_extra("cdc", "a mirror of PostgreSQL"):
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        if not url.startswith(("postgres://", "postgresql://")):
            raise MirrorError("the database is not given as postgres://USER@HOST:PORT/DATABASE")
        try:
            found = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        except psycopg.ProgrammingError:
            # The reason is not shown: libpq's quotes parts of the URL, such as the password.
            raise MirrorError(
                "the database's URL is not valid: expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, "
                "special characters as %XX, and libpq's parameters"
            ) from None
        unknown = sorted(found.keys() - _KNOWN)
        if unknown:
            raise MirrorError(f"the database's URL has {unknown}: expected parameters among {sorted(_KNOWN)}")
        if not found.get("dbname"):
            raise MirrorError("the database's URL names no database: expected postgres://HOST:PORT/DATABASE")
        return Database({"host": "127.0.0.1", "port": _PORT, **found})

    @property
    def name(self) -> str:
        return self.parameters["dbname"]

    def __str__(self) -> str:
        return "{host}:{port}/{dbname}".format(**self.parameters)

    def connector_properties(self) -> dict[str, str]:
        """The connector's address of the database, without passwords."""
        properties = {
            "database.hostname": self.parameters["host"],
            "database.port": self.parameters["port"],
            "database.user": self.parameters.get("user", ""),
            "database.dbname": self.name,
        }
        given = {f"database.{name}": self.parameters[name] for name in _SSL if name in self.parameters}
        return properties | given

    @contextmanager
    def session(self) -> Iterator[Any]:
        """Open a session that commits each statement. Raises MirrorError if it does not open, or breaks."""
        import psycopg

        parameters = {"connect_timeout": str(_CONNECT_TIMEOUT_S), **_ALIVE, **self.parameters}
        try:
            connection = psycopg.connect(autocommit=True, application_name="penstock mirror", **parameters)
        except psycopg.OperationalError as error:
            reason = " ".join(str(error).split())
            raise MirrorError(f"no session with the database at {self}: {reason}") from error
        try:
            with connection:
                yield connection
        except psycopg.OperationalError as error:
            reason = " ".join(str(error).split())
            raise MirrorError(f"the session with the database at {self} has failed: {reason}") from error

    def check(self, selection: Selection) -> list[Table]:
        """Return the tables to mirror. Raises MirrorError if the server, the user or the tables don't fit."""
        with self.session() as session:
            _check_server(session, str(self))
            return _checked_tables(session, selection)

    def ensure_publication(self, name: str, tables: Sequence[Table]) -> str | None:
        """Make the publication if there is none, for the tables' schemas if that is possible.

        Returns a warning if tables that are created later will not be in it. Raises MirrorError.
        """
        with self.session() as session:
            return _ensure_publication(session, name, tables)

    def publishes_later_tables(self, publication: str, schemas: Sequence[str]) -> dict[str, bool]:
        """Return of each schema whether a publication has the tables that are created in it later."""
        with self.session() as session:
            return _publishes_later_tables(session, publication, schemas)

    def with_rows(self, tables: Sequence[Table]) -> list[Table]:
        """Return the tables that have rows. Raises MirrorError."""
        from psycopg import sql

        query = sql.SQL("select exists (select from {})")
        with self.session() as session:
            return [
                each
                for each in tables
                if session.execute(query.format(sql.Identifier(each.schema, each.name))).fetchone()[0]
            ]

    def mark(self, token: str) -> None:
        """Write a mark into the database's log, which is captured after all that was committed before."""
        with self.session() as session:
            session.execute("select pg_logical_emit_message(true, %s, %s)", [MARKS, token])

    def slot_lag_bytes(self, slot: str) -> int | None:
        """Return how much of the log the slot holds back; None if there is no slot."""
        with self.session() as session:
            row = session.execute(_SLOT_LAG, [slot]).fetchone()
        return None if row is None else row[0]


def _check_server(session: Any, place: str) -> None:
    version = session.info.server_version // 10_000
    if version < _VERSION_MIN:
        raise MirrorError(f"the server at {place} is PostgreSQL {version}: expected {_VERSION_MIN} or later")
    level = session.execute("show wal_level").fetchone()[0]
    if level != "logical":
        raise MirrorError(
            f"the server at {place} has wal_level={level}: expected logical. Run "
            "ALTER SYSTEM SET wal_level = 'logical' and restart the server"
        )
    user = session.info.user
    if not session.execute(_RIGHTS).fetchone()[1]:
        raise MirrorError(
            f"the user {user} may not replicate: run ALTER ROLE {user} WITH REPLICATION as a superuser"
        )


def _checked_tables(session: Any, selection: Selection) -> list[Table]:
    present = [Table(*row) for row in session.execute(_TABLES)]
    found = [each for each in present if selection.has(each.schema, each.name)]
    if not found:
        raise MirrorError(
            f"no table matches {', '.join(selection.included)}: the database has {listed(present) or 'none'}"
        )
    unreadable = [each for each in found if not each.is_readable]
    if unreadable:
        raise MirrorError(
            f"the user {session.info.user} may not read {listed(unreadable)}: grant SELECT on them"
        )
    without = [each for each in found if not each.has_primary_key and each.full_name not in selection.keys]
    if without:
        first = without[0].full_name
        raise MirrorError(
            f"without primary key: {listed(without)}. Name the columns that identify a row, "
            f"--keys {first}=COLUMN,…, or leave the table out, --exclude {first}"
        )
    return found


def _ensure_publication(session: Any, name: str, tables: Sequence[Table]) -> str | None:
    from psycopg import errors, sql

    if session.execute("select from pg_publication where pubname = %s", [name]).fetchone() is not None:
        query = "select schemaname || '.' || tablename from pg_publication_tables where pubname = %s"
        published = {row[0] for row in session.execute(query, [name])}
        partitioned = {each.full_name for each in tables if each.is_partitioned}
        missing = sorted({each.full_name for each in tables} - published - partitioned)
        if missing:
            raise MirrorError(
                f"the publication {name} lacks {', '.join(missing)}: add them while they have no rows, or "
                "leave them out by --exclude"
            )
        return None
    schemas = sorted({each.schema for each in tables})
    is_superuser = session.execute(_RIGHTS).fetchone()[0]
    has_schemas = session.info.server_version // 10_000 >= _VERSION_WITH_SCHEMAS
    if is_superuser and has_schemas:
        _require_updates([Table(*row) for row in session.execute(_TABLES)], schemas)
        contents = sql.SQL("tables in schema {}").format(sql.SQL(", ").join(map(sql.Identifier, schemas)))
    else:
        _require_updates(tables, schemas)
        listed = (sql.Identifier(each.schema, each.name) for each in tables)
        contents = sql.SQL("table {}").format(sql.SQL(", ").join(listed))
    statement = sql.SQL("create publication {} for {} with (publish_via_partition_root = true)")
    try:
        session.execute(statement.format(sql.Identifier(name), contents))
    except errors.InsufficientPrivilege as error:
        raise MirrorError(
            f"the user {session.info.user} may not make the publication {name} "
            f"({error.diag.message_primary}). Let a superuser run CREATE PUBLICATION {name} "
            f"FOR TABLES IN SCHEMA {', '.join(schemas)} WITH (publish_via_partition_root = true)"
        ) from error
    if is_superuser and has_schemas:
        return None
    return (
        f"the publication {name} has the tables of now. A table that is created later is not mirrored; with "
        "PostgreSQL 15 or later, a superuser can make a publication FOR TABLES IN SCHEMA instead"
    )


def _publishes_later_tables(session: Any, publication: str, schemas: Sequence[str]) -> dict[str, bool]:
    query = "select puballtables from pg_publication where pubname = %s"
    row = session.execute(query, [publication]).fetchone()
    if row is None or row[0]:
        return dict.fromkeys(schemas, row is not None)
    if session.info.server_version // 10_000 < _VERSION_WITH_SCHEMAS:
        return dict.fromkeys(schemas, False)
    found = {name for (name,) in session.execute(_PUBLISHED_SCHEMAS, [publication])}
    return {schema: schema in found for schema in schemas}


def _require_updates(tables: Sequence[Table], schemas: Sequence[str]) -> None:
    """Raise MirrorError if the publication would make the server refuse updates of a table."""
    refused = [each for each in tables if each.schema in schemas and not each.takes_updates]
    if refused:
        raise MirrorError(
            f"in a publication, PostgreSQL would refuse updates and deletes of {listed(refused)}, without "
            "primary key: give them one, run ALTER TABLE … REPLICA IDENTITY FULL, or make the publication "
            "yourself and name it by --publication"
        )


def listed(tables: Sequence[Table]) -> str:
    shown = ", ".join(each.full_name for each in tables[:_TABLES_SHOWN_MAX])
    return f"{shown}, …" if len(tables) > _TABLES_SHOWN_MAX else shown
