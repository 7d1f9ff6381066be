"""Parts of the tests that the benchmark uses too: a PostgreSQL server, Debezium's jars, Java."""

import sys
from pathlib import Path
from typing import Final

_TESTS: Final = Path(__file__).parents[2] / "tests"
DEBEZIUM_POM: Final = _TESTS / "connect" / "cdc" / "debezium_pom.xml"
sys.path += [str(_TESTS), str(_TESTS / "connect" / "cdc")]

from kafka_node import java_command  # type: ignore[import-not-found]  # noqa: E402
from maven_jars import jars_of  # type: ignore[import-not-found]  # noqa: E402
from postgres_server import RunningServer, restartable_server  # type: ignore[import-not-found]  # noqa: E402

__all__ = ["DEBEZIUM_POM", "RunningServer", "jars_of", "java_command", "restartable_server"]
