"""Tiered storage."""

TABLE = """
remote.log.storage.system.enable: boolean = false
    Switches tiered storage on for this broker.
remote.log.storage.manager.impl.prefix: string = rsm.config. not-empty
    Prefix of the properties handed to the remote storage manager.
remote.log.metadata.manager.impl.prefix: string = rlmm.config. not-empty
    Prefix of the properties handed to the remote log metadata manager.
remote.log.storage.manager.class.name: string not-empty
    Class that moves segments to and from remote storage.
remote.log.storage.manager.class.path: string
    Where the remote storage manager's class is loaded from.
remote.log.metadata.manager.class.name: string = \
        org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager not-empty
    Class that keeps the metadata of remote segments.
remote.log.metadata.manager.class.path: string
    Where the remote log metadata manager's class is loaded from.
remote.log.metadata.manager.listener.name: string not-empty
    Listener the remote log metadata manager connects to.
remote.log.metadata.custom.metadata.max.bytes: int = 128 [0..]
    Most custom metadata accepted from the storage plugin for one segment.
remote.log.index.file.cache.total.size.bytes: long = 1073741824 [1..] cluster-wide
    Disk space for index files fetched from remote storage.
remote.log.index.file.cache.ttl.ms: long = 900000 [-1..] internal
    Time after the last use at which a cached remote index is evicted.
remote.log.manager.thread.pool.size: int = 2 [1..]
    Deprecated name of remote.log.manager.follower.thread.pool.size.
remote.log.manager.copier.thread.pool.size: int = 10 [1..] cluster-wide
    Workers that copy segments to remote storage.
remote.log.manager.expiration.thread.pool.size: int = 10 [1..] cluster-wide
    Workers that delete expired remote segments.
remote.log.manager.follower.thread.pool.size: int = 2 [1..] cluster-wide
    Workers that look up the highest uploaded offset for followers.
remote.log.manager.task.interval.ms: long = 30000 [1..]
    Pause between two runs of the copy and expiry tasks.
remote.log.manager.task.retry.backoff.ms: long = 500 [1..] internal
    First pause before a failed remote task is tried again.
remote.log.manager.task.retry.backoff.max.ms: long = 30000 [1..] internal
    Longest pause before a failed remote task is tried again.
remote.log.manager.task.retry.jitter: double = 0.2 [0..0.5] internal
    Random share of the retry pause of remote tasks.
remote.log.reader.threads: int = 10 [1..] cluster-wide
    Workers that read from remote storage.
remote.log.reader.max.pending.tasks: int = 100 [1..]
    Remote reads that may wait; beyond it a fetch is answered with an error.
log.local.retention.ms: long = -2 [-2..] cluster-wide
    Age at which a tiered log's local segments may go; -2 means log.retention.ms.
log.local.retention.bytes: long = -2 [-2..] cluster-wide
    Local bytes a tiered partition keeps; -2 means log.retention.bytes.
remote.log.manager.copy.max.bytes.per.second: long = 9223372036854775807 [1..] cluster-wide
    Ceiling on the rate of copies to remote storage.
remote.log.manager.copy.quota.window.num: int = 11 [1..]
    Samples kept for the remote copy quota.
remote.log.manager.copy.quota.window.size.seconds: int = 1 [1..]
    Length of one sample of the remote copy quota.
remote.log.manager.fetch.max.bytes.per.second: long = 9223372036854775807 [1..] cluster-wide
    Ceiling on the rate of reads from remote storage.
remote.log.manager.fetch.quota.window.num: int = 11 [1..]
    Samples kept for the remote fetch quota.
remote.log.manager.fetch.quota.window.size.seconds: int = 1 [1..]
    Length of one sample of the remote fetch quota.
remote.fetch.max.wait.ms: int = 500 [1..] cluster-wide
    Longest a fetch waits for data from remote storage.
remote.list.offsets.request.timeout.ms: long = 30000 [1..] cluster-wide
    Longest a ListOffsets request waits for remote storage.
follower.fetch.last.tiered.offset.enable: boolean = false cluster-wide
    Starts new followers at the last tiered offset.
"""
