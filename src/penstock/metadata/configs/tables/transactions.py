"""Producers and transactions."""

TABLE = """
transaction.state.log.min.isr: int = 2 [1..]
    In-sync replicas the transaction topic needs.
transaction.state.log.load.buffer.size: int = 5242880 [1..]
    Accepted for compatibility: transactions are loaded in pieces of 5 MiB.
transaction.state.log.replication.factor: short = 3 [1..]
    Replicas of the transaction topic.
transaction.state.log.num.partitions: int = 50 [1..]
    Partitions of the transaction topic; not to be changed later.
transaction.state.log.segment.bytes: int = 104857600 [1..]
    Segment size of the transaction topic.
transaction.partition.verification.enable: boolean = true cluster-wide
    Checks that a partition belongs to a transaction before it is written.
producer.id.expiration.ms: int = 86400000 [1..] cluster-wide
    Idle time after which an idempotent producer's state is dropped.
producer.id.expiration.check.interval.ms: int = 600000 [1..] internal
    Pause between two checks for expired producer ids.
transactional.id.expiration.ms: int = 604800000 [1..]
    Idle time after which a transactional id is dropped.
transaction.max.timeout.ms: int = 900000 [1..]
    Longest transaction timeout a producer may ask for.
transaction.abort.timed.out.transaction.cleanup.interval.ms: int = 10000 [1..]
    Pause between two checks for transactions that timed out.
transaction.remove.expired.transaction.cleanup.interval.ms: int = 3600000 [1..]
    Pause between two checks for expired transactional ids.
transaction.two.phase.commit.enable: boolean = false
    Allows transactions that an external coordinator decides (with unstable.api.versions.enable).
add.partitions.to.txn.retry.backoff.max.ms: int = 100 [0..]
    Longest the broker retries to add a partition to a transaction.
add.partitions.to.txn.retry.backoff.ms: int = 20 [1..]
    Pause between two attempts to add a partition to a transaction.
"""
