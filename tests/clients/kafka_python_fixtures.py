"""A plugin of pytest by which kafka-python's integration tests start Penstock instead of Apache Kafka.

kafka-python renders `server.properties` from its own template, formats the log directory, and runs the
programs in `KAFKA_ROOT/bin`, which `python_clients_suite` writes. Only two things differ from Apache Kafka:
the line that says that the node is ready, and logins, which Penstock reads from the properties instead of a
JAAS file.
"""

from typing import Any

import pytest
from test.integration.fixtures import KafkaFixture

LATER = {
    "test_alter_replica_log_dirs": "needs AlterReplicaLogDirs",
    "test_list_config_resources": "needs ListConfigResources",
}


class PenstockFixture(KafkaFixture):
    """The fixture of a broker, with Penstock's own line of readiness and configs of logins."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.start_pattern = "ready on "

    def _sasl_config(self) -> str:
        if not self.sasl_enabled:
            return ""
        prefix = f"listener.name.{self.transport}.{self.sasl_mechanism}".lower()
        return f"{super()._sasl_config()}{prefix}.sasl.jaas.config={self._jaas_config()}"

    def _scram_user_present(self, timeout: float) -> bool:
        return True  # the user is in the first record of the cluster


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart() -> None:
    from test.integration import fixtures

    fixtures.KafkaFixture = PenstockFixture


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of APIs that Penstock lacks."""
    for item in items:
        if item.name in LATER:
            item.add_marker(pytest.mark.skip(reason=LATER[item.name]))
