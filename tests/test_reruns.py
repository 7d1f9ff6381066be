"""The reruns of failed tests, run as the gate runs them."""

import subprocess
from pathlib import Path

from nested_pytest import run_pytest

CONFTEST = """
from reruns import Reruns, are_requested

def pytest_configure(config):
    if are_requested():
        config.pluginmanager.register(Reruns())
"""
FLAKY = """
from pathlib import Path

def test_{name}():
    been_here = Path(__file__).with_suffix(".been_here")
    if not been_here.exists():
        been_here.touch()
        raise AssertionError("the first time")
"""
BROKEN = "def test_broken():\n    raise AssertionError('every time')\n"


def run(directory: Path, *options: str, rerun: str = "1") -> subprocess.CompletedProcess[str]:
    (directory / "conftest.py").write_text(CONFTEST)
    return run_pytest(directory, *options, rerun=rerun)


def write_flaky(directory: Path, *names: str) -> None:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / f"test_{name}.py").write_text(FLAKY.format(name=name))


def test_a_flaky_test_is_shown_and_passes(tmp_path: Path) -> None:
    write_flaky(tmp_path, "one", "two")
    (tmp_path / "test_sound.py").write_text("def test_sound():\n    pass\n")
    done = run(tmp_path, "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 failed, 1 passed" in done.stdout
    last = done.stdout[done.stdout.index("== failed tests run once more") :]
    for name in ("one", "two"):
        assert f"FLAKY test_{name}.py::test_{name}:" in last
    assert last.count("AssertionError: the first time") >= 2
    assert "test_sound" not in last


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    write_flaky(tmp_path, "one")
    (tmp_path / "test_broken.py").write_text(BROKEN)
    done = run(tmp_path)
    assert done.returncode == 1
    assert "FLAKY test_one.py::test_one" in done.stdout
    assert "FLAKY test_broken" not in done.stdout


def test_many_flaky_tests_fail_the_run(tmp_path: Path) -> None:
    write_flaky(tmp_path, "one", "two", "three", "four")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "once more" not in done.stdout


def test_failures_of_seeds_count_at_once(tmp_path: Path) -> None:
    write_flaky(tmp_path / "simulation", "one")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "once more" not in done.stdout


def test_nothing_is_run_again_unless_requested(tmp_path: Path) -> None:
    write_flaky(tmp_path, "one")
    done = run(tmp_path, rerun="0")
    assert done.returncode == 1
    assert "once more" not in done.stdout
