"""The group coordinator, tested with scripts; see `group_script` for the commands."""

import os
from pathlib import Path

import pytest
from coordinator_script import run_script
from group_script import GroupDriver

SCRIPTS = sorted((Path(__file__).parent / "group_scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    told = path.read_text()
    happened = run_script(told, GroupDriver())
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(happened)
    assert happened == told
