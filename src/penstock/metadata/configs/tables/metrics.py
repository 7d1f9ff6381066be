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
client.quota.callback.class: class
    Class that decides client quotas.
"""
