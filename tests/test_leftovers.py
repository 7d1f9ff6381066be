"""The handling of processes that tests leave behind, in runs of pytest."""

import re
import subprocess
from pathlib import Path

from leftovers import stat_of
from nested_pytest import run_pytest

STARTING = """
import subprocess, sys
from pathlib import Path

def start(name, *words):
    process = subprocess.Popen(words or ("sleep", "1000"))
    Path(f"{name}.pid").write_text(str(process.pid))
    return process

def started(name):
    process = start(name)
    yield process
    process.kill()
    process.wait()
"""
CONFTEST = """
import leftovers
import pytest
from reruns import Reruns, are_requested
from starting import started

leftovers.LAST_WORDS_S = 1.5

def pytest_configure(config):
    config.pluginmanager.register(leftovers.Leftovers())
    if are_requested() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns())

@pytest.fixture(scope="session")
def of_the_session():
    yield from started("session")
"""
STARTS_EARLIER = """
from starting import start

earlier = start("earlier")

def pytest_unconfigure():
    print("the earlier process", "runs" if earlier.poll() is None else "was ended")
    earlier.kill()
    earlier.wait()
"""
LEAVES_SLEEP = """
from starting import start

def test_before():
    start("tidy", "true").wait()

def test_leaves():
    start("sleep")

def test_after():
    pass
"""
LEAVES_ORPHAN = """
import subprocess, sys
from pathlib import Path

SCRIPT = '''
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("unfinished", "w") as file:
            file.write(str(os.getpid()))
        os.rename("unfinished", "orphan.pid")
        time.sleep(1000)
'''

def test_leaves():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
    while not Path("orphan.pid").exists():
        pass
"""
LEAVES_DEAF = """
from starting import start

def test_leaves():
    start("deaf", "env", "--ignore-signal=TERM", "sleep", "1000")
"""
LEAVES_SHARED = """
import pytest
from starting import start

@pytest.fixture(scope="session")
def careless():
    start("careless")

def test_leaves(careless):
    pass
"""
OF_A_MODULE = """
import pytest
from starting import started

@pytest.fixture(scope="module")
def of_the_module():
    yield from started("module")

@pytest.mark.parametrize("number", range(3))
def test_it_runs(number, of_the_module, of_the_session):
    assert of_the_module.poll() is None
    assert of_the_session.poll() is None
"""
OF_THE_SESSION = """
def test_it_runs(of_the_session):
    assert of_the_session.poll() is None
    with open("session.pid") as file:
        assert int(file.read()) == of_the_session.pid
"""
ENDS_BY_ITSELF = """
from starting import start

def test_one():
    start("ending", "sleep", "0.3")
"""
HELPERS = """
import multiprocessing
from multiprocessing.shared_memory import SharedMemory

def test_forkserver():
    process = multiprocessing.get_context("forkserver").Process(target=print)
    process.start()
    process.join()
    memory = SharedMemory(create=True, size=10)
    memory.close()
    memory.unlink()
"""


def run(directory: Path, *options: str, rerun: str = "0", **modules: str) -> str:
    """Run pytest over modules, given by name and text, and return what it prints."""
    for name, text in {"starting": STARTING, "conftest": CONFTEST, **modules}.items():
        (directory / f"{name}.py").write_text(text)
    done = run_pytest(directory, *options, rerun=rerun)
    return done.stdout + done.stderr


def pid_of(directory: Path, name: str) -> int:
    return int((directory / f"{name}.pid").read_text())


def has_ended(directory: Path, name: str) -> bool:
    stat = stat_of(pid_of(directory, name))
    return stat is None or stat.is_zombie


def test_fixtures_of_a_module_and_of_the_session_keep_processes(tmp_path: Path) -> None:
    printed = run(tmp_path, test_a=OF_A_MODULE, test_b=OF_THE_SESSION, test_c=ENDS_BY_ITSELF, test_d=HELPERS)
    assert "6 passed" in printed
    assert "left processes behind" not in printed
    assert has_ended(tmp_path, "module")
    assert has_ended(tmp_path, "session")


def test_processes_left_behind_are_named_and_ended(tmp_path: Path) -> None:
    left = {"sleep": LEAVES_SLEEP, "orphan": LEAVES_ORPHAN, "deaf": LEAVES_DEAF, "careless": LEAVES_SHARED}
    modules = {f"test_{name}": text for name, text in left.items()}
    with subprocess.Popen(["sleep", "1000"]) as other:
        printed = run(tmp_path, conftest=CONFTEST + STARTS_EARLIER, **modules, test_the_last=OF_THE_SESSION)
        assert other.poll() is None, "it ended a process that no test of it had started"
        other.kill()
    assert "the earlier process runs" in printed
    assert "7 passed, 4 errors" in printed
    for name in left:
        line = rf"pid {pid_of(tmp_path, name)}: .* \(appeared during test_{name}.py::test_leaves\)"
        assert re.search(line, printed), f"{name}:\n{printed}"
        assert has_ended(tmp_path, name)
    for last_test in ("test_sleep.py::test_after", "test_the_last.py::test_it_runs"):
        assert f"ERROR {last_test} - Failed: tests left processes behind" in printed


def test_the_test_that_left_a_process_behind_runs_again(tmp_path: Path) -> None:
    printed = run(tmp_path, "-n", "2", rerun="1", test_sleep=LEAVES_SLEEP, test_sound=OF_THE_SESSION)
    first, _, again = printed.partition("== failed tests run once more, each alone: 1")
    assert "4 passed, 1 error" in first
    assert "1 passed, 1 error" in again
    assert "FLAKY" not in again
