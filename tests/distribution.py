"""Distributes the tests over pytest's workers: which run on one worker together, and which start first."""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

WITHOUT_THE_SESSION: Final = frozenset(
    {
        "pipeline/changes/test_change_envelope.py",
        "pipeline/changes/test_change_histories.py",
        "pipeline/changes/test_change_ordering.py",
        "pipeline/changes/test_change_targets.py",
        "pipeline/test_common_reading.py",
        "pipeline/test_hosting.py",
        "pipeline/test_sink_exactly_once.py",
        "pipeline/test_sink_exactly_once_writer.py",
        "pipeline/test_sink_ownership.py",
        "pipeline/test_source_group.py",
        "pipeline/test_source_readers.py",
        "pipeline/test_source_stream.py",
        "pipeline/test_source_tail.py",
        "pipeline/launching/test_spark_java.py",
        "pipeline/test_sql_flights.py",
        "pipeline/test_sql_server_spark.py",
        "pipeline/streams/test_streams_kill.py",
        "pipeline/streams/test_streams_oracle.py",
        "pipeline/streams/test_streams_tasks.py",
        "pipeline/launching/test_worker_python.py",
    }
)
"""Files of tests/pipeline that need no Spark session, or start Spark in processes of their own. All others
share the session of one worker.
"""
LONGEST_FIRST: Final = (
    "spark",
    "clients/test_spark_kafka_connector.py",
    "pipeline/test_sink_exactly_once.py",
    "pipeline/test_sql_flights.py",
    "pipeline/test_sql_server_spark.py",
    "simulation/test_seeds.py",
    "demo/test_demo_job.py",
    "streams/test_operators_kafka.py",
    "streams/test_kafka_streams.py",
    "cluster/test_three_nodes.py",
    "cluster/test_interchange.py",
    "cluster/test_kill.py",
    "views/test_view_cluster.py",
)
"""The longest tests start first; otherwise one worker would still run them after the others have finished."""
_PLACES: Final = {group: place for place, group in enumerate(LONGEST_FIRST)}


class ByFile(LoadScopeScheduling):
    """Run the tests of one file on one worker: they share nodes and Java programs that take seconds to start.

    The groups of `--dist loadgroup` would do, but pytest 9.2 ignores them (pytest-xdist 3.8).
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a worker, and return the test during which it was lost.

        LoadScopeScheduling would give this test to the next worker. So a test that hangs would end one worker
        after another, each only after its timeout.
        """
        for tests in self.assigned_work[node].values():
            for nodeid, is_done in tests.items():
                if not is_done:
                    tests[nodeid] = True
                    super().remove_node(node)
                    return nodeid
        super().remove_node(node)
        return None


def group_of(nodeid: str) -> str:
    """The name of the group of tests that run on one worker."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return "spark" if file.startswith("pipeline/") and file not in WITHOUT_THE_SESSION else file


def place_of(nodeid: str) -> int:
    """The place of a test's group among those that start first; all others have the last place."""
    return _PLACES.get(group_of(nodeid), len(_PLACES))
