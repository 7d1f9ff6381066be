"""The process of a mirror's worker, on a real node."""

from pathlib import Path

import pytest

from penstock.mirroring.capture import worker_properties, write_private
from penstock.mirroring.errors import MirrorError
from penstock.mirroring.worker import WorkerProcess
from penstock.testing import Cluster


def test_a_worker_takes_a_connector(penstock_cluster: Cluster, penstock_topic: str, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    write_private(file, worker_properties(penstock_topic, penstock_cluster.bootstrap_servers, {}))
    worker = WorkerProcess(file, tmp_path / "worker.log")
    worker.launch()
    try:
        worker.await_ready()
        file_source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines")}
        worker.put_connector("lines", {**file_source, "topic": penstock_topic})
        assert worker.failure("lines") is None
        with pytest.raises(MirrorError, match="the worker refused the connector lines: "):
            worker.put_connector("lines", {"connector.class": "Nothing"})
    finally:
        worker.kill()


def test_a_worker_that_cannot_start_is_reported_with_its_log(
    penstock_cluster: Cluster, penstock_topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "worker.properties"
    properties = worker_properties(penstock_topic, penstock_cluster.bootstrap_servers, {})
    write_private(file, {**properties, "connect.protocol": "x"})
    worker = WorkerProcess(file, tmp_path / "worker.log")
    worker.launch()
    with pytest.raises(MirrorError, match=r"the worker has not started, log .*connect\.protocol"):
        worker.await_ready()
