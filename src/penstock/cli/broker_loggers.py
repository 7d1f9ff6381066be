"""The log levels of a broker, for `penstock config` (KIP-412); librdkafka has no such resource."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.cli.connection import EXIT_USAGE, fail, require_broker_id
from penstock.cli.open_cluster import open_cluster
from penstock.cli.output import print_json, print_table
from penstock.cli.similar_names import did_you_mean
from penstock.client.admin.configs import alter_log_levels, log_levels
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError, ServerError
from penstock.protocol.errors import ErrorCode


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
        changes = {**values, **dict.fromkeys(delete)}
        try:
            alter_log_levels(cluster, int(broker), changes)
        except ServerError as error:
            is_invalid = error.code is ErrorCode.INVALID_CONFIG
            if hint := _similar_loggers(cluster, broker, changes) if is_invalid else "":
                fail(f"{str(error).removesuffix('!')}{hint}")
            raise


def _similar_loggers(cluster: Cluster, broker: str, names: Iterable[str]) -> str:
    """A suggestion for the first of the names that is no logger of the broker; nothing if all are."""
    try:
        known = log_levels(cluster, int(broker))
    except ClientError:  # not authorized, for example
        return ""
    return next((did_you_mean(name, known) for name in names if name not in known), "")


@contextmanager
def _cluster_with(broker: str, bootstrap: str, command_config: Path | None) -> Iterator[Cluster]:
    with open_cluster(bootstrap, command_config) as cluster:
        require_broker_id(broker, cluster.refresh([]).brokers)
        yield cluster
