"""Listeners, connections and requests."""

TABLE = """
num.io.threads: int = 8 [1..] cluster-wide
    Accepted for compatibility: requests are handled on the event loop.
request.timeout.ms: int = 30000
    Longest the node waits for an answer to a request of its own.
socket.connection.setup.timeout.ms: long = 10000
    Longest an attempt to connect to another node may take.
socket.connection.setup.timeout.max.ms: long = 30000
    Accepted for compatibility: every attempt to connect may take equally long.
max.incremental.fetch.session.cache.slots: int = 1000 [0..]
    Incremental fetch sessions kept at most.
fetch.max.bytes: int = 57671680 [1024..]
    Most bytes one fetch response may carry.
listeners: list = PLAINTEXT://:9092 not-empty per-broker
    Addresses to listen on, as NAME://host:port, separated by commas.
advertised.listeners: list not-empty
    Addresses that clients connect to; those of listeners when unset.
listener.security.protocol.map: string = \
        SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT per-broker
    Security protocol of each listener name.
socket.send.buffer.bytes: int = 102400
    SO_SNDBUF of client sockets; -1 leaves the system's default.
socket.receive.buffer.bytes: int = 102400
    SO_RCVBUF of client sockets; -1 leaves the system's default.
socket.request.max.bytes: int = 104857600 [1..]
    Largest request frame accepted.
socket.listen.backlog.size: int = 50 [1..]
    Connections that may wait to be accepted.
max.connections.per.ip: int = 2147483647 [0..] cluster-wide
    Connections allowed from one address.
max.connections.per.ip.overrides: string = "" cluster-wide
    Exceptions to max.connections.per.ip, as host:count pairs.
max.connections: int = 2147483647 [0..] cluster-wide
    Connections allowed on this broker.
max.connection.creation.rate: int = 2147483647 [0..] cluster-wide
    New connections a second; beyond it, listeners accept none for a while.
connections.max.idle.ms: long = 600000
    Idle time after which a connection is closed.
connection.failed.authentication.delay.ms: int = 100 [0..]
    Pause before a connection that failed authentication is closed.
queued.max.requests: int = 500 [1..]
    Accepted for compatibility: requests do not queue; connections are read as they are answered.
queued.max.request.bytes: long = -1
    Bytes of requests that may wait before sockets are no longer read; -1 sets no limit.
num.network.threads: int = 3 [1..] cluster-wide
    Accepted for compatibility: one event loop serves all sockets.
fetch.purgatory.purge.interval.requests: int = 1000
    Accepted for compatibility: finished fetches leave the purgatory at once.
producer.purgatory.purge.interval.requests: int = 1000
    Accepted for compatibility: finished produces leave the purgatory at once.
delete.records.purgatory.purge.interval.requests: int = 1
    Accepted for compatibility: finished deletions leave the purgatory at once.
security.inter.broker.protocol: string = PLAINTEXT {PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL}
    Security protocol between brokers; excludes inter.broker.listener.name.
inter.broker.listener.name: string
    Listener that brokers use among themselves.
"""
