"""Logs and topics, including the defaults of all topic configs."""

TABLE = """
message.max.bytes: int = 1048588 [0..] cluster-wide
    Largest record batch accepted, after compression.
delete.topic.enable: boolean = true
    Whether topics may be deleted.
compression.type: string = producer {uncompressed, zstd, lz4, snappy, gzip, producer} cluster-wide
    Codec that stored batches must have; producer keeps what was sent.
compression.gzip.level: int = -1 or-minus-one [1..9] cluster-wide
    Level used where the broker compresses with gzip.
compression.lz4.level: int = 9 [1..17] cluster-wide
    Level used where the broker compresses with lz4.
compression.zstd.level: int = 3 [-131072..22] cluster-wide
    Level used where the broker compresses with zstd.
max.request.partition.size.limit: int = 2000 [1..]
    Most partitions answered in one DescribeTopicPartitions response.
default.replication.factor: int = 1
    Replicas of topics created without a count.
unclean.leader.election.enable: boolean = false cluster-wide
    Lets a replica outside the ISR lead as a last resort, losing records.
log.cleaner.threads: int = 1 [0..] cluster-wide
    Workers that compact logs.
log.cleaner.io.max.bytes.per.second: double = 1.7976931348623157E308 cluster-wide
    Ceiling on the bytes compaction reads and writes a second.
log.cleaner.dedupe.buffer.size: long = 134217728 cluster-wide
    Memory for the key maps of all compaction workers.
log.cleaner.io.buffer.size: int = 524288 [0..] cluster-wide
    Memory for the read and write buffers of all compaction workers.
log.cleaner.io.buffer.load.factor: double = 0.9 cluster-wide
    How full a compaction key map may become.
log.cleaner.backoff.ms: long = 15000 [0..] cluster-wide
    Pause when no log needs compaction.
log.cleaner.min.cleanable.ratio: double = 0.5 [0..1] cluster-wide
    Share of uncompacted bytes at which a log is compacted.
log.cleaner.enable: boolean = true
    Deprecated switch of compaction; leave it on.
log.cleaner.delete.retention.ms: long = 86400000 [0..] cluster-wide
    Time a tombstone stays in a compacted log.
log.cleaner.min.compaction.lag.ms: long = 0 [0..] cluster-wide
    Time a record stays uncompacted at least.
log.cleaner.max.compaction.lag.ms: long = 9223372036854775807 [1..] cluster-wide
    Time a record may stay uncompacted at most.
num.partitions: int = 1 [1..]
    Partitions of topics created without a count.
log.dir: list = /tmp/kafka-logs not-empty
    Log directories, used when log.dirs is unset.
log.dirs: list not-empty
    Directories that hold the logs, separated by commas.
cordoned.log.dirs: list = "" per-broker
    Directories that get no new partitions; * means all.
log.segment.bytes: int = 1073741824 [1048576..] cluster-wide
    Size at which a segment is rolled.
log.roll.ms: long cluster-wide
    Age at which a segment is rolled; log.roll.hours when unset.
log.roll.hours: int = 168 [1..]
    Age at which a segment is rolled, in hours.
log.roll.jitter.ms: long cluster-wide
    Random time taken off log.roll.ms; log.roll.jitter.hours when unset.
log.roll.jitter.hours: int = 0 [0..]
    Random time taken off log.roll.hours.
log.retention.ms: long cluster-wide
    Age at which segments are deleted; -1 keeps them; log.retention.minutes when unset.
log.retention.minutes: int
    Age at which segments are deleted, in minutes; log.retention.hours when unset.
log.retention.hours: int = 168
    Age at which segments are deleted, in hours.
log.retention.bytes: long = -1 cluster-wide
    Size of a partition beyond which old segments are deleted; -1 sets no limit.
log.retention.check.interval.ms: long = 300000 [1..]
    Pause between two checks for segments to delete.
log.cleanup.policy: list = delete {compact, delete} cluster-wide
    Treatment of old segments: delete, compact, both or neither.
log.index.size.max.bytes: int = 10485760 [4..] cluster-wide
    Largest size of an offset index.
log.index.interval.bytes: int = 4096 [0..] cluster-wide
    Bytes between two entries of the offset index.
log.flush.interval.messages: long = 9223372036854775807 [1..] cluster-wide
    Records after which a partition is fsynced.
log.segment.delete.delay.ms: long = 60000 [0..] cluster-wide
    Time a deleted file stays on disk.
log.flush.scheduler.interval.ms: long = 9223372036854775807
    Pause between two checks whether a log needs an fsync.
log.flush.interval.ms: long cluster-wide
    Age of the oldest unflushed record at which a log is fsynced.
log.flush.offset.checkpoint.interval.ms: int = 60000 [0..]
    Pause between two checkpoints of the recovery points.
log.flush.start.offset.checkpoint.interval.ms: int = 60000 [0..]
    Pause between two checkpoints of the log start offsets.
penstock.produce.validation: string = full {full, header} cluster-wide
    Checks of produced batches: all of their records, as Kafka does, or only what their headers state.
penstock.acks.fsync: boolean = false
    Acknowledges only records that are on the disk: responses wait for a shared fsync.
penstock.trust.page.cache: boolean = true
    Keeps a killed broker an eligible leader: as long as its machine runs, it has lost no records.
log.preallocate: boolean = false cluster-wide
    Allocates segment files at full size when they are created.
num.recovery.threads.per.data.dir: int = 2 [1..] cluster-wide
    Workers per directory for recovery at start and flushing at stop.
auto.create.topics.enable: boolean = true
    Creates a topic when a client first requests it.
min.insync.replicas: int = 1 [1..] cluster-wide
    In-sync replicas that must have a record before acks=all succeeds.
log.message.timestamp.type: string = CreateTime {CreateTime, LogAppendTime} cluster-wide
    Whether a record's time is the producer's or the broker's.
log.message.timestamp.before.max.ms: long = 9223372036854775807 [0..] cluster-wide
    How far a record's time may lie in the past.
log.message.timestamp.after.max.ms: long = 3600000 [0..] cluster-wide
    How far a record's time may lie in the future.
create.topic.policy.class.name: class
    Class that may refuse the creation of a topic.
alter.config.policy.class.name: class
    Class that may refuse a change of configs.
log.dir.failure.timeout.ms: long = 30000 [1..]
    Time to report a failed directory before the broker stops.
log.initial.task.delay.ms: long = 30000 [0..] internal
    Accepted for compatibility: the periodic log tasks begin with the node.
"""
