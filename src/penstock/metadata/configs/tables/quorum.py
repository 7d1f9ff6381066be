"""The controller quorum and the metadata log."""

TABLE = """
controller.listener.names: list = required not-empty
    Listeners that controllers use; brokers connect to the first.
controller.performance.sample.period.ms: long = 60000 [100..] internal
    Accepted for compatibility: everything that blocks the event loop is logged.
controller.performance.always.log.threshold.ms: long = 2000 [0..] internal
    Accepted for compatibility: everything that blocks the event loop is logged.
metadata.log.max.record.bytes.between.snapshots: long = 20971520 [1..]
    Bytes of new metadata records after which a snapshot is written.
metadata.log.max.snapshot.interval.ms: long = 3600000 [0..]
    Longest time committed metadata stays out of a snapshot; 0 turns this rule off.
metadata.log.dir: string
    Where the metadata log lives; the first of log.dirs when unset.
metadata.log.segment.bytes: int = 1073741824 [8388608..]
    Size at which a segment of the metadata log is rolled.
metadata.log.segment.ms: long = 604800000
    Age at which a segment of the metadata log is rolled.
metadata.max.retention.bytes: long = 104857600
    Size of metadata log and snapshots beyond which the oldest are deleted.
metadata.max.retention.ms: long = 604800000
    Age beyond which metadata segments and snapshots are deleted.
metadata.max.idle.interval.ms: int = 500 [0..]
    Pause after which an idle controller writes a no-op record; 0 means never.
internal.metadata.log.segment.bytes: int internal
    Segment size of the metadata log in tests.
internal.metadata.max.batch.size.in.bytes: int = 8388608 internal
    Largest batch of the metadata log in tests.
internal.metadata.delete.delay.millis: long = 60000 internal
    Wait before a metadata file is deleted, in tests.
controller.socket.timeout.ms: int = 30000
    Socket timeout from controller to broker.
controller.quorum.voters: list = "" voters
    Static voters of the quorum, as id@host:port, separated by commas.
controller.quorum.bootstrap.servers: list = "" host-ports
    Addresses at which the quorum is found, as host:port.
controller.quorum.election.timeout.ms: int = 1000 [0..]
    Longest a candidate waits for votes.
controller.quorum.fetch.timeout.ms: int = 2000 [0..]
    Time without an answer of the leader after which a voter starts an election.
controller.quorum.election.backoff.max.ms: int = 1000 [0..]
    Longest pause before a failed election is repeated.
controller.quorum.append.linger.ms: int = 25 [0..]
    Accepted for compatibility: records that arrive during a flush share the next one; no record is delayed.
controller.quorum.request.timeout.ms: int = 2000 [0..]
    Longest the node waits for an answer from the quorum.
controller.quorum.retry.backoff.ms: int = 20 [0..]
    Pause before a failed request to the quorum is repeated.
controller.quorum.auto.join.enable: boolean = false
    Lets this controller join the voters by itself.
controller.quorum.fetch.snapshot.max.bytes: int = 1048576 [1..]
    Bytes asked for in one piece of a snapshot.
controller.quorum.fetch.max.bytes: int = 1048576 [1..]
    Bytes asked for in one fetch of the metadata log.
"""
