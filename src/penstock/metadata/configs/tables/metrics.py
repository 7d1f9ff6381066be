"""Metrics, telemetry and quotas."""

TABLE = """
metrics.num.samples: int = 2 [1..]
    Samples kept to compute a metric.
metrics.sample.window.ms: long = 30000 [1..]
    Length of one metric sample.
metric.reporters: list = org.apache.kafka.common.metrics.JmxReporter cluster-wide
    Classes that report metrics.
metrics.recording.level: string = INFO
    Most detailed level of metrics recorded.
kafka.metrics.reporters: list = ""
    Classes that report the older server metrics.
kafka.metrics.polling.interval.secs: int = 10 [1..]
    Pause between two polls of the older server metrics.
telemetry.max.bytes: int = 1048576 [1..]
    Largest telemetry payload accepted from a client.
quota.window.num: int = 11 [1..]
    Samples kept for client quotas.
alter.log.dirs.replication.quota.window.num: int = 11 [1..]
    Samples kept for the quota on moves between directories.
controller.quota.window.num: int = 11 [1..]
    Samples kept for controller mutation quotas.
quota.window.size.seconds: int = 1 [1..]
    Length of one sample of client quotas.
alter.log.dirs.replication.quota.window.size.seconds: int = 1 [1..]
    Length of one sample of the quota on moves between directories.
controller.quota.window.size.seconds: int = 1 [1..]
    Length of one sample of controller mutation quotas.
penstock.metrics.port: int = -1 [-1..65535]
    Port on which metrics are served to Prometheus, 0 for a free one; -1 serves none.
penstock.metrics.host: string = 127.0.0.1
    Address on which metrics are served.
client.quota.callback.class: class
    Class that decides client quotas.
"""
