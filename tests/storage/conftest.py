"""Fixtures of the storage tests."""

from pathlib import Path

import pytest
from log_building import LogBench


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path / "flights-0")
