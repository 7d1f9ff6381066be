"""Topic configs, each with the broker configs that provide its default."""

TABLE = """
segment.bytes: int = 1073741824 [1048576..] <- log.segment.bytes
    Size at which a segment is rolled.
segment.ms: long = 604800000 [1..] <- log.roll.ms, log.roll.hours
    Age at which a segment is rolled.
segment.jitter.ms: long = 0 [0..] <- log.roll.jitter.ms, log.roll.jitter.hours
    Random time taken off segment.ms, so that logs do not roll together.
segment.index.bytes: int = 10485760 [4..] <- log.index.size.max.bytes
    Largest size of an offset index.
flush.messages: long = 9223372036854775807 [1..] <- log.flush.interval.messages
    Records after which the log is fsynced.
flush.ms: long = 9223372036854775807 [0..] <- log.flush.interval.ms, log.flush.scheduler.interval.ms
    Age of the oldest unflushed record at which the log is fsynced.
retention.bytes: long = -1 <- log.retention.bytes
    Size of a partition beyond which old segments are deleted; -1 sets no limit.
retention.ms: long = 604800000 [-1..] <- log.retention.ms, log.retention.minutes, log.retention.hours
    Age at which segments are deleted; -1 keeps them for ever.
max.message.bytes: int = 1048588 [0..] <- message.max.bytes
    Largest record batch accepted, after compression.
index.interval.bytes: int = 4096 [0..] <- log.index.interval.bytes
    Bytes between two entries of the offset index.
delete.retention.ms: long = 86400000 [0..] <- log.cleaner.delete.retention.ms
    Time a tombstone stays in a compacted log.
min.compaction.lag.ms: long = 0 [0..] <- log.cleaner.min.compaction.lag.ms
    Time a record stays uncompacted at least.
max.compaction.lag.ms: long = 9223372036854775807 [1..] <- log.cleaner.max.compaction.lag.ms
    Time a record may stay uncompacted at most.
file.delete.delay.ms: long = 60000 [0..] <- log.segment.delete.delay.ms
    Time a deleted file stays on disk.
min.cleanable.dirty.ratio: double = 0.5 [0..1] <- log.cleaner.min.cleanable.ratio
    Share of uncompacted bytes at which the log is compacted.
cleanup.policy: list = delete {compact, delete} <- log.cleanup.policy
    Treatment of old segments: delete, compact, both or neither.
unclean.leader.election.enable: boolean = false <- unclean.leader.election.enable
    Lets a replica outside the ISR lead as a last resort, losing records.
min.insync.replicas: int = 1 [1..] <- min.insync.replicas
    In-sync replicas that must have a record before acks=all succeeds.
compression.type: string = producer {uncompressed, zstd, lz4, snappy, gzip, producer} <- compression.type
    Codec that stored batches must have; producer keeps what was sent.
compression.gzip.level: int = -1 or-minus-one [1..9] <- compression.gzip.level
    Level used where the broker compresses with gzip.
compression.lz4.level: int = 9 [1..17] <- compression.lz4.level
    Level used where the broker compresses with lz4.
compression.zstd.level: int = 3 [-131072..22] <- compression.zstd.level
    Level used where the broker compresses with zstd.
preallocate: boolean = false <- log.preallocate
    Allocates segment files at full size when they are created.
message.timestamp.type: string = CreateTime {CreateTime, LogAppendTime} <- log.message.timestamp.type
    Whether a record's time is the producer's or the broker's.
message.timestamp.before.max.ms: long = 9223372036854775807 [0..] <- log.message.timestamp.before.max.ms
    How far a record's time may lie in the past.
message.timestamp.after.max.ms: long = 3600000 [0..] <- log.message.timestamp.after.max.ms
    How far a record's time may lie in the future.
leader.replication.throttled.replicas: list = "" throttled-replicas
    Replicas throttled on the leader's side, as partition:broker pairs, or *.
follower.replication.throttled.replicas: list = "" throttled-replicas
    Replicas throttled on the follower's side, as partition:broker pairs, or *.
remote.storage.enable: boolean = false
    Keeps old segments in remote storage.
local.retention.ms: long = -2 [-2..] <- log.local.retention.ms
    Age at which a tiered log's local segments may go; -2 means retention.ms.
local.retention.bytes: long = -2 [-2..] <- log.local.retention.bytes
    Local bytes a tiered partition keeps; -2 means retention.bytes.
remote.log.copy.disable: boolean = false
    Stops further copies to remote storage and leaves what is there readable.
remote.log.delete.on.disable: boolean = false
    Deletes remote data when tiered storage is turned off.
confluent.key.schema.validation: boolean = false
    Refuses records whose keys name no schema of the topic's subject.
confluent.key.subject.name.strategy: string = io.confluent.kafka.serializers.subject.TopicNameStrategy subject-strategy
    Under which subjects a key's schema has to be registered.
confluent.value.schema.validation: boolean = false
    Refuses records whose values name no schema of the topic's subject.
confluent.value.subject.name.strategy: string = io.confluent.kafka.serializers.subject.TopicNameStrategy subject-strategy
    Under which subjects a value's schema has to be registered.
internal.segment.bytes: int internal
    Segment size in tests, below the usual minimum.
"""  # noqa: E501
