"""Workers, standalone and distributed, and their REST API."""

WORKER = """
bootstrap.servers: LIST HIGH
    Addresses of some brokers, as host:port separated by commas; the others are found through them.
client.dns.lookup: STRING MEDIUM = use_all_dns_ips
    Whether a connection tries all addresses of a host, or bootstrap servers are first resolved to their
    names.
key.converter: CLASS HIGH
    Converter of the keys of records, unless a connector has its own; for instance JsonConverter.
key.converter.plugin.version: STRING LOW = null
    Version of the key converter, or a range of versions.
value.converter: CLASS HIGH
    Converter of the values of records, unless a connector has its own; for instance JsonConverter.
value.converter.plugin.version: STRING LOW = null
    Version of the value converter, or a range of versions.
task.shutdown.graceful.timeout.ms: LONG LOW = 5000
    Time that all tasks together have to stop.
offset.flush.interval.ms: LONG LOW = 60000
    Time between two commits of a task's offsets.
offset.flush.timeout.ms: LONG LOW = 5000
    Longest that a commit of offsets waits for records; later the commit is tried again. Exactly-once
    sources do not use it.
plugin.path: LIST LOW = null
    Directories with Java plugins; accepted and not used, since plugins in Python are found by entry points.
plugin.discovery: STRING LOW = hybrid_warn
    How Java plugins are found; accepted and not used.
metrics.sample.window.ms: LONG LOW = 30000
    Length of the windows that metrics are computed over.
metrics.num.samples: INT LOW = 2
    Number of windows that metrics are computed over.
metrics.recording.level: STRING LOW = INFO
    Least important metrics that are recorded.
metric.reporters: LIST LOW = org.apache.kafka.common.metrics.JmxReporter
    Java classes that report metrics; accepted and not used.
header.converter: CLASS LOW = org.apache.kafka.connect.storage.SimpleHeaderConverter
    Converter of the headers of records, unless a connector has its own.
header.converter.plugin.version: STRING LOW = null
    Version of the header converter, or a range of versions.
config.providers: LIST LOW =
    Names of config providers, which read the values of variables such as ${file:/run/secrets/db:password}.
connector.client.config.override.policy: STRING MEDIUM = All
    Which properties of clients connectors may override: All, None, Principal, or Allowlist with
    connector.client.config.override.allowlist.
topic.creation.enable: BOOLEAN LOW = true
    Whether workers create the topics of sources whose connectors have topic.creation properties.
"""

REST = """
topic.tracking.enable: BOOLEAN LOW = true
    Whether the topics that a connector used are recorded.
topic.tracking.allow.reset: BOOLEAN LOW = true
    Whether users may clear the recorded topics of a connector.
listeners: LIST LOW = http://:8083
    URLs that the REST API listens on; without a host it listens on the default interface.
rest.advertised.host.name: STRING LOW = null
    Host name by which other workers reach this one.
rest.advertised.port: INT LOW = null
    Port by which other workers reach this one.
rest.advertised.listener: STRING LOW = null
    Protocol by which other workers reach this one: HTTP or HTTPS.
access.control.allow.origin: STRING LOW =
    Domain whose web pages may use the REST API, or * for all.
access.control.allow.methods: STRING LOW =
    HTTP methods that web pages of other domains may use; GET, POST and HEAD if empty.
response.http.headers.config: STRING LOW =
    Headers to add to responses, such as: add Cache-Control: no-cache.
ssl.client.auth: STRING LOW = none
    Whether clients of the REST API need certificates: required, requested or none.
rest.extension.classes: LIST LOW =
    Java classes that extend the REST API; accepted and not used.
admin.listeners: LIST LOW = null
    URLs for administration, in place of the listeners; an empty text switches these endpoints off.
"""

STANDALONE = """
offset.storage.file.filename: STRING HIGH
    File that keeps the offsets of sources.
"""

