"""The transaction coordinator, tested with scripts; see `transaction_script` for the commands."""

import os
from pathlib import Path

import pytest
from coordinator_script import run_script
from transaction_script import TransactionDriver

SCRIPTS = sorted((Path(__file__).parent / "transaction_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    told = path.read_text()
    happened = run_script(told, TransactionDriver())
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(happened)
    assert happened == told
