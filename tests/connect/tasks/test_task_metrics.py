"""The metrics of tasks, as Prometheus reads them."""

from prometheus_client import CollectorRegistry, generate_latest

from penstock.connect.stores import State
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks import TaskCollector, TaskMetrics


def test_counts_of_sources_and_sinks_are_shown() -> None:
    source = TaskMetrics(ConnectorTaskId("numbers", 0), is_source=True, state=State.RUNNING)
    source.received, source.sent, source.active = 7, 5, 2
    sink = TaskMetrics(ConnectorTaskId("files", 1), is_source=False, state=State.FAILED)
    sink.partitions, sink.errors.skipped = 3, 4
    sink.count_commit(0.0, succeeded=False)
    registry = CollectorRegistry()
    registry.register(TaskCollector(lambda: [source, sink]))
    lines = generate_latest(registry).decode().splitlines()
    prefix = "penstock_connect_task"
    assert f'{prefix}_source_record_poll_total{{connector="numbers",task="0"}} 7.0' in lines
    assert f'{prefix}_source_record_active_count{{connector="numbers",task="0"}} 2.0' in lines
    assert f'{prefix}_sink_partition_count{{connector="files",task="1"}} 3.0' in lines
    assert f'{prefix}_total_records_skipped_total{{connector="files",task="1"}} 4.0' in lines
    assert f'{prefix}_offset_commit_failure_total{{connector="files",task="1"}} 1.0' in lines
    assert f'{prefix}_status{{connector="files",state="failed",task="1"}} 1.0' in lines
