"""Read, alter and reset the offsets of connectors, as the REST API does (KIP-875)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, GroupInUse, ServerError
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.connect.connector.sink import SinkConnector
from penstock.connect.connector.source import SourceConnector
from penstock.connect.errors import ConnectError
from penstock.connect.herding.errors import BadRequest
from penstock.connect.stores import (
    ConnectorOffset,
    ConnectorOffsets,
    KeyValue,
    TransactionalWriter,
    normalized,
)
from penstock.protocol.errors import ErrorCode

_TIMEOUT_S: Final = 90.0
_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"
_BUSY: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NON_EMPTY_GROUP)


# Sources


def source_offsets(offsets: ConnectorOffsets) -> Sequence[ConnectorOffset]:
    """Return the stored offsets of a source. Raises ConnectError."""
    try:
        offsets.refresh(_TIMEOUT_S)
    except TimeoutError as error:
        raise ConnectError(f"the offsets of a source cannot be read: {error}") from error
    return offsets.listed()


def change_source_offsets(
    connector: SourceConnector,
    properties: Mapping[str, str],
    offsets: ConnectorOffsets,
    changes: Sequence[ConnectorOffset] | None,
    writer: TransactionalWriter | None,
) -> str:
    """Store offsets of a source, or reset all of them if there are no changes; return a message.

    Args:
        writer: fences a task that still lives, if the source is exactly once; else None.

    Raises ConnectError.
    """
    present = source_offsets(offsets)
    is_reset = changes is None
    if changes is None:
        changes = [ConnectorOffset(each.partition, None) for each in present]
    found = [(normalized(each.partition) or {}, normalized(each.offset)) for each in changes]
    is_checked = connector.alter_offsets(properties, found)
    records = offsets.reset() if is_reset else offsets.encoded(found)
    if records and writer is None:
        offsets.set(records)
    elif records and writer is not None:
        offsets.before_commit(records)
        writer.claim()
        writer.write([KeyValue(*record) for record in records.items()])
        offsets.after_commit(records)
    return _message(is_reset=is_reset, is_checked=is_checked)


# Sinks


def sink_offsets(name: str, client: ClientConfig, group_id: str) -> Sequence[ConnectorOffset]:
    """Return the committed offsets of a sink's consumer group. Raises ConnectError."""
    with Cluster(client) as cluster:
        return [
            ConnectorOffset({_PARTITION: tp.partition, _TOPIC: tp.topic}, {_OFFSET: each.offset})
            for tp, each in sorted(_committed(cluster, name, group_id).items())
        ]


def change_sink_offsets(
    name: str,
    connector: SinkConnector,
    properties: Mapping[str, str],
    client: ClientConfig,
    group_id: str,
    changes: Sequence[ConnectorOffset] | None,
) -> str:
    """Commit offsets for a sink, or delete all of them if there are no changes; return a message.

    Raises BadRequest and ConnectError.
    """
    with Cluster(client) as cluster:
        if changes is None:
            wanted: dict[TopicPartition, int | None] = dict.fromkeys(_committed(cluster, name, group_id))
        else:
            wanted = parsed_sink_offsets(changes)
        is_checked = connector.alter_offsets(properties, wanted)
        try:
            if changes is None:
                cluster.retry(ConsumerGroup(cluster, group_id).delete)
            else:
                _commit_sink_offsets(cluster, group_id, wanted)
        except (ClientError, GroupInUse) as error:
            verb = "reset" if changes is None else "alter"
            if isinstance(error, GroupInUse) or (isinstance(error, ServerError) and error.code in _BUSY):
                raise ConnectError(
                    f"Failed to {verb} consumer group offsets for connector {name} either because its tasks"
                    " haven't stopped completely yet or the connector was resumed before the request to"
                    f" {verb} its offsets could be successfully completed. If the connector is in a stopped"
                    " state, this operation can be safely retried. If it doesn't eventually succeed, the"
                    " Connect cluster may need to be restarted to get rid of the zombie sink tasks."
                ) from error
            raise ConnectError(
                f"Failed to {verb} consumer group offsets for connector {name}: {error}"
            ) from error
    return _message(is_reset=changes is None, is_checked=is_checked)


def parsed_sink_offsets(changes: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Read the form of the REST API, in which numbers may be texts. Raises BadRequest."""
    return {_parsed_partition(each.partition): _parsed_offset(each.offset) for each in changes}


def _parsed_partition(partition: Mapping[str, Any] | None) -> TopicPartition:
    if partition is None:
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    if _TOPIC not in partition or _PARTITION not in partition:
        raise BadRequest(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'"
        )
    topic, number = partition[_TOPIC], partition[_PARTITION]
    if topic is None:
        raise BadRequest("Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise BadRequest("Kafka partitions must be valid numbers and may not be null")
    return TopicPartition(str(topic), _whole(number, "partition", "Partition"))


def _parsed_offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if _OFFSET not in offset:
        raise BadRequest(
            f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'"
        )
    return _whole(offset[_OFFSET], "offset", "Offset")


def _whole(value: Any, what: str, what_upper: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise BadRequest(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'."
            f" {what_upper} values for sink connectors need to be integers."
        ) from None


def _committed(cluster: Cluster, name: str, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    try:
        return cluster.retry(ConsumerGroup(cluster, group_id).all_committed)
    except ClientError as error:
        raise ConnectError(
            f"Failed to retrieve consumer group offsets for sink connector {name}: {error}"
        ) from error


def _commit_sink_offsets(
    cluster: Cluster, group_id: str, wanted: Mapping[TopicPartition, int | None]
) -> None:
    group = ConsumerGroup(cluster, group_id)
    committed = {tp: CommittedOffset(offset) for tp, offset in wanted.items() if offset is not None}
    removed = [tp for tp, offset in wanted.items() if offset is None]
    cluster.retry(lambda: group.commit(committed))
    cluster.retry(lambda: group.delete_offsets(removed))


def _message(*, is_reset: bool, is_checked: bool) -> str:
    done = "reset" if is_reset else "altered"
    if is_checked:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if"
        f" this connector manages offsets externally, they will need to be manually {done} in the system that"
        " the connector uses."
    )
