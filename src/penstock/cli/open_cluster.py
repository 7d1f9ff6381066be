"""Access to the cluster through this package's own client, for calls that librdkafka does not have."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from penstock.cli.client_properties import check_own_names
from penstock.cli.connection import (
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    CommandConfig,
    fail,
    read_properties,
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
    properties = read_properties(command_config)
    require_broker(bootstrap, properties, or_controller=True)
    with _cluster_with(bootstrap, properties) as cluster:
        try:
            yield cluster
        except ClientError as error:
            if _is_of_controller(error):
                require_broker(bootstrap, properties)
            _explain(error, cluster, bootstrap)


def cluster_of(bootstrap: str, command_config: CommandConfig) -> Cluster:
    """Open the cluster for a caller that handles errors itself; only wrong settings end the command."""
    return _cluster_with(bootstrap, read_properties(command_config))


def _cluster_with(bootstrap: str, properties: dict[str, str]) -> Cluster:
    try:
        return Cluster(_config_of(bootstrap, properties))
    except ConfigError as error:
        fail(str(error), EXIT_USAGE)


def client_config(bootstrap: str, command_config: CommandConfig) -> ClientConfig:
    """The settings of the command for this package's own client. Raises ConfigError."""
    return _config_of(bootstrap, read_properties(command_config))


def _config_of(bootstrap: str, properties: dict[str, str]) -> ClientConfig:
    check_own_names(properties)
    timeout_ms = str(int(REQUEST_TIMEOUT_S * 1000))
    timeouts = {"request.timeout.ms": timeout_ms, "default.api.timeout.ms": timeout_ms}
    return ClientConfig.from_properties({**timeouts, **properties, "bootstrap.servers": bootstrap})


def _is_of_controller(error: ClientError) -> bool:
    """Whether a controller answers so to a request that only brokers serve."""
    mismatched = isinstance(error, ServerError) and error.code is ErrorCode.MISMATCHED_ENDPOINT_TYPE
    return mismatched or isinstance(error, UnsupportedByServer)


def _explain(error: ClientError, cluster: Cluster, bootstrap: str) -> NoReturn:
    if isinstance(error, ServerUnreachable):
        unreachable(bootstrap, str(error))
    fail(f"{error}{similar_topics(error.topic, cluster) if isinstance(error, UnknownPartition) else ''}")


def similar_topics(unknown: str, cluster: Cluster) -> str:
    """Suggest topics that the client may see; nothing if the named one exists, or if no list arrives."""
    try:
        known = cluster.refresh().topics
    except ClientError:
        return ""
    return "" if unknown in known else did_you_mean_topic(unknown, known)
