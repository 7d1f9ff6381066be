"""Reads a server's kind, its settings, and where its binary log ends and begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.connect.cdc.mysql.gtids import MariaGtids, MySqlGtids
from penstock.connect.cdc.mysql.positions import ResumePoint
from penstock.connect.errors import ConfigInvalid

if TYPE_CHECKING:
    import pymysql

_NEEDED: Final = {
    "log_bin": ("ON", "1"),
    "binlog_format": ("ROW",),
    "binlog_row_image": ("FULL",),
    "binlog_row_metadata": ("FULL",),
}
"""Settings that the server must have; the first value of each is what users set."""


class ServerState(NamedTuple):
    """A server's kind, and the end of its binary log."""

    is_maria: bool
    file: str
    position: int
    gtids: str | None

    @property
    def end(self) -> ResumePoint:
        """The place after all transactions."""
        return ResumePoint(self.file, self.position, self.gtids)


def read_state(connection: pymysql.Connection[Any]) -> ServerState:
    """Read them, and check the settings. Raises ConfigInvalid if a setting does not fit."""
    variables = {
        str(name): str(value)
        for name, value in rows(
            connection, "show global variables where variable_name regexp 'bin|gtid|version'"
        )
    }
    for name, allowed in _NEEDED.items():
        if variables.get(name, "").upper() not in allowed:
            raise ConfigInvalid(
                f"the server's {name} is {variables.get(name, 'not known')}; expected {allowed[0]}, "
                f"set {name}={allowed[0]} on the server"
            )
    is_maria = "gtid_domain_id" in variables
    file, position, *more = log_status(connection)
    gtids = _gtids(connection, is_maria, variables, file, position, more)
    return ServerState(is_maria, file, position, gtids)


def _gtids(
    connection: pymysql.Connection[Any],
    is_maria: bool,
    variables: dict[str, str],
    file: str,
    position: int,
    more: list[Any],
) -> str | None:
    """The transactions up to a position; None if the server has no GTIDs."""
    if is_maria:
        found = rows(connection, "select binlog_gtid_pos(%s, %s)", (file, position))
        return None if found[0][0] is None else str(found[0][0])
    if variables.get("gtid_mode", "OFF").upper() != "ON":
        return None
    return str(more[2]).replace("\n", "") if len(more) > 2 else ""


def log_status(connection: pymysql.Connection[Any]) -> list[Any]:
    """The server's present file and position, and what else it says."""
    import pymysql

    try:
        found = rows(connection, "show master status")
    except pymysql.err.ProgrammingError:  # MySQL 8.4 has only the new name
        found = rows(connection, "show binary log status")
    if not found:
        raise ConfigInvalid("the server has no binary log; set log_bin on the server")
    file, position, *more = found[0]
    return [str(file), int(position), *more]


def lost_reason(connection: pymysql.Connection[Any], state: ServerState, place: ResumePoint) -> str | None:
    """Return why changes after a place are not in the server's log any more; None if they are there."""
    if place.gtids:
        known = (MariaGtids if state.is_maria else MySqlGtids)(state.gtids or "")
        if not known.contains(place.gtids):
            return f"the server lacks the transactions {place.gtids} of the stored offset"
        if not state.is_maria:
            purged = str(rows(connection, "select @@global.gtid_purged")[0][0])
            if not MySqlGtids(place.gtids).contains(purged):
                return f"the server has discarded the transactions {purged}"
            return None
        if _is_in_log(connection, place.gtids):
            return None
    files = {str(row[0]) for row in rows(connection, "show binary logs")}
    if place.file not in files:
        return f"the server has discarded the file {place.file} of its binary log"
    return None


def _is_in_log(connection: pymysql.Connection[Any], gtids: str) -> bool:
    """Whether MariaDB's oldest file begins at or before a set of transactions."""
    first = rows(connection, "show binary logs")[0][0]
    found = rows(connection, "select binlog_gtid_pos(%s, 4)", (first,))
    return MariaGtids(gtids).contains(str(found[0][0] or ""))


def rows(
    connection: pymysql.Connection[Any], query: str, values: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query, values or None)
        return list(cursor.fetchall())
