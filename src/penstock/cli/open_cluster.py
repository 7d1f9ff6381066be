"""Access to the cluster through this package's own client, for calls that librdkafka does not have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from penstock.cli.connection import (
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    CommandConfig,
    client_settings,
    fail,
    require_broker,
    unreachable,
)
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError, ServerUnreachable
from penstock.client.settings import ConfigError


@contextmanager
def open_cluster(bootstrap: str, command_config: CommandConfig) -> Iterator[Cluster]:
    """Open the cluster; errors end the command with one line and an exit code that scripts can rely on."""
    require_broker(bootstrap)
    with cluster_of(bootstrap, command_config) as cluster:
        try:
            yield cluster
        except ClientError as error:
            _explain(error, bootstrap)


def cluster_of(bootstrap: str, command_config: CommandConfig) -> Cluster:
    """Open the cluster for a caller that handles errors itself; only wrong settings end the command."""
    timeout_ms = str(int(REQUEST_TIMEOUT_S * 1000))
    timeouts = {"request.timeout.ms": timeout_ms, "default.api.timeout.ms": timeout_ms}
    settings = client_settings(bootstrap, command_config)
    try:
        config = ClientConfig.from_properties(
            {**timeouts, **{name: str(value) for name, value in settings.items()}}
        )
    except ConfigError as error:
        fail(str(error), EXIT_USAGE)
    return Cluster(config)


def _explain(error: ClientError, bootstrap: str) -> NoReturn:
    if isinstance(error, ServerUnreachable):
        unreachable(bootstrap, str(error))
    fail(str(error))
