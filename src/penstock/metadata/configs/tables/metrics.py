"""Metrics, telemetry and quotas."""

TABLE = """
metrics.num.samples: int = 2 [1..]
    Accepted for compatibility: metrics are counters and gauges, for Prometheus to sample.
metrics.sample.window.ms: long = 30000 [1..]
    Accepted for compatibility: metrics are counters and gauges, for Prometheus to sample.
metric.reporters: list = org.apache.kafka.common.metrics.JmxReporter cluster-wide
    Accepted for compatibility: metrics are served to Prometheus; Java classes cannot be loaded.
metrics.recording.level: string = INFO
    Accepted for compatibility: all metrics are recorded.
kafka.metrics.reporters: list = ""
    Accepted for compatibility: metrics are served to Prometheus; Java classes cannot be loaded.
kafka.metrics.polling.interval.secs: int = 10 [1..]
    Accepted for compatibility: metrics are served to Prometheus; Java classes cannot be loaded.
telemetry.max.bytes: int = 1048576 [1..]
    Not served yet: clients push no telemetry.
quota.window.num: int = 11 [1..]
    Samples over which the rates of clients and of new connections are measured.
alter.log.dirs.replication.quota.window.num: int = 11 [1..]
    Not served yet: replicas do not move between directories.
controller.quota.window.num: int = 11 [1..]
    Samples of the quota of mutations. With their length, they limit bursts to the tokens of that time.
quota.window.size.seconds: int = 1 [1..]
    Length of one of these samples.
alter.log.dirs.replication.quota.window.size.seconds: int = 1 [1..]
    Not served yet: replicas do not move between directories.
controller.quota.window.size.seconds: int = 1 [1..]
    Length of one sample of the quota of mutations.
penstock.log.level: string = INFO any-case {TRACE, DEBUG, INFO, WARN, ERROR, FATAL}
    Least severe level that the node logs when it starts; BROKER_LOGGER configs change levels while it runs.
penstock.log.format: string = text {text, json}
    Form of log lines: text, or a JSON object a line.
penstock.metrics.port: int = -1 [-1..65535]
    Port on which metrics and probes are served, 0 for a free one; -1 serves none.
penstock.metrics.host: string = 127.0.0.1
    Address on which metrics and probes are served.
penstock.metrics.authentication.method: list = NONE
    How clients of the metrics authenticate: NONE, or BASIC and BEARER; probes are open to everybody.
penstock.metrics.authentication.users: string
    File of the users that may read the metrics, with passwords and roles.
penstock.metrics.authentication.roles: list = *
    Roles of users that may read the metrics; * means all.
penstock.metrics.authentication.realm: string = penstock
    Realm that clients of the metrics see when they are asked for a password.
penstock.metrics.ssl.client.authentication: string = NONE any-case {NONE, REQUESTED, REQUIRED}
    Whether clients of the metrics must, may or need not show a certificate.
penstock.metrics.ssl.principal.mapping.rules: string = DEFAULT
    Rules that turn the name of a certificate into the name of a user of the metrics.
penstock.metrics.ssl.keystore.type: string
    Format of the key store: PEM, PKCS12 or JKS; null means what the file holds.
penstock.metrics.ssl.keystore.location: string
    File of the key store; with it, metrics and probes are served by HTTPS.
penstock.metrics.ssl.keystore.password: password
    Password of the key store.
penstock.metrics.ssl.key.password: password
    Password of the private key.
penstock.metrics.ssl.truststore.type: string
    Format of the trust store: PEM, PKCS12 or JKS; null means what the file holds.
penstock.metrics.ssl.truststore.location: string
    File of the trust store, which decides about the certificates of clients.
penstock.metrics.ssl.truststore.password: password
    Password of the trust store.
client.quota.callback.class: class
    Class that decides client quotas.
"""
