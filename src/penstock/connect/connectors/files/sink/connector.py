"""The files sink: tasks share partitions, and each file has records of one partition."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import SinkConnector
from penstock.connect.connectors.files.sink.task import FilesSinkTask


class FilesSinkConnector(SinkConnector):
    """Tasks that write files to one directory."""

    task_class = FilesSinkTask

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Accept any offsets: records that are read again replace the files that have them."""
        return True
