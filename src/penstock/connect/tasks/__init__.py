"""Runs connectors and their tasks in this process: threads, errors, offsets, transactions, consumers.

A herder builds the runner of a task with `source_runner` or `sink_runner`, and a `ConnectorRunner` for the
connector itself. It finds the plugins, merges the properties of clients, and takes the states that a
`StatusListener` gets. The harness for tests runs the same steps without a broker. Which worker
runs which task, REST and topics of workers are not the concern of this room. Its own rooms:

    sending     batches, deliveries, transactions
    sources     the loop of source tasks
    sinks       the loop of sink tasks
    harness     tasks in memory, for tests

Beside them, `runner` and `connector_runner` have the threads and states, `tolerance`, `conversion` and
`error_reports` what both kinds of tasks share, and `starting` builds everything.
"""

from penstock.connect.tasks.connector_runner import ConnectorRunner
from penstock.connect.tasks.metrics import TaskCollector, TaskMetrics
from penstock.connect.tasks.parts import (
    ClientProperties,
    ExactlyOnce,
    TaskParts,
    TransformStage,
    WorkerSettings,
    consumer_group_id,
    task_transactional_id,
)
from penstock.connect.tasks.runner import StatusListener, TaskRunner
from penstock.connect.tasks.starting import sink_runner, source_runner

__all__ = [
    "ClientProperties",
    "ConnectorRunner",
    "ExactlyOnce",
    "StatusListener",
    "TaskCollector",
    "TaskMetrics",
    "TaskParts",
    "TaskRunner",
    "TransformStage",
    "WorkerSettings",
    "consumer_group_id",
    "sink_runner",
    "source_runner",
    "task_transactional_id",
]
