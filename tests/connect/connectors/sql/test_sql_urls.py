"""Addresses of databases: JDBC's become SQLAlchemy's."""

import traceback

import pytest

pytest.importorskip("sqlalchemy")

from penstock.connect.connector.connector import parsed
from penstock.connect.connectors.sql.connecting import Database
from penstock.connect.connectors.sql.sink.definition import SinkSettings, definition
from penstock.connect.connectors.sql.urls import sqlalchemy_url
from penstock.connect.errors import ConfigInvalid


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://u:p@h:1/d", "postgresql+psycopg://u:p@h:1/d"),
        ("postgresql+psycopg2://h/d", "postgresql+psycopg2://h/d"),
        ("mysql://h/d", "mysql+pymysql://h/d"),
        ("jdbc:postgresql://h:5433/d?user=u&password=p%40", "postgresql+psycopg://u:p%40@h:5433/d"),
        ("jdbc:postgresql:d", "postgresql+psycopg://localhost/d"),
        ("jdbc:postgresql://h/d?sslmode=require&x=1", "postgresql+psycopg://h/d?sslmode=require"),
        ("jdbc:postgresql://h/d?currentSchema=a", "postgresql+psycopg://h/d?options=-csearch_path%3Da"),
        ("jdbc:postgresql://a,b:1/d", "postgresql+psycopg:///d?host=a%3A5432&host=b%3A1"),
        ("jdbc:postgresql://[::1]:5/d", "postgresql+psycopg://[::1]:5/d"),
        ("jdbc:mysql://h:1/d?connectTimeout=5000", "mysql+pymysql://h:1/d?connect_timeout=5"),
        ("jdbc:mariadb://h/d?user=u", "mariadb+pymysql://u@h/d"),
        ("jdbc:sqlite:/tmp/a.db", "sqlite:////tmp/a.db"),
        ("jdbc:duckdb:a.db", "duckdb:///a.db"),
        ("jdbc:postgresql://h/d?ssl=true", "postgresql+psycopg://h/d?sslmode=verify-full"),
        ("jdbc:postgresql://h/d?ssl=true&sslmode=require", "postgresql+psycopg://h/d?sslmode=require"),
        (
            "jdbc:postgresql://h/d?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory",
            "postgresql+psycopg://h/d?sslmode=require",
        ),
        ("jdbc:sqlserver://h:1;databaseName=d;user=u;encrypt=false", "mssql+pymssql://u@h:1/d"),
        ("jdbc:oracle:thin:@//h:1/s", "oracle+oracledb://h:1?service_name=s"),
        ("jdbc:oracle:thin:@h:1:x", "oracle+oracledb://h:1/x"),
    ],
)
def test_addresses_become_urls(address: str, expected: str) -> None:
    assert sqlalchemy_url(address, None, None).render_as_string(hide_password=False) == expected


def test_user_and_password_replace_those_in_the_address() -> None:
    url = sqlalchemy_url("jdbc:postgresql://h/d?user=u&password=p", "v", "q")
    assert (url.username, url.password) == ("v", "q")
    assert sqlalchemy_url("jdbc:sqlite:a", "v", "q").username is None


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("jdbc:informix://h", "jdbc:informix; expected one of these databases: duckdb, mariadb"),
        ("no address", "cannot be read"),
        ("jdbc:postgresql://h:port/d", "cannot be read"),
        ("jdbc:mysql://a,b/d", "several hosts"),
        ("jdbc:mysql://h/d?requireSSL=true", "the parameter requireSSL=true"),
        ("jdbc:sqlserver://h;encrypt=true", "the parameter encrypt=true"),
    ],
)
def test_other_addresses_are_refused(address: str, problem: str) -> None:
    with pytest.raises(ConfigInvalid, match=problem):
        sqlalchemy_url(address, None, None)


def test_no_error_and_no_message_shows_a_password() -> None:
    for address in ("postgresql://u:sesame", "postgresql://h:sesame/d", "jdbc:postgresql://h:sesame/d"):
        with pytest.raises(ConfigInvalid) as failed:
            sqlalchemy_url(address, None, None)
        assert "sesame" not in "".join(traceback.format_exception(failed.value))
    pytest.importorskip("psycopg")
    config = {"connection.url": "postgresql://u@h/d?password=sesame"}
    database = Database(SinkSettings.of(parsed(definition(), config)).database)
    assert database.shown == "postgresql+psycopg://u@h/d"
    database.close()
