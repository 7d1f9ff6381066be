"""The task of the sink of object stores: one file after the other for each partition.

A file is named after the offset of its first record, and the group's offset moves only past stored files. A
task that is killed therefore writes the same files again, and none is there twice.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import Offsets, SinkConnector, SinkTask
from penstock.connect.connectors.lake.bad_records import report_or_raise
from penstock.connect.connectors.lake.objects.definition import (
    BYTES_MAX,
    COMPATIBILITY,
    EXTRACTOR,
    FLUSH_SIZE,
    FORMAT,
    INTERVAL,
    NULLS,
    PARTITIONER,
    SCHEDULE,
    objects_definition,
)
from penstock.connect.connectors.lake.objects.files import FileFormat, file_format
from penstock.connect.connectors.lake.objects.open_files import Layout, OpenFiles, Rotation
from penstock.connect.connectors.lake.objects.places.partitioners import partitioner
from penstock.connect.connectors.lake.objects.places.times import extractor
from penstock.connect.connectors.lake.objects.store import open_store, sorted_errors
from penstock.connect.connectors.lake.topic_folders import topic_folder
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import DataError, RetriableError

log = logging.getLogger(__name__)

_RETRY_MS: Final = 1000


class ObjectsSinkTask(SinkTask):
    """Collects records in files, and stores these under names that their records decide."""

    definition = objects_definition()

    def start(self, config: Mapping[str, Any]) -> None:
        self._layout = layout_of(config, self._report)
        self._rotation = Rotation(
            config[FLUSH_SIZE], config[INTERVAL], config[SCHEDULE], config[BYTES_MAX], config[COMPATIBILITY]
        )
        self._ignores_nulls = config[NULLS] == "ignore"
        self._store = open_store(config)
        self._partitions: dict[TopicPartition, OpenFiles] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._store_finished()  # raises RetriableError before any of the records was added
        for record in records:
            self._add(record)
        for files in self._partitions.values():
            due_in_s = files.due_in_s()
            if due_in_s is not None and due_in_s <= 0:
                files.end()
        self._wait_for_schedule()
        self._try_to_store()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        first = {tp: files.first_offset for tp, files in self._partitions.items()}
        return {
            tp: offset if (stop := first.get(tp)) is None else min(offset, stop)
            for tp, offset in offsets.items()
        }

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            self._partitions.pop(tp, None)

    def _add(self, record: SinkRecord) -> None:
        if record.value is None:
            if not self._ignores_nulls:
                self._report(
                    record, DataError(f"a record without a value has no row: {NULLS}=ignore leaves it out")
                )
            return
        tp = TopicPartition(record.original_topic, record.original_partition)
        files = self._partitions.get(tp)
        if files is None:
            files = self._partitions[tp] = OpenFiles(self._layout, self._rotation)
        try:
            files.add(record)
        except DataError as error:
            self._report(record, error)

    def _report(self, record: SinkRecord, error: Exception) -> None:
        report_or_raise(self.context, record, error)

    def _store_finished(self) -> None:
        """Store the files that have ended. Raises RetriableError; the files that are left are tried again."""
        from obstore import put

        has_stored = False
        for files in self._partitions.values():
            while files.finished:
                file = files.finished[0]
                with sorted_errors(file.path):
                    put(self._store, file.path, file.content)
                del files.finished[0]
                has_stored = True
        if has_stored:
            self.context.request_commit()

    def _try_to_store(self) -> None:
        try:
            self._store_finished()
        except RetriableError as error:
            log.warning("files are not stored, retrying error=%s", error)
            self.context.timeout(_RETRY_MS)

    def _wait_for_schedule(self) -> None:
        """Have `put` called when files are due, though there are no new records."""
        due = [due_in_s for files in self._partitions.values() if (due_in_s := files.due_in_s()) is not None]
        if due:
            self.context.timeout(max(1, round(min(due) * 1000)))


class ObjectsSinkConnector(SinkConnector):
    """Tasks that write files of their partitions."""

    task_class = ObjectsSinkTask

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        return True


def layout_of(config: Mapping[str, Any], report: Any) -> Layout:
    """Return where files lie and what they contain. Raises ConfigInvalid."""
    contents = file_format(last_name(config[FORMAT]), config["parquet.codec"], config["s3.compression.type"])
    extract = extractor(config[EXTRACTOR], config["timestamp.field"])
    folder = partitioner(last_name(config[PARTITIONER]), config, extract)
    return Layout(folder, Names(config, contents).path, extract, contents, report)


class Names:
    """Names files: ``topics/TOPIC/FOLDER/TOPIC+PARTITION+OFFSET.snappy.parquet``.

    The name has the topic in Kafka, because a transform can give records of several topics one name.
    """

    def __init__(self, config: Mapping[str, Any], contents: FileFormat) -> None:
        self._root: str = config["topics.dir"].strip("/")
        self._delimiter: str = config["file.delim"]
        self._width: int = config["filename.offset.zero.pad.width"]
        self._extension = contents.extension

    def path(self, record: SinkRecord, folder: str) -> str:
        """Return the path of the file that begins with a record. Raises DataError."""
        place = (
            record.original_topic,
            str(record.original_partition),
            f"{record.original_offset:0{self._width}}",
        )
        name = self._delimiter.join(place) + self._extension
        return "/".join(part for part in (self._root, topic_folder(record.topic), folder, name) if part)


def last_name(name: str) -> str:
    """Return a class without its package."""
    return name.rpartition(".")[2]
