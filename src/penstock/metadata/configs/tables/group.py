"""Group configs, each with the broker config that provides its default."""

TABLE = """
consumer.session.timeout.ms: int = 45000 [1..] <- group.consumer.session.timeout.ms
    Session timeout of consumer group members.
consumer.heartbeat.interval.ms: int = 5000 [1..] <- group.consumer.heartbeat.interval.ms
    Pause between heartbeats of consumer group members.
consumer.assignment.interval.ms: int = 1000 [0..] <- group.consumer.assignment.interval.ms
    Pause between two assignments of a consumer group.
share.session.timeout.ms: int = 45000 [1..] <- group.share.session.timeout.ms
    Session timeout of share group members.
share.heartbeat.interval.ms: int = 5000 [1..] <- group.share.heartbeat.interval.ms
    Pause between heartbeats of share group members.
share.record.lock.duration.ms: int = 30000 [1000..] <- group.share.record.lock.duration.ms
    Time a delivered record stays locked for its consumer.
share.delivery.count.limit: int = 5 [2..] <- group.share.delivery.count.limit
    Deliveries of one record in a share group.
share.partition.max.record.locks: int = 2000 [100..] <- group.share.partition.max.record.locks
    Records of one share partition that may be locked.
share.auto.offset.reset: string = latest share-offset-reset
    Where a share group begins: earliest, latest or by_duration:PnDTnHnMn.nS.
share.isolation.level: string = read_uncommitted {read_committed, read_uncommitted}
    Whether share groups see records of open and aborted transactions.
share.renew.acknowledge.enable: boolean = true
    Lets share consumers renew the lock on a record.
share.assignment.interval.ms: int = 1000 [0..] <- group.share.assignment.interval.ms
    Pause between two assignments of a share group.
streams.session.timeout.ms: int = 45000 [1..] <- group.streams.session.timeout.ms
    Session timeout of streams group members.
streams.heartbeat.interval.ms: int = 5000 [1..] <- group.streams.heartbeat.interval.ms
    Pause between heartbeats of streams group members.
streams.num.standby.replicas: int = 0 [0..] <- group.streams.num.standby.replicas
    Standby replicas of each streams task.
streams.initial.rebalance.delay.ms: int = 3000 [0..] <- group.streams.initial.rebalance.delay.ms
    Time a new streams group waits for more members.
streams.assignment.interval.ms: int = 1000 [0..] <- group.streams.assignment.interval.ms
    Pause between two assignments of a streams group.
"""
