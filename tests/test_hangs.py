"""Tests that hang where no signal interrupts them, run as the gate runs them."""

from pathlib import Path

import pytest

from nested_pytest import run_pytest

CONFTEST = """
from distribution import ByFile
from hangs import Hangs

def pytest_configure(config):
    config.pluginmanager.register(Hangs(grace_s=0.5))

def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
"""
HANGING = """
import ctypes

def test_that_hangs():
    mutex = ctypes.create_string_buffer(64)
    lock = ctypes.CDLL(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)

def test_after_it():
    pass
"""


@pytest.mark.parametrize("limit", ["", "import pytest\npytestmark = pytest.mark.timeout(0.3)\n"])
def test_a_test_that_hangs_fails_and_the_others_run(tmp_path: Path, limit: str) -> None:
    default_s = 600 if limit else 0.3
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntimeout = {default_s}\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hanging.py").write_text(limit + HANGING)
    (tmp_path / "test_sound.py").write_text("def test_sound():\n    pass\n")
    done = run_pytest(tmp_path, "-p", "pytest_timeout", "-n", "2", rerun="0")
    assert done.returncode == 1, done.stdout
    assert "1 failed, 2 passed" in done.stdout
    assert "crashed while running 'test_hanging.py::test_that_hangs'" in done.stdout
    assert 'test_hanging.py", line' in done.stderr
    assert "in test_that_hangs" in done.stderr
