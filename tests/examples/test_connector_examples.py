"""The examples of connectors do what their first lines say, without a broker."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connect import SinkTaskTest, SourceTaskTest

EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"
LINES_MAX = 40


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_each_is_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


def test_new_rows(tmp_path: Path) -> None:
    from new_rows import NewRows

    file = tmp_path / "shop.db"
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    database.execute("INSERT INTO orders (item) VALUES ('tea'), ('milk')")
    config = {"database": str(file), "table": "orders", "topic": "orders"}
    with SourceTaskTest(NewRows(), config) as test:
        assert [record.value for record in test.poll()] == [
            {"id": 1, "item": "tea"},
            {"id": 2, "item": "milk"},
        ]
        database.execute("INSERT INTO orders (item) VALUES ('jam')")
        test.restart(NewRows())
        assert [record.value["item"] for record in test.poll()] == ["jam"]


def test_keep_rows(tmp_path: Path) -> None:
    from keep_rows import KeepRows

    file = tmp_path / "kept.db"
    with SinkTaskTest(KeepRows(), {"database": str(file)}) as test:
        test.put("orders", {"item": "tea"}, key="a")
        test.put("orders", {"item": "milk"}, key="b")
        test.put("orders", {"item": "jam"}, key="a")
        test.put("orders", None, key="b")
        test.commit()
        assert test.committed("orders") == 4
    kept = sqlite3.connect(file).execute("SELECT key, value FROM kept").fetchall()
    assert kept == [("a", json.dumps({"item": "jam"}))]
