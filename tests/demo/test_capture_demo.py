"""`penstock demo cdc` with all of its kills: every copy equals the database."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from penstock.demo.capture.postgres import PostgresMissing, find_programs

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


def test_all_copies_equal_the_database() -> None:
    for package in ("psycopg", "deltalake", "sqlglot"):
        pytest.importorskip(package)
    try:
        find_programs()
    except PostgresMissing as error:
        pytest.skip(str(error))
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "cdc", "--seed", str(seed)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    print(found.stdout)
    assert found.returncode == 0, found.stdout + found.stderr
    for copy in ("topics", "SQL view", "Delta tables"):
        assert f"equal, row for row: {copy} and the database" in found.stdout
    assert "0 changes lost, 0 repeated" in found.stdout
    for victim in ("worker", "broker", "database"):
        assert f"the {victim} 2 times" in found.stdout
