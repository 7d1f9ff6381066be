"""Each script in `scripts/` has the expected output. With PENSTOCK_REWRITE=1 the scripts are rewritten."""

import os
from pathlib import Path

import pytest
from script import rewritten

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = rewritten(text)
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(found, encoding="utf-8")
    assert found == text or os.environ.get("PENSTOCK_REWRITE")
