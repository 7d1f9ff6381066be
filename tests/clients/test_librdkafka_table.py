"""The table of librdkafka's tests keeps the results that a run did not repeat."""

from pathlib import Path

import librdkafka_table
import pytest
from librdkafka_table import BEGIN, END, Outcome, write_document

ONE = Outcome("0001_one", "PASSED", 1.0, "")
TWO = Outcome("0002_two", "FAILED", 1.0, "a | b")


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "compatibility.md"
    path.write_text(f"head\n{BEGIN}\n{END}\ntail\n")
    monkeypatch.setattr(librdkafka_table, "DOCUMENT", path)
    return path


def rows(document: Path) -> list[str]:
    return [line for line in document.read_text().splitlines() if line.startswith("| 0")]


def test_results_of_one_size_leave_the_other_alone(document: Path) -> None:
    write_document("package", 1, [TWO, ONE], all_of_them=True)
    write_document("package", 3, [ONE], all_of_them=False)
    assert rows(document) == ["| 0001_one | passed | passed |", "| 0002_two | failed: a / b |  |"]
    assert "1 of 2 on one node, 1 of 1 on three nodes pass" in document.read_text()
    assert document.read_text().startswith("head\n")
    assert document.read_text().endswith("\ntail\n")


def test_a_whole_run_replaces_its_column(document: Path) -> None:
    write_document("package", 1, [ONE, TWO], all_of_them=True)
    write_document("package", 3, [TWO], all_of_them=True)
    write_document("package", 1, [ONE], all_of_them=True)
    assert rows(document) == ["| 0001_one | passed |  |", "| 0002_two |  | failed: a / b |"]
