"""Tests of connectors without a broker: `SourceTaskTest` and `SinkTaskTest` run a task step by step.

`memory` takes the place of a cluster: topics, offsets, transactions and a consumer. Workers use none of it.
"""

from penstock.connect.tasks.harness.task_tests import FailedRecord, SinkTaskTest, SourceTaskTest

__all__ = ["FailedRecord", "SinkTaskTest", "SourceTaskTest"]
