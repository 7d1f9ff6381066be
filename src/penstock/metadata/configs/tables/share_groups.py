"""Share groups and their coordinator."""

TABLE = """
group.share.session.timeout.ms: int = 45000 [1..]
    Session timeout of share group members.
group.share.min.session.timeout.ms: int = 45000 [1..]
    Smallest session timeout a share group may set.
group.share.max.session.timeout.ms: int = 60000 [1..]
    Largest session timeout a share group may set.
group.share.heartbeat.interval.ms: int = 5000 [1..]
    Pause between heartbeats of share group members.
group.share.min.heartbeat.interval.ms: int = 5000 [1..]
    Smallest pause between heartbeats a share group may set.
group.share.max.heartbeat.interval.ms: int = 15000 [1..]
    Largest pause between heartbeats a share group may set.
group.share.max.size: int = 200 [1..1000]
    Most members of a share group.
group.share.assignors: list = simple not-empty
    Server-side assignor of share groups.
group.share.assignment.interval.ms: int = 1000 [0..] cluster-wide
    Pause between two assignments of a share group.
group.share.min.assignment.interval.ms: int = 0 [0..]
    Smallest pause between assignments a share group may set.
group.share.max.assignment.interval.ms: int = 15000 [0..]
    Largest pause between assignments a share group may set.
group.share.initialize.retry.interval.ms: int = 30000 [1..] internal
    Pause before initialising share partitions is tried again.
group.share.delivery.count.limit: int = 5 [2..10]
    Deliveries of one record in a share group.
group.share.max.delivery.count.limit: int = 10 [5..25]
    Largest number of deliveries a share group may set.
group.share.min.delivery.count.limit: int = 2 [2..5]
    Smallest number of deliveries a share group may set.
group.share.record.lock.duration.ms: int = 30000 [1000..3600000]
    Time a delivered record stays locked for its consumer.
group.share.min.record.lock.duration.ms: int = 15000 [1000..30000]
    Smallest lock duration a share group may set.
group.share.max.record.lock.duration.ms: int = 60000 [30000..3600000]
    Largest lock duration a share group may set.
group.share.partition.max.record.locks: int = 2000 [100..10000]
    Records of one share partition that may be locked.
group.share.max.partition.max.record.locks: int = 4000 [2000..10000]
    Largest number of locked records a share group may set.
group.share.min.partition.max.record.locks: int = 100 [100..2000]
    Smallest number of locked records a share group may set.
share.fetch.purgatory.purge.interval.requests: int = 1000
    Accepted for compatibility: finished share fetches leave the purgatory at once.
group.share.max.share.sessions: int = 2000 [1..]
    Share sessions kept at most.
group.share.persister.class.name: string = \
        org.apache.kafka.server.share.persister.DefaultStatePersister internal
    Class that keeps the state of share groups.
share.coordinator.state.topic.num.partitions: int = 50 [1..]
    Partitions of the share state topic.
share.coordinator.state.topic.replication.factor: short = 3 [1..]
    Replicas of the share state topic.
share.coordinator.state.topic.min.isr: short = 2 [1..]
    In-sync replicas the share state topic needs.
share.coordinator.state.topic.segment.bytes: int = 104857600 [1..]
    Segment size of the share state topic.
share.coordinator.threads: int = 1 [1..]
    Accepted for compatibility: share state is handled on the event loop.
share.coordinator.snapshot.update.records.per.snapshot: int = 500 [0..500]
    Updates written between two snapshots of share state.
share.coordinator.load.buffer.size: int = 5242880 [1..]
    Bytes read at a time while share state is loaded.
share.coordinator.state.topic.compression.codec: int = 0
    Codec of the share state topic, by its number.
share.coordinator.append.linger.ms: int = -1 [-1..]
    Time share records are gathered before they are written; -1 adapts to the load.
share.coordinator.write.timeout.ms: int = 5000 [1..]
    Longest a share state write waits for its replicas.
share.coordinator.state.topic.prune.interval.ms: int = 300000 [1..] internal
    Pause between two prunings of the share state topic.
share.coordinator.cold.partition.snapshot.interval.ms: int = 300000 [1..] internal
    Age at which an idle share partition is snapshotted.
share.coordinator.cached.buffer.max.bytes: int = 1048588 [524288..] cluster-wide
    Largest append buffer a share coordinator keeps for reuse.
"""
