"""Addresses of databases: SQLAlchemy's URLs, and those of JDBC that users of Kafka Connect have.

Parameters of JDBC drivers that have no counterpart are left out, with a warning.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

from penstock.connect.errors import ConfigInvalid

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

log = logging.getLogger(__name__)

JDBC: Final = "jdbc:"
DRIVERS: Final = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "sqlserver": "mssql+pymssql",
    "mssql": "mssql+pymssql",
    "oracle": "oracle+oracledb",
    "sqlite": "sqlite",
    "duckdb": "duckdb",
}
"""SQLAlchemy's dialect and driver for the first part of an address."""
FILES: Final = frozenset({"sqlite", "duckdb"})
ORACLE: Final = "oracle:thin:@"
POSTGRES_NAMES: Final = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "targetServerType": "target_session_attrs",
}
"""libpq's names for parameters of PostgreSQL's JDBC driver."""
SESSION_ATTRIBUTES: Final = {
    "master": "read-write",
    "primary": "read-write",
    "preferPrimary": "any",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
    "any": "any",
}


def sqlalchemy_url(address: str, user: str | None, password: str | None) -> URL:
    """Return the URL for SQLAlchemy; user and password replace those in the address.

    Raises:
        ConfigInvalid: the address cannot be read, or its database is not known.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        if address.startswith(JDBC):
            url = _of_jdbc(address.removeprefix(JDBC))
        else:
            url = make_url(address)
            if url.drivername in DRIVERS:
                url = url.set(drivername=DRIVERS[url.drivername])
    except ConfigInvalid:
        raise
    except (ArgumentError, ValueError):
        # Without the cause: it shows the address, which may have a password.
        raise ConfigInvalid(
            "connection.url cannot be read; expected a URL of SQLAlchemy's such as"
            " postgresql://host/database, or one that begins with jdbc:"
        ) from None
    if url.get_backend_name() in FILES:
        return url
    if user is not None:
        url = url.set(username=user)
    return url if password is None else url.set(password=password)


def _of_jdbc(address: str) -> URL:
    from sqlalchemy.engine import URL

    system, _, rest = address.partition(":")
    if system not in DRIVERS or system in ("postgres", "mssql"):
        known = ", ".join(sorted(DRIVERS.keys() - {"postgres", "mssql"}))
        raise ConfigInvalid(f"connection.url is for {JDBC}{system}; expected one of these databases: {known}")
    driver = DRIVERS[system]
    if system in FILES:
        path, _, _ = rest.removeprefix("file:").partition("?")
        return URL.create(driver, database=path or ":memory:")
    if system == "oracle":
        return _oracle(address)
    if system == "sqlserver":
        return _sql_server(rest)
    place, _, query = rest.removeprefix("//").partition("?")
    hosts, _, database = place.partition("/")
    if not rest.startswith("//"):
        hosts, database = "localhost", place
    given = dict(parse_qsl(query, keep_blank_values=True))
    user, password = given.pop("user", None), given.pop("password", None)
    parameters = _postgres(given) if system == "postgresql" else _mysql(given)
    first, *others = [_host_and_port(each) for each in hosts.split(",")]
    if others:
        if system != "postgresql":
            raise ConfigInvalid(f"connection.url names several hosts, which {system} does not support here")
        parameters["host"] = tuple(f"{host}:{port or 5432}" for host, port in (first, *others))
        first = ("", None)
    return URL.create(
        driver, user, password, first[0] or None, first[1], unquote(database) or None, parameters
    )


def _host_and_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, int(port.removeprefix(":")) if port else None
    host, _, port = text.partition(":")
    return host, int(port) if port else None


def _postgres(given: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if schemas := given.pop("currentSchema", None):
        found["options"] = f"-csearch_path={schemas}"
    factory = given.pop("sslfactory", "")
    for name, value in given.items():
        if name == "ssl":
            # As in JDBC's driver, the server's certificate and name are checked.
            checked = "require" if factory.endswith("NonValidatingFactory") else "verify-full"
            found.setdefault("sslmode", checked if value != "false" else "disable")
        elif name == "targetServerType":
            found[POSTGRES_NAMES[name]] = SESSION_ATTRIBUTES.get(value, value)
        elif name in POSTGRES_NAMES:
            found[POSTGRES_NAMES[name]] = value
        else:
            _ignored(name)
    return found


def _mysql(given: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name == "connectTimeout":
            found["connect_timeout"] = str(max(int(value) // 1000, 1))
        elif name in ("useSSL", "useSsl") and value == "true":
            found["ssl_check_hostname"] = "false"
        elif name in ("requireSSL", "verifyServerCertificate") and value != "false":
            raise ConfigInvalid(
                f"connection.url has the parameter {name}={value}; SQLAlchemy's URL takes ssl_ca, ssl_cert,"
                " ssl_key"
            )
        elif name in ("sslMode", "serverSslCert"):
            raise ConfigInvalid(
                f"connection.url has the parameter {name}; SQLAlchemy's URL takes ssl_ca, ssl_cert, ssl_key"
            )
        else:
            _ignored(name)
    return found


def _sql_server(rest: str) -> URL:
    from sqlalchemy.engine import URL

    place, *pairs = rest.removeprefix("//").split(";")
    given = {name.lower(): value for name, _, value in (pair.partition("=") for pair in pairs if pair)}
    host, port = _host_and_port(place)
    user, password = given.pop("user", None), given.pop("password", None)
    database = given.pop("databasename", None) or given.pop("database", None)
    encrypts = given.pop("encrypt", "false")
    if encrypts.lower() not in ("false", "optional"):
        raise ConfigInvalid(
            f"connection.url has the parameter encrypt={encrypts}, which JDBC's form does not support here;"
            " give a URL of SQLAlchemy's"
        )
    for name in given:
        _ignored(name)
    return URL.create(DRIVERS["sqlserver"], user, password, host or "localhost", port, database)


def _oracle(address: str) -> URL:
    from sqlalchemy.engine import URL

    if not address.startswith(ORACLE):
        raise ConfigInvalid("connection.url is for Oracle; expected jdbc:oracle:thin:@//host:port/service")
    place = address.removeprefix(ORACLE)
    if place.startswith("//"):
        where, _, service = place.removeprefix("//").partition("/")
        host, port = _host_and_port(where)
        return URL.create(DRIVERS["oracle"], None, None, host, port, None, {"service_name": service})
    where, _, sid = place.rpartition(":")
    host, port = _host_and_port(where)
    return URL.create(DRIVERS["oracle"], None, None, host, port, sid)


def _ignored(name: str) -> None:
    log.warning("a parameter of connection.url has no effect here parameter=%s", name)
