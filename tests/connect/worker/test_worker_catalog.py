"""What a worker's catalog answers about configurations with variables."""

from collections.abc import Iterator

import pytest

from penstock.connect.herding.errors import BadRequest
from penstock.connect.plugins.registry import Plugins
from penstock.connect.plugins.shipped import shipped_plugins
from penstock.connect.providers.transformer import worker_transformer
from penstock.connect.validation.connector_validation import ConnectorValidator
from penstock.connect.worker.catalog import WorkerCatalog

PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
WORKER = {"config.providers": "env", "config.providers.env.class": PROVIDER}


@pytest.fixture
def catalog() -> Iterator[WorkerCatalog]:
    plugins = Plugins(shipped_plugins(), from_packages=False)
    transformer = worker_transformer(plugins, WORKER)
    yield WorkerCatalog(ConnectorValidator(plugins, WORKER), transformer)
    transformer.close()


def test_a_message_shows_no_values_of_variables(
    catalog: WorkerCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    with pytest.raises(BadRequest) as caught:
        catalog.validate({"name": "c", "password": "${env:PASSWORD}"})
    message = str(caught.value)
    assert message.endswith("contains no connector type")
    assert "password=${env:PASSWORD}" in message
    assert "secret" not in message
