"""Batch writes that a program may repeat, as a ``foreachBatch`` function does after a failure.

The options are Delta Lake's: ``txnAppId`` names the program, and ``txnVersion`` rises with each write. The
version is kept as the marker of a query's batches is (`penstock.spark.sink.marker`), for each topic that the
program writes to.
"""

from __future__ import annotations

from typing import ClassVar, Final

from penstock.client.connections.cluster import Cluster
from penstock.client.producing.producer import ProducerConfig
from penstock.spark.sink.marker import Marker
from penstock.spark.sink.options import AppVersion
from penstock.spark.sink.publisher import Content, Outcome, Publication, Publisher

WRITE_PREFIX: Final = "penstock-write-"
"""The start of the transactional ids of batch writes, and of the groups that hold their versions."""


class VersionPublisher(Publisher):
    """The publisher of one program's writes to one topic, which skips versions up to the last one."""

    id_prefix: ClassVar[str] = WRITE_PREFIX

    def _was_published(self, marker: Marker | None, batch: Publication) -> bool:
        return marker is not None and marker.batch_id >= batch.batch_id


def publish_version(
    cluster: Cluster,
    producer: ProducerConfig,
    topic: str,
    write: AppVersion,
    timeout_ms: int,
    content: Content,
) -> Outcome:
    """Publish a write unless its program has published this version or a later one in the topic.

    Raises ClientError. After an error the write may or may not be published; repeating it finds out.
    """
    cluster.require_topics([topic], create=True)  # without rows, no task has created it
    # A topic's name contains no slash, so no two programs and topics share an id.
    publisher = VersionPublisher(cluster, producer, f"{write.app_id}/{topic}", topic, timeout_ms)
    return publisher.publish(Publication(write.version, "", "", must_be_known=False, content=content))
