"""Fetches of data that a worker reads and checks first: complete, in order, and never damaged."""

import os
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_wire import Wire, batch_of, fetch_request
from penstock.protocol.batch import iter_headers
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchResponse, MetadataRequest, MetadataResponse
from penstock.storage.disk.page_cache import PAGE_CACHE
from penstock.testing import Cluster

StartNode = Callable[..., Cluster]


def fill(wire: Wire, topic: str, batches: int = 40) -> None:
    wire.create_topic(topic, partitions=2)
    for partition in (0, 1):
        for number in range(batches):
            wire.produce(topic, batch_of(b"%3d" % number * 5_000), partition)


def segment(cluster: Cluster, topic: str, partition: int = 0) -> Path:
    return cluster.data_dir / f"{topic}-{partition}" / "00000000000000000000.log"


def metric(cluster: Cluster, name: str) -> float:
    address = re.findall(r"metrics served address=(\S+)", cluster.log_file.read_text())[-1]
    with urllib.request.urlopen(f"http://{address}/metrics") as page:
        return float(re.findall(rf"^{name} (\S+)", page.read().decode(), re.MULTILINE)[0])


def test_what_was_there_at_the_start_is_checked_by_a_worker_once(start_node: StartNode) -> None:
    cluster = start_node(penstock_metrics_port="0")
    with Wire(cluster.bootstrap_servers) as wire:
        fill(wire, "old")
        assert len(wire.values("old")) == 40
    assert metric(cluster, "penstock_cold_reads_total") == 0
    cluster.restart()
    with Wire(cluster.bootstrap_servers) as wire:
        assert wire.values("old") == [b"%3d" % number * 5_000 for number in range(40)]
        first = metric(cluster, "penstock_cold_reads_total")
        assert first > 0
        assert len(wire.values("old")) == 40
        wire.produce("old", batch_of(b"new"))
        assert wire.values("old", 40) == [b"new"]
        assert metric(cluster, "penstock_cold_reads_total") == first


def test_what_left_memory_is_read_by_a_worker(start_node: StartNode) -> None:
    cluster = start_node(penstock_metrics_port="0")
    with Wire(cluster.bootstrap_servers) as wire:
        fill(wire, "cold", 150)
        with segment(cluster, "cold").open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if PAGE_CACHE.holds(file.fileno(), 0, 100_000):
                pytest.skip("this file system keeps all in memory")
        assert wire.values("cold") == [b"%3d" % number * 5_000 for number in range(150)]
    assert metric(cluster, "penstock_cold_reads_total") > 0


def test_what_the_kernel_read_ahead_is_checked_too(start_node: StartNode) -> None:
    """The damage lies far beyond the first read, in pages that the kernel reads ahead."""
    cluster = start_node()
    with Wire(cluster.bootstrap_servers) as wire:
        fill(wire, "ahead", 150)
        path = segment(cluster, "ahead")
        place = [position for position, _ in iter_headers(path.read_bytes())][120]
        with path.open("r+b") as file:
            file.seek(place + 3_000)
            file.write(b"?")
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if PAGE_CACHE.holds(file.fileno(), 0, 100_000):
                pytest.skip("this file system keeps all in memory")
        offset = 0
        while (answer := wire.fetch("ahead", offset)).error_code == ErrorCode.NONE:
            offset = max(header.next_offset for _, header in iter_headers(bytes(answer.records or b"")))
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
        assert offset == 120


def test_responses_stay_in_order_around_a_cold_read(start_node: StartNode) -> None:
    cluster = start_node()
    with Wire(cluster.bootstrap_servers) as wire:
        fill(wire, "order")
    cluster.restart()
    with Wire(cluster.bootstrap_servers) as wire:
        wire.send(fetch_request("order", {0: 0, 1: 3}), 12)
        wire.send(MetadataRequest(topics=[]), 12)
        wire.send(fetch_request("order", {0: 0, 1: 3}), 12)
        answers = [wire.receive(FetchResponse)]
        wire.receive(MetadataResponse)
        answers.append(wire.receive(FetchResponse))
        for answer in answers:
            found = {data.partition_index: data for data in answer.responses[0].partitions}
            for partition, offset in ((0, 0), (1, 3)):
                headers = [h for _, h in iter_headers(bytes(found[partition].records or b""))]
                assert headers[0].base_offset == offset
                assert headers[-1].base_offset == 39
                assert found[partition].high_watermark == 40


def test_a_client_that_leaves_during_a_cold_read_harms_nobody(start_node: StartNode) -> None:
    cluster = start_node()
    with Wire(cluster.bootstrap_servers) as wire:
        fill(wire, "left")
    cluster.restart()
    for _ in range(5):
        with Wire(cluster.bootstrap_servers) as leaver:
            leaver.send(fetch_request("left", {0: 0, 1: 0}), 12)
    with Wire(cluster.bootstrap_servers) as wire:
        assert len(wire.values("left")) == 40


def test_a_damaged_batch_is_never_served(start_node: StartNode) -> None:
    cluster = start_node(penstock_metrics_port="0")
    with Wire(cluster.bootstrap_servers) as wire:
        fill(wire, "damaged")
    cluster.stop()
    path = segment(cluster, "damaged")
    data = bytearray(path.read_bytes())
    place = [position for position, _ in iter_headers(data)][17]
    data[place + 3_000] ^= 1
    path.write_bytes(data)
    cluster.start()
    with Wire(cluster.bootstrap_servers) as wire:
        response = wire.ask(fetch_request("damaged", {0: 0, 1: 0}), FetchResponse, 12)
        found = {data.partition_index: data for data in response.responses[0].partitions}
        sound = list(iter_headers(bytes(found[0].records or b"")))
        assert [header.base_offset for _, header in sound] == list(range(17))
        assert len(list(iter_headers(bytes(found[1].records or b"")))) == 40
        for offset in (17, 17, 16, 17):
            answer = wire.fetch("damaged", offset)
            records = bytes(answer.records or b"")
            if offset == 17:
                assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
                assert records == b""
            else:
                assert [header.base_offset for _, header in iter_headers(records)] == [16]
        after = bytes(wire.fetch("damaged", 18).records or b"")
        assert [header.base_offset for _, header in iter_headers(after)] == list(range(18, 40))
    assert metric(cluster, "penstock_damaged_reads_total") == 3
    told = [line for line in cluster.log_file.read_text().splitlines() if "corrupt log" in line]
    assert told
    for line in told:
        assert "damaged-0" in line
        assert str(path) in line
        assert f"byte {place} (offset 17)" in line
