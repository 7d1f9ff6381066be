"""Classic, consumer and streams groups, and their coordinator."""

TABLE = """
group.coordinator.rebalance.protocols: list = \
        classic,consumer,streams {consumer, classic, share, streams} not-empty
    Not served yet: groups have the classic protocol.
group.coordinator.threads: int = 4 [1..]
    Accepted for compatibility: groups are handled on the event loop.
group.coordinator.background.threads: int = 2 [1..]
    Not served yet: assignments are computed by the groups' members.
group.coordinator.append.linger.ms: int = -1 [-1..]
    Accepted for compatibility: group records are written at once.
offsets.commit.timeout.ms: int = 5000 [1..]
    Longest an offset commit waits for its replicas.
offsets.load.buffer.size: int = 5242880 [1..]
    Accepted for compatibility: offsets are loaded in pieces of 5 MiB.
offsets.topic.replication.factor: short = 3 [1..]
    Replicas of the offsets topic.
offsets.topic.num.partitions: int = 50 [1..]
    Partitions of the offsets topic; not to be changed later.
offsets.topic.segment.bytes: int = 104857600 [1..]
    Segment size of the offsets topic.
offsets.topic.compression.codec: int = 0
    Codec of the offsets topic, by its number.
group.coordinator.cached.buffer.max.bytes: int = 1048588 [524288..] cluster-wide
    Accepted for compatibility: append buffers are not kept.
offset.metadata.max.bytes: int = 4096
    Largest metadata string stored with an offset.
offsets.retention.minutes: int = 10080 [1..]
    Minutes an idle group's offsets are kept.
offsets.retention.check.interval.ms: long = 600000 [1..]
    Pause between two checks for expired offsets.
group.min.session.timeout.ms: int = 6000
    Shortest session timeout a classic member may ask for.
group.max.session.timeout.ms: int = 1800000
    Longest session timeout a classic member may ask for.
group.initial.rebalance.delay.ms: int = 3000
    Time a new classic group waits for more members before its first rebalance.
group.max.size: int = 2147483647 [1..]
    Most members of a classic group.
group.consumer.session.timeout.ms: int = 45000 [1..]
    Session timeout of consumer group members.
group.consumer.min.session.timeout.ms: int = 45000 [1..]
    Smallest session timeout a consumer group may set.
group.consumer.max.session.timeout.ms: int = 60000 [1..]
    Largest session timeout a consumer group may set.
group.consumer.heartbeat.interval.ms: int = 5000 [1..]
    Pause between heartbeats of consumer group members.
group.consumer.min.heartbeat.interval.ms: int = 5000 [1..]
    Smallest pause between heartbeats a consumer group may set.
group.consumer.max.heartbeat.interval.ms: int = 15000 [1..]
    Largest pause between heartbeats a consumer group may set.
group.consumer.max.size: int = 2147483647 [1..]
    Most members of a consumer group.
group.consumer.assignors: list = uniform,range not-empty
    Server-side assignors of consumer groups; the first is the default.
group.consumer.migration.policy: string = bidirectional any-case {DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL}
    Ways a group may change between the classic and the consumer protocol.
group.consumer.assignment.interval.ms: int = 1000 [0..] cluster-wide
    Pause between two assignments of a consumer group.
group.consumer.min.assignment.interval.ms: int = 0 [0..]
    Smallest pause between assignments a consumer group may set.
group.consumer.max.assignment.interval.ms: int = 15000 [0..]
    Largest pause between assignments a consumer group may set.
group.consumer.regex.refresh.interval.ms: int = 600000 [10000..] internal
    Age at which a subscription pattern is resolved again.
group.streams.session.timeout.ms: int = 45000 [1..]
    Session timeout of streams group members.
group.streams.min.session.timeout.ms: int = 45000 [1..]
    Smallest session timeout a streams group may set.
group.streams.max.session.timeout.ms: int = 60000 [1..]
    Largest session timeout a streams group may set.
group.streams.heartbeat.interval.ms: int = 5000 [1..]
    Pause between heartbeats of streams group members.
group.streams.min.heartbeat.interval.ms: int = 5000 [1..]
    Smallest pause between heartbeats a streams group may set.
group.streams.max.heartbeat.interval.ms: int = 15000 [1..]
    Largest pause between heartbeats a streams group may set.
group.streams.max.size: int = 2147483647 [1..]
    Most members of a streams group.
group.streams.num.standby.replicas: int = 0 [0..]
    Standby replicas of each streams task.
group.streams.max.standby.replicas: int = 2 [0..]
    Most standby replicas a streams group may ask for.
group.streams.initial.rebalance.delay.ms: int = 3000 [0..]
    Time a new streams group waits for more members.
group.streams.assignment.interval.ms: int = 1000 [0..] cluster-wide
    Pause between two assignments of a streams group.
group.streams.min.assignment.interval.ms: int = 0 [0..]
    Smallest pause between assignments a streams group may set.
group.streams.max.assignment.interval.ms: int = 15000 [0..]
    Largest pause between assignments a streams group may set.
"""
