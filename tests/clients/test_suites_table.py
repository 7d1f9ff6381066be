"""The table of suites on secured nodes keeps the rows that a run did not repeat."""

from pathlib import Path

import pytest
import suites_table
from suites_table import BEGIN, END, Counts, write_row


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "compatibility.md"
    path.write_text(f"head\n\n{BEGIN}\n{END}\n\ntail\n")
    monkeypatch.setattr(suites_table, "DOCUMENT", path)
    return path


def test_a_run_replaces_its_own_row(document: Path) -> None:
    write_row("one", "SSL", Counts(3, 1, 0))
    write_row("one", "SASL_SSL", Counts(2, 0, 1), "the skipped test needs Java")
    write_row("one", "SSL", Counts(4, 0, 0))
    table = document.read_text()
    assert table.startswith("head\n")
    assert table.endswith("\n\ntail\n")
    assert [line for line in table.splitlines() if line.startswith("| one")] == [
        "| one | SASL_SSL | 2 of 3 passed, 1 skipped: the skipped test needs Java |",
        "| one | SSL | 4 of 4 passed |",
    ]
