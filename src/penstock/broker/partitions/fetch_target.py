"""One partition in a Fetch request or in a fetch session."""

from __future__ import annotations

from penstock.protocol.messages import FetchRequest, FetchResponse

NOT_SAID = 2**63 - 1
"""The high watermark of a client that does not report the one that it knows (KIP-1166)."""

TopicKey = str | bytes
PartitionKey = tuple[TopicKey, int]


class FetchTarget:
    """One partition to fetch: the position, the limit, and the offsets last sent to the client."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "replica_log_start_offset",
        "topic",
    )

    def __init__(self, topic: TopicKey, wanted: FetchRequest.FetchPartition) -> None:
        self.topic = topic
        self.partition = wanted.partition
        self.high_watermark = -1
        self.log_start_offset = -1
        self.update(wanted)

    def update(self, wanted: FetchRequest.FetchPartition) -> None:
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.replica_log_start_offset = wanted.log_start_offset
        if wanted.high_watermark != NOT_SAID:
            self.high_watermark = wanted.high_watermark

    def is_new(self, data: FetchResponse.PartitionData) -> bool:
        """Whether a response has anything for this partition that its client does not have yet."""
        return (
            (data.records is not None and len(data.records) > 0)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.error_code != 0
            or data.diverging_epoch.end_offset >= 0
            or data.preferred_read_replica >= 0
        )

    def heard(self, data: FetchResponse.PartitionData) -> bool:
        """Record what a response sends for this partition, and return whether it is anything new."""
        is_new = self.is_new(data)
        # After an error, the next good answer is always new. So it is for a follower that truncates its log,
        # because it adopts no high watermark before that is done.
        is_settled = data.error_code == 0 and data.diverging_epoch.end_offset < 0
        self.high_watermark = data.high_watermark if is_settled else -1
        self.log_start_offset = data.log_start_offset
        return is_new
