"""The log levels of a broker, for `penstock config` (KIP-412); librdkafka has no such resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.cli.connection import EXIT_USAGE, fail, require_broker_id
from penstock.cli.open_cluster import open_cluster
from penstock.cli.output import print_json, print_table
from penstock.client.admin.configs import alter_log_levels, log_levels
from penstock.client.connections.cluster import Cluster


def describe_loggers(
    broker: str, changed: bool, bootstrap: str, command_config: Path | None, json_output: bool
) -> None:
    """Print the effective level of each logger."""
    if changed:
        fail("--changed: expected a topic, broker or group, since log levels have no defaults", EXIT_USAGE)
    with _cluster_with(broker, bootstrap, command_config) as cluster:
        levels = sorted(log_levels(cluster, int(broker)).items())
    if json_output:
        print_json([{"name": name, "value": level} for name, level in levels])
    else:
        print_table(["LOGGER", "LEVEL"], levels)


def alter_loggers(
    broker: str,
    values: Mapping[str, str],
    delete: Sequence[str],
    bootstrap: str,
    command_config: Path | None,
) -> None:
    """Set levels, and let the loggers in ``delete`` inherit theirs."""
    with _cluster_with(broker, bootstrap, command_config) as cluster:
        alter_log_levels(cluster, int(broker), {**values, **dict.fromkeys(delete)})


@contextmanager
def _cluster_with(broker: str, bootstrap: str, command_config: Path | None) -> Iterator[Cluster]:
    with open_cluster(bootstrap, command_config) as cluster:
        require_broker_id(broker, cluster.refresh([]).brokers)
        yield cluster
