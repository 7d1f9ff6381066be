"""Access to the cluster through this package's own client, for calls that librdkafka does not have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from penstock.cli.connection import (
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    CommandConfig,
    Settings,
    client_settings,
    fail,
    require_broker,
    unreachable,
)
from penstock.cli.similar_names import did_you_mean_topic
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import (
    ClientError,
    ServerError,
    ServerUnreachable,
    UnknownPartition,
    UnsupportedByServer,
)
from penstock.client.settings import ConfigError
from penstock.protocol.errors import ErrorCode


@contextmanager
def open_cluster(bootstrap: str, command_config: CommandConfig) -> Iterator[Cluster]:
    """Open the cluster; errors end the command with one line and an exit code that scripts can rely on.

    A controller serves some of the requests, about ACLs and the quorum, so that its address is an error only
    after it has refused one.
    """
    settings = client_settings(bootstrap, command_config)
    require_broker(bootstrap, settings, or_controller=True)
    with _cluster_with(settings) as cluster:
        try:
            yield cluster
        except ClientError as error:
            if _is_of_controller(error):
                require_broker(bootstrap, settings)
            _explain(error, cluster, bootstrap)


def cluster_of(bootstrap: str, command_config: CommandConfig) -> Cluster:
    """Open the cluster for a caller that handles errors itself; only wrong settings end the command."""
    return _cluster_with(client_settings(bootstrap, command_config))


def _cluster_with(settings: Settings) -> Cluster:
    try:
        return Cluster(_config_of(settings))
    except ConfigError as error:
        fail(str(error), EXIT_USAGE)


def client_config(bootstrap: str, command_config: CommandConfig) -> ClientConfig:
    """The settings of the command for this package's own client.

    Raises ConfigError, also for settings that librdkafka understands, such as SASL without a JAAS config.
    """
    return _config_of(client_settings(bootstrap, command_config))


def _config_of(settings: Settings) -> ClientConfig:
    timeout_ms = str(int(REQUEST_TIMEOUT_S * 1000))
    timeouts = {"request.timeout.ms": timeout_ms, "default.api.timeout.ms": timeout_ms}
    return ClientConfig.from_properties(
        {**timeouts, **{name: str(value) for name, value in settings.items()}}
    )


def _is_of_controller(error: ClientError) -> bool:
    """Whether a controller answers so to a request that only brokers serve."""
    mismatched = isinstance(error, ServerError) and error.code is ErrorCode.MISMATCHED_ENDPOINT_TYPE
    return mismatched or isinstance(error, UnsupportedByServer)


def _explain(error: ClientError, cluster: Cluster, bootstrap: str) -> NoReturn:
    if isinstance(error, ServerUnreachable):
        unreachable(bootstrap, str(error))
    fail(f"{error}{_similar_topics(error.topic, cluster) if isinstance(error, UnknownPartition) else ''}")


def _similar_topics(unknown: str, cluster: Cluster) -> str:
    try:
        known = cluster.refresh().topics
    except ClientError:
        return ""
    return "" if unknown in known else did_you_mean_topic(unknown, known)
