"""The producer, the consumer and the admin client, whose keys connectors may override."""

ALL = """
client.dns.lookup: STRING MEDIUM = use_all_dns_ips
    Whether a connection tries all addresses of a host, or bootstrap servers are first resolved to their
    names.
metadata.max.age.ms: LONG LOW = 300000
    Time after which metadata is read again even if no change was seen.
send.buffer.bytes: INT MEDIUM = 131072
    Send buffer of sockets; -1 leaves the system's default.
reconnect.backoff.ms: LONG LOW = 50
    First wait before another attempt to connect to a broker.
reconnect.backoff.max.ms: LONG LOW = 1000
    Longest wait before another attempt to connect to a broker.
retry.backoff.ms: LONG LOW = 100
    First wait before a failed request is sent again.
retry.backoff.max.ms: LONG LOW = 1000
    Longest wait before a failed request is sent again.
request.timeout.ms: INT MEDIUM = 30000
    Longest wait for the answer to a request.
socket.connection.setup.timeout.ms: LONG MEDIUM = 10000
    Longest that the first attempt to connect may take.
socket.connection.setup.timeout.max.ms: LONG MEDIUM = 30000
    Longest that a later attempt to connect may take.
metrics.sample.window.ms: LONG LOW = 30000
    Length of the windows that metrics are computed over.
metrics.num.samples: INT LOW = 2
    Number of windows that metrics are computed over.
metrics.recording.level: STRING LOW = INFO
    Least important metrics that are recorded.
metric.reporters: LIST LOW = org.apache.kafka.common.metrics.JmxReporter
    Java classes that report metrics; accepted and not used.
security.providers: STRING LOW = null
    Java's security providers; accepted and not used.
security.protocol: STRING MEDIUM = PLAINTEXT
    Protocol of connections to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
metadata.recovery.strategy: STRING LOW = rebootstrap
    What a client does once no known broker is left: rebootstrap or none.
metadata.recovery.rebootstrap.trigger.ms: LONG LOW = 300000
    Time without metadata after which a client starts again from the bootstrap servers.
config.providers: LIST LOW =
    Names of config providers, which read the values of variables.
"""

PRODUCER = """
bootstrap.servers: LIST HIGH
    Addresses of some brokers, as host:port separated by commas; the others are found through them.
buffer.memory: LONG HIGH = 33554432
    Bytes of records that may wait to be sent.
retries: INT HIGH = 2147483647
    How often a failed request is sent again, within delivery.timeout.ms.
acks: STRING LOW = all
    Replicas that must have a record before it counts as sent: all (or -1), 1 or 0.
compression.type: STRING HIGH = none
    Compression of batches: none, gzip, snappy, lz4 or zstd.
compression.gzip.level: INT MEDIUM = -1
    Level of gzip, 1 to 9, or -1 for its default.
compression.lz4.level: INT MEDIUM = 9
    Level of lz4, 1 to 17.
compression.zstd.level: INT MEDIUM = 3
    Level of zstd, up to 22.
batch.size: INT MEDIUM = 16384
    Bytes of records that are sent together at most, for each partition.
partitioner.adaptive.partitioning.enable: BOOLEAN LOW = true
    Whether records without keys go to fast brokers more often.
partitioner.availability.timeout.ms: LONG LOW = 0
    Time for which a broker may not accept batches before records without keys avoid it; 0 for no limit.
partitioner.ignore.keys: BOOLEAN MEDIUM = false
    Whether records with keys are spread as those without keys are.
linger.ms: LONG MEDIUM = 5
    Time that a record may wait for others to be sent together.
delivery.timeout.ms: INT MEDIUM = 120000
    Longest that sending a record may take, from the call to its acknowledgement.
client.id: STRING MEDIUM =
    Name that brokers' logs and quotas show for this client.
receive.buffer.bytes: INT MEDIUM = 32768
    Receive buffer of sockets; -1 leaves the system's default.
max.request.size: INT MEDIUM = 1048576
    Largest request in bytes, and so the largest record.
enable.metrics.push: BOOLEAN LOW = true
    Whether the client sends its metrics to the brokers if they ask for them.
max.block.ms: LONG MEDIUM = 60000
    Longest that a call waits for metadata or for room in the buffer.
metadata.max.idle.ms: LONG LOW = 300000
    Time after which metadata of an unused topic is forgotten.
max.in.flight.requests.per.connection: INT LOW = 5
    Requests on one connection that wait for their answers at most.
key.serializer: CLASS HIGH
    Java class that serializes keys; a connector's keys are bytes already.
value.serializer: CLASS HIGH
    Java class that serializes values; a connector's values are bytes already.
connections.max.idle.ms: LONG MEDIUM = 540000
    Idle time after which a connection is closed.
partitioner.class: CLASS MEDIUM = null
    Java class that chooses partitions; accepted and not used.
interceptor.classes: LIST LOW =
    Java classes that see records before they are sent; accepted and not used.
enable.idempotence: BOOLEAN LOW = true
    Whether brokers discard records that are sent twice.
transaction.timeout.ms: INT LOW = 60000
    Longest that a transaction may be open before the broker aborts it.
transactional.id: STRING LOW = null
    Name of the transactional producer.
transaction.two.phase.commit.enable: BOOLEAN LOW = false
    Whether transactions take part in two-phase commits and are never timed out.
"""

