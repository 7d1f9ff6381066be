"""Properties that are accepted without effect, because servers' files and clients of ksqlDB set them.

They tune parts that Penstock does not have: Kafka Streams' threads, Java's clients, thread pools, metrics. A
property that limits or protects something is not among them, because its users would believe that it works.
Names are separated by spaces.
"""

from __future__ import annotations

from typing import Final

STREAMS: Final = """
    acceptable.recovery.lag application.id batch.size buffered.records.per.partition commit.interval.ms
    compression.type default.deserialization.exception.handler default.production.exception.handler
    enable.auto.commit heartbeat.interval.ms interceptor.classes linger.ms max.block.ms max.poll.interval.ms
    max.poll.records max.task.idle.ms max.warmup.replicas num.standby.replicas num.stream.threads poll.ms
    probing.rebalance.interval.ms processing.guarantee replication.factor retries session.timeout.ms state.dir
    statestore.cache.max.bytes task.timeout.ms topology.optimization window.size.ms
    __emit.interval.ms.kstreams.outer.join.spurious.results.fix__
    __emit.interval.ms.kstreams.windowed.aggregation__
"""
"""Properties of Kafka Streams and its clients, of any value."""
FLAGS: Final = """
    ksql.endpoint.migrate.query ksql.json_sr.converter.deserializer.enabled ksql.new.query.planner.enabled
    ksql.query.pull.consistency.token.enabled ksql.query.pull.enable.standby.reads
    ksql.query.pull.interpreter.enabled ksql.query.pull.metrics.enabled ksql.query.push.v2.alos.enabled
    ksql.query.push.v2.enabled ksql.query.push.v2.interpreter.enabled ksql.query.push.v2.metrics.enabled
    ksql.query.push.v2.registry.installed ksql.queryanonymizer.logs_enabled
    ksql.runtime.feature.shared.enabled ksql.transient.query.cleanup.service.enable ksql.udf.collect.metrics
"""
NUMBERS: Final = """
    ksql.admin.request.retry.timeout.ms ksql.fetch.remote.hosts.max.timeout.seconds
    ksql.query.cleanup.shutdown.timeout.ms ksql.query.persistent.max.bytes.buffering.total
    ksql.query.pull.coordinator.queue.capacity ksql.query.pull.forwarding.timeout.ms
    ksql.query.pull.router.queue.capacity ksql.query.pull.router.thread.pool.size
    ksql.query.pull.thread.pool.size ksql.query.push.v2.catchup.consumer.msg.window
    ksql.query.push.v2.latest.reset.age.ms ksql.query.push.v2.max.catchup.consumers
    ksql.query.push.v2.new.latest.delay.ms ksql.query.status.running.threshold.seconds
    ksql.query.transient.max.bytes.buffering.total ksql.shared.runtimes.count
    ksql.sink.window.change.log.additional.retention ksql.suppress.buffer.size.bytes
    ksql.transient.query.cleanup.service.initial.delay.seconds
    ksql.transient.query.cleanup.service.period.seconds
"""
TEXTS: Final = """
    ksql.deployment.type ksql.metastore.backup.location ksql.metrics.tags.custom ksql.persistent.prefix
    ksql.queryanonymizer.cluster_namespace ksql.transient.prefix
"""
ALWAYS_TRUE: Final = """
    ksql.cast.strings.preserve.nulls ksql.create.or.replace.enabled ksql.headers.columns.enabled
    ksql.lambdas.enabled ksql.nested.error.set.null ksql.query.pull.limit.clause.enabled
    ksql.source.table.materialization.enabled ksql.suppress.enabled ksql.udfs.enabled
    ksql.variable.substitution.enable
"""
"""Features that Penstock always has. Only ksqlDB's default, which turns each of them on, is accepted."""
FUNCTIONS_PREFIX: Final = "ksql.functions."
"""Functions of users may read any property with this prefix, as `ksql.functions.substring.legacy.args`."""
