"""`penstock cdc mirror` and `penstock demo cdc` refuse what cannot work, before they start anything."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from penstock.cli.main import build_app

pytest.importorskip("psycopg")
pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

URL = "postgres://me@127.0.0.1:1/shop"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["mysql://h/d", "--to", "delta:/x", "--tables", "a.*"], 2, "not given as postgres://"),
        ([URL, "--to", "parquet:/x", "--tables", "a.*"], 2, "expected delta:PATH or iceberg:CATALOG"),
        ([URL, "--to", "delta:/x", "--tables", "orders"], 2, "is not SCHEMA.TABLE"),
        ([URL, "--to", "delta:/x", "--tables", "a.*", "--keys", "a.b"], 2, "SCHEMA.TABLE=COLUMN"),
        ([URL, "--to", "delta:/x", "--tables", "a.*", "--name", "My Shop"], 2, "--name My Shop"),
        ([URL, "--to", "delta:/x", "--tables", "a.*"], 1, "no session with the database at 127.0.0.1:1/shop"),
        ([URL, "--to", "delta:/x"], 2, "--tables"),
    ],
)
def test_a_mirror_that_cannot_start(words: list[str], code: int, complaint: str) -> None:
    found = CliRunner(env={"COLUMNS": "300"}).invoke(build_app("cdc"), ["cdc", "mirror", *words])
    assert found.exit_code == code, found.output
    assert complaint in found.output


def test_the_demo_of_flights_has_the_other_demo_beside_it() -> None:
    found = CliRunner().invoke(build_app("demo"), ["demo", "cdc", "--help"])
    assert found.exit_code == 0
    assert "PostgreSQL" in found.output
