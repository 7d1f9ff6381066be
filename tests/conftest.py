"""Shared fixtures, and the plugins that the suite adds to pytest."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from xdist.remote import Producer

from distribution import ByFile, place_of
from hangs import Hangs
from kafka_node import record_classes
from kdc import Kdc, missing
from leftovers import Leftovers
from long_run import repetitions, skip_long
from maven_jars import cache_root, jars_of
from penstock.processes.memory import MEMORY_MAX
from reruns import Reruns, are_requested

# No deadline, because a busy machine is no failure and pytest-timeout ends tests that hang. `make test-long`
# runs more examples, and `make fuzz` many more.
EXAMPLES = repetitions("PENSTOCK_EXAMPLES", gate=20, long=100)
settings.register_profile("penstock", deadline=None, max_examples=EXAMPLES)
settings.load_profile("penstock")

MEMORY_BOUNDS = {
    "SPARK_DRIVER_MEMORY": "1g",
    "SPARK_DAEMON_MEMORY": "512m",
    MEMORY_MAX: str(2 << 30),
}
"""The memory limits of one process, so that a faulty test leaves memory to others. Programs that the tests
start inherit them. Spark reads the first two; a node of Penstock stops at the third (docs/testing.md).
"""

KAFKA_VERSION = "4.3.1"
TESTS = Path(__file__).parent
CLIENTS = TESTS / "clients"


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Undo what a command that runs in this process does to logging: later tests read the log."""
    loggers = [logging.getLogger(name) for name in (None, "penstock")]
    before = [(logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The directory with Apache Kafka's jars (the target release), or a skip that says why not."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "kafka.lock"):
        libs = jars_of(CLIENTS / "kafka_pom.xml", f"kafka-{KAFKA_VERSION}")
        record_classes(libs)
        return libs


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    config.option.loadscopereorder = False  # in the order of the collection, not by the number of tests
    return ByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    for name, value in MEMORY_BOUNDS.items():
        os.environ.setdefault(name, value)
    config.pluginmanager.register(Leftovers())
    config.pluginmanager.register(Hangs())
    if are_requested() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns())


def pytest_collection() -> None:
    """Turn the garbage collector off until all tests are collected.

    The tests live to the end of the run, and each full collection that includes them takes a quarter of a
    second.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_long(items)
    items.sort(key=lambda item: place_of(item.nodeid))


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC that libkrb5 and Java find, in this process and in those that it starts."""
    if reason := missing():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch, Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        yield kdc