CONSUMER = """
bootstrap.servers: LIST HIGH
    Addresses of some brokers, as host:port separated by commas; the others are found through them.
group.id: STRING HIGH = null
    Name of the consumer group; by default that of a sink is connect-<name>.
group.instance.id: STRING MEDIUM = null
    Name of a static member of the group.
session.timeout.ms: INT HIGH = 45000
    Time without a heartbeat after which a member counts as failed.
heartbeat.interval.ms: INT HIGH = 3000
    Time between two heartbeats.
enable.auto.commit: BOOLEAN MEDIUM = true
    Whether offsets are committed at intervals; a sink's task always commits them itself.
auto.commit.interval.ms: INT LOW = 5000
    Time between two automatic commits.
client.id: STRING LOW =
    Name that brokers' logs and quotas show for this client.
client.rack: STRING LOW =
    Rack of the client, so that it reads from replicas nearby.
max.partition.fetch.bytes: INT HIGH = 1048576
    Bytes of one partition in an answer at most; a larger batch is returned alone.
receive.buffer.bytes: INT MEDIUM = 65536
    Receive buffer of sockets; -1 leaves the system's default.
fetch.min.bytes: INT HIGH = 1
    Bytes that the broker waits for before it answers.
fetch.max.bytes: INT MEDIUM = 52428800
    Bytes in an answer at most; a larger batch is returned alone.
fetch.max.wait.ms: INT LOW = 500
    Longest that the broker waits for fetch.min.bytes.
enable.metrics.push: BOOLEAN LOW = true
    Whether the client sends its metrics to the brokers if they ask for them.
auto.offset.reset: STRING MEDIUM = latest
    Where to read without a valid offset: earliest, latest, none (an error), or by_duration with a duration.
check.crcs: BOOLEAN LOW = true
    Whether checksums of batches are checked.
key.deserializer: CLASS HIGH
    Java class that deserializes keys; converters take bytes.
value.deserializer: CLASS HIGH
    Java class that deserializes values; converters take bytes.
default.api.timeout.ms: INT MEDIUM = 60000
    Longest that a call takes which has no timeout of its own.
connections.max.idle.ms: LONG MEDIUM = 540000
    Idle time after which a connection is closed.
interceptor.classes: LIST LOW =
    Java classes that see records before a sink does; accepted and not used.
max.poll.records: INT MEDIUM = 500
    Records that a sink's task gets at once at most.
max.poll.interval.ms: INT MEDIUM = 300000
    Longest that a task may take for its records before its partitions are given to others.
exclude.internal.topics: BOOLEAN MEDIUM = true
    Whether a pattern of topics leaves internal topics out.
isolation.level: STRING MEDIUM = read_uncommitted
    Whether records of open and aborted transactions are read too, or only committed ones.
allow.auto.create.topics: BOOLEAN MEDIUM = true
    Whether the broker may create a topic that is read.
group.protocol: STRING HIGH = classic
    Protocol of the group: classic or consumer.
group.remote.assignor: STRING MEDIUM = null
    Assignor that the broker uses, with the protocol consumer.
share.acknowledgement.mode: STRING MEDIUM = implicit
    How a share consumer acknowledges records: implicit or explicit.
share.acquire.mode: STRING MEDIUM = BATCH_OPTIMIZED
    Whether a share consumer acquires whole batches or an exact number of records.
"""

ADMIN = """
bootstrap.servers: LIST HIGH =
    Addresses of some brokers, as host:port separated by commas; the others are found through them.
bootstrap.controllers: LIST HIGH =
    Addresses of some controllers, in place of brokers.
client.id: STRING MEDIUM =
    Name that brokers' logs and quotas show for this client.
receive.buffer.bytes: INT MEDIUM = 65536
    Receive buffer of sockets; -1 leaves the system's default.
enable.metrics.push: BOOLEAN LOW = false
    Whether the client sends its metrics to the brokers if they ask for them.
connections.max.idle.ms: LONG MEDIUM = 300000
    Idle time after which a connection is closed.
retries: INT LOW = 2147483647
    How often a failed request is sent again.
default.api.timeout.ms: INT MEDIUM = 60000
    Longest that a call takes which has no timeout of its own.
"""