DISTRIBUTED = """
group.id: STRING HIGH
    Name of the Connect cluster; workers that share it share connectors and tasks.
session.timeout.ms: INT HIGH = 10000
    Time without a heartbeat after which a worker counts as failed.
rebalance.timeout.ms: INT HIGH = 60000
    Longest that workers may take to join a rebalance, flushes of data and offsets included.
heartbeat.interval.ms: INT HIGH = 3000
    Time between two heartbeats; at most a third of the session timeout is sensible.
exactly.once.source.support: STRING HIGH = disabled
    Whether sources write records and offsets in transactions. An existing cluster first sets preparing on
    all workers, then enabled.
metadata.max.age.ms: LONG LOW = 300000
    Time after which metadata is read again even if no change was seen.
client.id: STRING LOW =
    Name that brokers' logs and quotas show for this client.
send.buffer.bytes: INT MEDIUM = 131072
    Send buffer of sockets; -1 leaves the system's default.
receive.buffer.bytes: INT MEDIUM = 32768
    Receive buffer of sockets; -1 leaves the system's default.
reconnect.backoff.ms: LONG LOW = 50
    First wait before another attempt to connect to a broker.
reconnect.backoff.max.ms: LONG LOW = 1000
    Longest wait before another attempt to connect to a broker.
socket.connection.setup.timeout.ms: LONG LOW = 10000
    Longest that the first attempt to connect may take.
socket.connection.setup.timeout.max.ms: LONG LOW = 30000
    Longest that a later attempt to connect may take.
retry.backoff.ms: LONG LOW = 100
    First wait before a failed request is sent again.
retry.backoff.max.ms: LONG LOW = 1000
    Longest wait before a failed request is sent again.
request.timeout.ms: INT MEDIUM = 40000
    Longest wait for the answer to a request.
connections.max.idle.ms: LONG MEDIUM = 540000
    Idle time after which a connection is closed.
security.protocol: STRING MEDIUM = PLAINTEXT
    Protocol of connections to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
"""

STORAGE = """
worker.sync.timeout.ms: INT MEDIUM = 3000
    Longest that a worker tries to catch up with the config topic before it leaves the group.
worker.unsync.backoff.ms: INT MEDIUM = 300000
    Time that a worker stays out of the group after it could not catch up.
offset.storage.topic: STRING HIGH
    Topic with the offsets of sources.
offset.storage.partitions: INT LOW = 25
    Partitions of the offset topic if the worker creates it.
offset.storage.replication.factor: SHORT LOW = 3
    Replicas of the offset topic if the worker creates it.
config.storage.topic: STRING HIGH
    Topic with the configurations of connectors.
config.storage.replication.factor: SHORT LOW = 3
    Replicas of the config topic if the worker creates it.
status.storage.topic: STRING HIGH
    Topic with the states of connectors and tasks.
status.storage.partitions: INT LOW = 5
    Partitions of the status topic if the worker creates it.
status.storage.replication.factor: SHORT LOW = 3
    Replicas of the status topic if the worker creates it.
connect.protocol: STRING LOW = sessioned
    Newest group protocol that the worker offers: eager, compatible or sessioned.
scheduled.rebalance.max.delay.ms: INT LOW = 300000
    Time that connectors and tasks of a lost worker wait for its return.
inter.worker.key.ttl.ms: INT LOW = 3600000
    Time after which the key that signs requests between workers is replaced.
inter.worker.key.generation.algorithm: STRING LOW = HmacSHA256
    Algorithm for which that key is generated.
inter.worker.key.size: INT LOW = null
    Size of that key in bits; the algorithm's own size if unset.
inter.worker.signature.algorithm: STRING LOW = HmacSHA256
    Algorithm that signs requests between workers.
inter.worker.verification.algorithms: LIST LOW = HmacSHA256
    Algorithms by which requests of other workers may be signed.
metadata.recovery.strategy: STRING LOW = rebootstrap
    What a client does once no known broker is left: rebootstrap or none.
metadata.recovery.rebootstrap.trigger.ms: LONG LOW = 300000
    Time without metadata after which a client starts again from the bootstrap servers.
"""
