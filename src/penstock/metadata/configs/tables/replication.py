"""Replication between brokers."""

TABLE = """
num.replica.alter.log.dirs.threads: int
    Not served yet: replicas do not move between directories.
replica.lag.time.max.ms: long = 30000
    Lag after which a follower leaves the in-sync replicas.
replica.socket.timeout.ms: int = 30000
    Socket timeout of replica fetches.
replica.socket.receive.buffer.bytes: int = 65536
    Accepted for compatibility: the kernel tunes the buffers of sockets that fetch from leaders.
replica.fetch.max.bytes: int = 1048576 [0..]
    Bytes a follower asks for per partition.
replica.fetch.wait.max.ms: int = 500
    Longest a leader holds a follower's fetch.
replica.fetch.backoff.ms: int = 1000 [0..]
    Pause after a follower's fetch failed.
replica.fetch.min.bytes: int = 1
    Bytes a leader waits for before it answers a follower.
replica.fetch.response.max.bytes: int = 10485760 [0..]
    Bytes a follower asks for in one response.
num.replica.fetchers: int = 1 [1..] cluster-wide
    Fetchers a follower runs per leader.
replica.high.watermark.checkpoint.interval.ms: long = 5000
    Pause between two checkpoints of the high watermarks.
auto.leader.rebalance.enable: boolean = true
    Moves leadership back to preferred replicas from time to time.
leader.imbalance.check.interval.seconds: long = 300 [1..]
    Pause between two checks for leaders that are not the preferred ones.
unclean.leader.election.interval.ms: long = 300000 [1..] internal
    Pause between two checks for partitions that need an unclean election.
replica.selector.class: string
    Class that picks the replica a consumer reads from.
replication.quota.window.num: int = 11 [1..]
    Samples kept for replication quotas.
replication.quota.window.size.seconds: int = 1 [1..]
    Length of one sample of replication quotas.
leader.replication.throttled.rate: long = 9223372036854775807 [0..] cluster-wide
    Bytes a second for throttled replicas on the leader's side.
follower.replication.throttled.rate: long = 9223372036854775807 [0..] cluster-wide
    Bytes a second for throttled replicas on the follower's side.
replica.alter.log.dirs.io.max.bytes.per.second: long = 9223372036854775807 [0..] cluster-wide
    Not served yet: replicas do not move between directories.
"""
